"""Every kind through every door: who stores, sees, uses, changes and removes it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from accounts.models import ApiToken
from accounts.principal import Principal
from common.errors import Forbidden, NotFound
from credentials import references, selectors
from credentials.kinds import KINDS, Part
from credentials.models import Credential
from events.models import Event
from tests.credentials import samples

pytestmark = pytest.mark.django_db

API = "/api/v1/projects/vision/credentials"
OWN = "/api/v1/me/credentials"
PAGE = "/projects/vision/credentials/"
OWN_PAGE = "/settings/credentials"


def call(client: Any, verb: str, url: str, body: Any = None) -> Any:
    return client.generic(verb, url, json.dumps(body or {}), content_type="application/json")


def given(kind: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "name": f"my {kind}", **samples.fields(kind), **more}


def told(answer: Any, kind: str) -> None:
    text = answer.content.decode()
    for secret in samples.secrets_of(kind):
        assert not any(form in text for form in samples.spelled(secret)), answer.request


@pytest.mark.parametrize("kind", samples.KINDS)
def test_every_kind_goes_in_by_the_api_and_is_never_told(
    project: Any, mona: Any, bob: Any, as_user: Any, kind: str
) -> None:
    client = as_user(mona)
    made = call(client, "POST", API, given(kind))
    assert made.status_code == 201, made.content
    row = Credential.objects.get()
    assert (row.kind, row.version, row.owner) == (kind, 1, mona)
    again = {n: v for n, v in samples.fields(kind).items() if n in KINDS[kind].names(Part.SECRET)}
    rotated = call(client, "POST", f"{API}/{row.uid}/rotate", again)
    assert (rotated.status_code, rotated.json()["version"]) == (200, 2), rotated.content
    for answer in (
        made,
        rotated,
        client.get(API),
        client.get(f"{API}/{row.uid}"),
        client.get(f"{API}/usable"),
        as_user(bob).get(f"{API}/usable"),
        client.get(PAGE),
        client.get(f"{PAGE}{row.uid}/"),
        call(client, "PATCH", f"{API}/{row.uid}", {"description": "for the tests"}),
    ):
        assert answer.status_code in {200, 201}
        told(answer, kind)
    for secret in samples.secrets_of(kind):
        assert secret not in repr(list(Event.objects.values()))
        assert secret not in repr(list(Credential.objects.values()))


@pytest.mark.parametrize("kind", samples.KINDS)
def test_every_kind_has_a_form_of_its_own(
    project: Any, alice: Any, as_user: Any, kind: str
) -> None:
    client = as_user(alice)
    page = client.get(f"{PAGE}?kind={kind}").content.decode()
    for field in KINDS[kind].fields:
        assert f'name="{field.name}"' in page, field.name
    typed = {"kind": kind, "name": "by form", **samples.fields(kind)}
    if kind == "generic":
        typed["values"] = f"# one\nAPI_TOKEN={samples.VALUE}\nexport B = c=d \n"
        typed["given_as"] = "env"
    if kind == "s3-compatible":
        typed["path_style"] = "on"
    wrong = client.post(PAGE, {**typed, "name": " "})
    assert wrong.status_code == 422
    told(wrong, kind)
    assert not Credential.objects.exists()
    made = client.post(PAGE, typed)
    assert made.status_code == 302, made.content.decode()[-4000:]
    row = Credential.objects.get()
    told(client.get(made["Location"]), kind)
    if kind == "generic":
        from credentials.decrypt import opened

        assert opened(row) == {"API_TOKEN": samples.VALUE, "B": "c=d"}
    changed = client.post(f"{PAGE}{row.uid}/edit", {**typed, "name": "renamed"})
    assert changed.status_code == 302, changed.content.decode()[-3000:]
    assert Credential.objects.get().name == "renamed"


@pytest.mark.parametrize("kind", samples.KINDS)
def test_no_two_parts_of_a_page_have_one_id(
    project: Any, keep: Any, alice: Any, as_user: Any, kind: str
) -> None:
    import re

    row = keep(kind)
    for tab in ("", "events", "settings"):
        page = as_user(alice).get(f"{row.get_absolute_url()}{tab}").content.decode()
        ids = re.findall(r'\bid="([^"]+)"', page)
        assert len(ids) == len(set(ids)), sorted(i for i in ids if ids.count(i) > 1)


def test_a_key_may_be_chosen_as_a_file(project: Any, alice: Any, as_user: Any) -> None:
    from django.core.files.uploadedfile import SimpleUploadedFile

    client = as_user(alice)
    text = json.dumps(samples.service_account()).encode()
    for body, status in ((text, 302), (b"\xff\xfe", 422), (b"x" * 20_000, 422), (b"", 422)):
        chosen = SimpleUploadedFile("key.json", body)
        form = {"kind": "gcs", "name": f"n{len(body)}", "key_file": chosen}
        assert client.post(PAGE, form).status_code == status, body[:10]
    kaggle = SimpleUploadedFile("kaggle.json", b'{"key": "x"}\n')
    form = {"kind": "generic", "name": "k", "given_as": "file", "file_name": "kaggle.json"}
    assert client.post(PAGE, {**form, "values_file": kaggle}).status_code == 302
    assert Credential.objects.get(name="k").public["names"] == ["kaggle.json"]


def test_ones_own_is_seen_by_nobody_else(
    project: Any, bob: Any, alice: Any, operator: Any, as_user: Any
) -> None:
    client = as_user(bob)
    made = call(client, "POST", OWN, given("s3"))
    assert (made.status_code, made.json()["personal"]) == (201, True)
    row = Credential.objects.get()
    assert (row.project, row.usable_by) == (None, "owner")
    assert client.get(OWN).json()["results"][0]["id"] == str(row.uid)
    assert client.get(f"{OWN_PAGE}/{row.uid}").status_code == 200
    assert row.name in client.get(OWN_PAGE).content.decode()
    assert client.get(f"{API}/{row.uid}").status_code == 404
    assert client.get(API).json()["results"] == []
    for other in (alice, operator):
        theirs = as_user(other)
        assert theirs.get(OWN).json()["results"] == []
        assert row.name not in theirs.get(OWN_PAGE).content.decode()
        for url in (f"{OWN}/{row.uid}", f"{API}/{row.uid}"):
            for verb, part in (
                ("GET", ""),
                ("PATCH", ""),
                ("DELETE", ""),
                ("POST", "/rotate"),
                ("POST", "/test"),
            ):
                assert call(theirs, verb, url + part).status_code == 404, (verb, url)
        for part in ("", "/edit", "/delete", "/test"):
            assert theirs.post(f"{OWN_PAGE}/{row.uid}{part}").status_code == 404
    assert client.delete(f"{OWN}/{row.uid}").status_code == 204


def test_ones_own_goes_through_its_pages(bob: Any, as_user: Any) -> None:
    client = as_user(bob)
    assert "Container registry" not in client.get(OWN_PAGE).content.decode()
    made = client.post(OWN_PAGE, {"kind": "git", "name": "mine", **samples.fields("git")})
    assert made.status_code == 302
    page = made["Location"]
    assert client.post(page, {"token": "another-token"}).status_code == 302
    row = Credential.objects.get()
    assert (row.version, row.username) == (2, "robot")
    assert client.post(f"{page}/edit", {"name": "new", "repository": "a/b"}).status_code == 302
    assert client.post(f"{page}/delete", {"confirm": "mine"}).status_code == 422
    assert client.post(f"{page}/delete", {"confirm": "new"}).status_code == 302
    assert not Credential.objects.exists()


def test_a_registry_is_a_projects(bob: Any, as_user: Any) -> None:
    answer = call(as_user(bob), "POST", OWN, given("registry"))
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["kind"])


def test_names_are_ones_own_per_person_and_per_project(
    project: Any, alice: Any, bob: Any, as_user: Any
) -> None:
    for person in (alice, bob):
        assert call(as_user(person), "POST", OWN, given("git", name="x")).status_code == 201
    assert call(as_user(alice), "POST", API, given("git", name="x")).status_code == 201
    for url in (OWN, API):
        again = call(as_user(alice), "POST", url, given("s3", name="x"))
        assert (again.status_code, list(again.json()["fields"])) == (409, ["name"])


def test_a_token_needs_the_scope_of_the_account(
    bob: Any, as_user: Any, principal: Any, client: Any
) -> None:
    from accounts.services.tokens import token_create

    who = principal(bob)
    _row, small = token_create(who=who, name="a", scopes=["workspace:read"])
    _row, reads = token_create(who=who, name="b", read_only=True)
    for token, seen in ((small, 403), (reads, 200)):
        bearer = {"Authorization": f"Bearer {token}"}
        assert client.get(OWN, headers=bearer).status_code == seen
        body = json.dumps(given("git"))
        answer = client.post(OWN, body, content_type="application/json", headers=bearer)
        assert answer.status_code == 403


# --- A5 and D12 ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", samples.KINDS)
def test_a5_nobody_sets_what_he_was_not_offered(
    project: Any, keep: Any, alice: Any, as_user: Any, kind: str
) -> None:
    row = keep(kind)
    before = Credential.objects.filter(pk=row.pk).values().get()
    client = as_user(alice)
    target = KINDS[kind].names(Part.TARGET)
    secret = [f.name for f in KINDS[kind].fields if f.part is Part.SECRET]
    fields = [
        *("kind", "project", "owner", "version", "uid", "id", "sealed", "sealed_with", "public"),
        *("stored_by", "target", "rotated_at", "last_used_at", "test_ok", "warned", "created_at"),
        *target,
        *secret,
    ]
    for field in fields:
        answer = call(client, "PATCH", f"{API}/{row.uid}", {field: "x"})
        assert answer.status_code == 400, field
        assert field in answer.json()["fields"]
    for field in ("kind", "project", "version", "name", "usable_by", *target):
        answer = call(client, "POST", f"{API}/{row.uid}/rotate", {field: "x"})
        assert answer.status_code == 400, field
        assert field in answer.json()["fields"]
    for field in ("project", "owner", "version", "profile", "credential_process", "role_arn"):
        answer = call(client, "POST", API, given(kind, name="y", **{field: "x"}))
        assert answer.status_code == 400, field
        assert field in answer.json()["fields"]
    assert Credential.objects.filter(pk=row.pk).values().get() == before
    assert Credential.objects.count() == 1


def test_d3_no_profile_process_or_web_identity_is_a_field(
    project: Any, alice: Any, as_user: Any
) -> None:
    client = as_user(alice)
    for name in (
        "profile",
        "credential_process",
        "role_arn",
        "web_identity_token_file",
        "env_auth",
    ):
        for kind in ("s3", "s3-compatible"):
            answer = call(client, "POST", API, given(kind, **{name: "x"}))
            assert (answer.status_code, list(answer.json()["fields"])) == (400, [name])


def test_d12_foreign_credentials_are_not_there(
    project: Any, keep: Any, charlie: Any, bob: Any, principal: Any
) -> None:
    from projects.models import Membership, Project

    theirs, own = keep("s3"), keep("git", own=bob)
    mine = Project.objects.create(slug="mine", name="Mine", phase="running")
    Membership.objects.create(project=mine, user=charlie, role="owner")
    who = principal(charlie)
    assert not selectors.credentials_usable(who, mine).exists()
    for row in (theirs, own):
        for where in (mine, project):
            with pytest.raises(NotFound):
                selectors.credential_for_use(who, where, row.uid)
        assert selectors.credentials_for_launch(charlie, mine, [row.uid]) == []


# --- Who may use what ---------------------------------------------------------------------------


def test_usable_by_says_who(
    project: Any, keep: Any, alice: Any, mona: Any, bob: Any, vera: Any, principal: Any
) -> None:
    keep("s3", "all")
    keep("s3", "managers", usable_by="managers")
    keep("s3", "alices", usable_by="owner")
    keep("s3", "bobs", own=bob)
    keep("registry", "pulls")
    may = {
        alice: {"all", "managers", "alices"},
        mona: {"all", "managers"},
        bob: {"all", "bobs"},
        vera: set(),
    }
    for person, names in may.items():
        rows = selectors.credentials_usable(principal(person), project)
        assert {row.name for row in rows} == names
        limited = Principal(user=person, token=ApiToken(project_uids=[str(project.uid)]))
        rows = selectors.credentials_usable(limited, project)
        assert {row.name for row in rows} == names - {"bobs"}
        for row in Credential.objects.exclude(kind="registry"):
            if row.name in names:
                found = selectors.credential_for_use(principal(person), project, row.uid)
                assert found.pk == row.pk
            else:
                with pytest.raises((Forbidden, NotFound)):
                    selectors.credential_for_use(principal(person), project, row.uid)


def test_a_credential_opens_what_it_opens(
    project: Any, keep: Any, alice: Any, principal: Any
) -> None:
    row = keep("git")
    who = principal(alice)
    assert selectors.credential_for_use(who, project, row.uid, ["git"]) == row
    with pytest.raises(NotFound):
        selectors.credential_for_use(who, project, row.uid, ["s3", "gcs"])
    with pytest.raises(NotFound):
        selectors.credential_for_use(who, project, keep("registry").uid)


def test_a_launch_gets_what_its_owner_may_still_use(
    project: Any, keep: Any, bob: Any, principal: Any
) -> None:
    from projects.models import Membership

    rows = [keep("s3", "b"), keep("git", own=bob), keep("ssh", "a")]
    wanted = [rows[2].uid, rows[0].uid, rows[1].uid, rows[2].uid]
    found = selectors.credentials_for_launch(bob, project, wanted)
    assert [row.uid for row in found] == wanted[:3]
    Credential.objects.filter(pk=rows[0].pk).update(usable_by="managers")
    assert len(selectors.credentials_for_launch(bob, project, wanted)) == 2
    Membership.objects.filter(user=bob).delete()
    assert selectors.credentials_for_launch(bob, project, wanted) == []


def test_what_one_person_uses_is_changed_by_nobody_else(
    project: Any, keep: Any, alice: Any, mona: Any, as_user: Any
) -> None:
    row = keep("git", usable_by="owner")
    client = as_user(mona)
    url = f"{API}/{row.uid}"
    assert call(client, "PATCH", url, {"usable_by": "members"}).status_code == 403
    assert call(client, "POST", f"{url}/rotate", {"token": "other"}).status_code == 403
    assert call(client, "POST", f"{url}/test").status_code == 403
    assert 'name="token"' not in client.get(f"{PAGE}{row.uid}/").content.decode()
    page = client.get(f"{PAGE}{row.uid}/settings").content.decode()
    assert 'name="token"' not in page
    assert "Remove the credential" in page
    assert call(client, "DELETE", url).status_code == 204


# --- Changing and removing ----------------------------------------------------------------------


def test_settings_change_without_the_secret_and_count_as_a_version(
    project: Any, keep: Any, alice: Any, as_user: Any
) -> None:
    row = keep("s3-compatible")
    client = as_user(alice)
    url = f"{API}/{row.uid}"
    changed = call(client, "PATCH", url, {"region": "auto", "path_style": False, "bucket": "data"})
    assert changed.status_code == 200
    said = changed.json()["settings"]
    assert (said["region"], said["path_style"], said["bucket"]) == ("auto", False, "data")
    assert changed.json()["version"] == 2
    renamed = call(client, "PATCH", url, {"name": "n", "description": "d"}).json()
    assert (renamed["name"], renamed["description"], renamed["version"]) == ("n", "d", 2)
    assert call(client, "PATCH", url, {"region": "a\nb"}).status_code == 400
    verbs = Event.objects.filter(target_uid=str(row.uid)).values_list("verb", flat=True)
    assert list(verbs).count("credential.edited") == 2


def test_where_it_is_used_is_told_and_everybody_there_is_woken(
    project: Any, keep: Any, alice: Any, as_user: Any, monkeypatch: Any
) -> None:
    from uuid import uuid4

    row = keep("s3")
    uid = uuid4()
    woken: list[Any] = []
    gone: list[str] = []
    ask = [
        lambda c: [references.Holder("workspace", uid, "lab", "/there", "Bob")] if c == row else []
    ]
    monkeypatch.setattr(references._questions, "_callbacks", ask)
    monkeypatch.setattr(references._removed, "_callbacks", [lambda c, _who: gone.append(c.name)])
    monkeypatch.setattr(
        references, "hint_uids", lambda kind, uids: woken.append((kind, list(uids)))
    )
    client = as_user(alice)
    used = client.get(f"{API}/{row.uid}").json()["used_by"]
    assert used == [
        {"kind": "workspace", "id": str(uid), "name": "lab", "url": "/there", "who": "Bob"}
    ]
    page = client.get(f"{PAGE}{row.uid}/").content.decode()
    assert page.count("lab") >= 2  # where it is used, and what the removal does
    keys = {"secret_key": "k" * 40}
    rotated = call(client, "POST", f"{API}/{row.uid}/rotate", keys).json()
    assert (rotated["version"], rotated["used_by"]) == (2, used)
    assert woken == []  # a rotation counts from the next start
    assert client.post(f"{PAGE}{row.uid}/delete", {"confirm": row.name}).status_code == 302
    assert (woken, gone) == ([("workspace", [uid])], [row.name])
    event = Event.objects.get(verb="credential.deleted")
    assert event.data["holders"] == 1


@pytest.mark.parametrize("body", ["[]", '"x"', "7", "null", '{"kind": []}', '{"kind": {"a": 1}}'])
def test_f1_other_shapes_of_a_body_are_refused(
    project: Any, alice: Any, as_user: Any, body: str
) -> None:
    for url in (API, OWN):
        answer = as_user(alice).post(url, body, content_type="application/json")
        assert answer.status_code == 400, (url, body)
