"""A project's sign-ins: who may store them, and that nobody ever reads one again."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from common.clock import now
from common.errors import Unavailable
from credentials import rekey, sealing, selectors
from credentials.models import Credential, Sentence
from events.models import Event
from projects import namespaces
from runtime.protocol import Denied
from tests.credentials import samples

pytestmark = pytest.mark.django_db

SECRET = "canary-registry-Zq81"
API = "/api/v1/projects/vision/credentials"


def post(client: Any, url: str, body: Any) -> Any:
    return client.post(url, json.dumps(body), content_type="application/json")


def given(**more: Any) -> dict[str, Any]:
    return {
        "name": "ours",
        "host": "registry.example.com",
        "username": "robot",
        "password": SECRET,
        **more,
    }


@pytest.fixture
def stored(project: Any, alice: Any, as_user: Any) -> Credential:
    answer = post(as_user(alice), API, given())
    assert answer.status_code == 201, answer.content
    return Credential.objects.get()


def test_a_misspelt_field_is_told_which_is_meant(project: Any, mona: Any, as_user: Any) -> None:
    answer = post(as_user(mona), API, {**given(), "usernam": "robot"})
    assert answer.status_code == 400
    meant = "There is no such field. Did you mean “username”?"
    assert answer.json()["fields"] == {"usernam": [meant]}
    assert not Credential.objects.exists()


def test_a_manager_stores_a_sign_in_and_nobody_reads_it(
    project: Any, mona: Any, as_user: Any
) -> None:
    client = as_user(mona)
    answer = post(client, API, given())
    assert answer.status_code == 201
    row = Credential.objects.get()
    pages = [
        answer,
        client.get(API),
        client.get(f"{API}/{row.uid}"),
        client.get("/projects/vision/credentials/"),
        client.get(f"/projects/vision/credentials/{row.uid}/"),
    ]
    for page in pages:
        assert page.status_code in {200, 201}
        assert SECRET not in page.content.decode()
        assert 'sealed":' not in page.content.decode()
    assert SECRET not in row.sealed
    assert answer.json()["host"] == "registry.example.com"
    assert Event.objects.filter(verb="credential.created", target_uid=str(row.uid)).exists()
    assert SECRET not in repr(list(Event.objects.values()))


def test_members_see_names_and_viewers_nothing(
    stored: Credential, bob: Any, vera: Any, charlie: Any, as_user: Any
) -> None:
    assert as_user(bob).get(API).json()["results"][0]["name"] == "ours"
    assert post(as_user(bob), API, given(name="b", host="b.example")).status_code == 403
    assert as_user(vera).get(API).status_code == 403
    assert as_user(charlie).get(f"{API}/{stored.uid}").status_code == 404
    assert as_user(charlie).delete(f"{API}/{stored.uid}").status_code == 404
    assert Credential.objects.count() == 1


def test_the_credential_of_another_project_is_not_there(
    stored: Credential, alice: Any, as_user: Any
) -> None:
    from projects.models import Membership, Project

    other = Project.objects.create(slug="other", name="Other", phase="running")
    Membership.objects.create(project=other, user=alice, role="owner")
    client = as_user(alice)
    base = f"/api/v1/projects/other/credentials/{stored.uid}"
    assert client.get(base).status_code == 404
    assert client.delete(base).status_code == 404
    assert post(client, f"{base}/rotate", {"password": "x"}).status_code == 404
    assert post(client, f"{base}/test", {}).status_code == 404


@pytest.mark.parametrize(
    ("host", "kept"),
    [
        ("GHCR.io", "ghcr.io"),
        ("https://registry.example.com/v1/", "registry.example.com"),
        ("registry.example.com:5000", "registry.example.com:5000"),
        ("hub.docker.com", "docker.io"),
        ("https://index.docker.io/v1/", "docker.io"),
    ],
)
def test_a_host_is_kept_as_images_name_it(
    project: Any, alice: Any, as_user: Any, host: str, kept: str
) -> None:
    assert post(as_user(alice), API, given(host=host)).json()["host"] == kept


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("host", "2130706433"),
        ("host", "a b"),
        ("host", "user@registry.example.com"),
        ("host", "registry.example.com/team"),
        ("username", "a:b"),
        ("username", "a\nb"),
        ("username", " "),
        ("password", " "),
        ("password", "a\0b"),
        ("name", "a\nb"),
        ("kind", "azure"),
        ("kind", ""),
        ("expires_at", "2001-01-01T00:00:00Z"),
        ("uid", "x"),
        ("sealed", "x"),
    ],
)
def test_what_can_not_be_is_refused_with_its_field(
    project: Any, alice: Any, as_user: Any, field: str, value: str
) -> None:
    answer = post(as_user(alice), API, given(**{field: value}))
    assert answer.status_code == 400, answer.content
    assert field in answer.json()["fields"]
    assert SECRET not in answer.content.decode()
    assert not Credential.objects.exists()


def test_a_name_and_a_registry_are_there_once(stored: Credential, alice: Any, as_user: Any) -> None:
    client = as_user(alice)
    again = post(client, API, given(host="other.example"))
    assert (again.status_code, list(again.json()["fields"])) == (409, ["name"])
    again = post(client, API, given(name="second"))
    assert (again.status_code, list(again.json()["fields"])) == (409, ["host"])


def test_the_operators_sign_ins_are_every_projects_and_its_own_go_before_them(
    stored: Credential, project: Any, settings: Any, tmp_path: Path
) -> None:
    file = tmp_path / "config.json"
    settings.BERTH_IMAGE_SIGN_INS_FILE = str(file)
    theirs = {"auth": base64.b64encode(b"puller:a:b").decode()}
    own = {"username": "puller", "password": "x"}
    file.write_text(json.dumps({"auths": {"images.example": theirs, "registry.example.com": own}}))
    logins, version = namespaces.registries_of(project.uid)
    assert logins() == {
        "images.example": ("puller", "a:b"),
        "registry.example.com": ("robot", SECRET),
    }
    file.write_text(json.dumps({"auths": {"images.example": own}}))
    assert namespaces.registries_of(project.uid)[1] != version
    file.write_text("{}")
    with pytest.raises(Denied, match="operator's sign-ins"):
        namespaces.registries_of(project.uid)


def test_a_rotation_is_what_the_cluster_gets_next(
    stored: Credential, project: Any, alice: Any, as_user: Any
) -> None:
    logins, version = namespaces.registries_of(project.uid)
    assert logins() == {"registry.example.com": ("robot", SECRET)}
    client = as_user(alice)
    answer = post(client, f"{API}/{stored.uid}/rotate", {"password": "second-secret"})
    assert (answer.status_code, answer.json()["version"]) == (200, 2)
    logins, newer = namespaces.registries_of(project.uid)
    assert newer != version
    assert logins() == {"registry.example.com": ("robot", "second-secret")}
    stored.refresh_from_db()
    assert (stored.last_used_for, stored.last_used_at is not None) == ("pull", True)
    assert Event.objects.filter(verb="credential.rotated").count() == 1


def test_a_test_of_the_old_secret_says_nothing_of_the_new(
    stored: Credential, alice: Any, principal: Any
) -> None:
    from credentials.services import credential_note_test, credential_rotate

    who = principal(alice)
    credential_rotate(principal=who, credential=stored, fields={"password": "second"})
    row = credential_note_test(
        principal=who, credential=stored, version=1, ok=True, said=Sentence("")
    )
    assert row.test_ok is None


def test_a_credential_that_is_deleted_during_its_test_is_not_there(
    stored: Credential, alice: Any, principal: Any
) -> None:
    from common.errors import NotFound
    from credentials.services import credential_delete, credential_note_test

    who = principal(alice)
    credential_delete(principal=who, credential=stored, confirm=stored.name)
    with pytest.raises(NotFound):
        credential_note_test(
            principal=who, credential=stored, version=1, ok=True, said=Sentence("")
        )


def test_a_change_locks_the_project_before_the_credential(
    stored: Credential, alice: Any, principal: Any, monkeypatch: Any
) -> None:
    """As the deletion of a project does: in the other order they would wait for each other."""
    from django.db.models import QuerySet

    from credentials import services

    locked: list[str] = []
    real = QuerySet.select_for_update

    def noted(rows: Any, *args: Any, **kwargs: Any) -> Any:
        locked.append(rows.model.__name__)
        return real(rows, *args, **kwargs)

    monkeypatch.setattr(QuerySet, "select_for_update", noted)
    who = principal(alice)
    services.credential_edit(principal=who, credential=stored, changes={"description": "x"})
    services.credential_rotate(principal=who, credential=stored, fields={"password": "second"})
    services.credential_delete(principal=who, credential=stored, confirm=stored.name)
    assert [name for name in locked if name in {"Project", "Credential"}] == [
        "Project",
        "Credential",
    ] * 3


def test_d13_a_deleted_credential_is_gone_for_clusters_and_wakes_them(
    stored: Credential, project: Any, alice: Any, as_user: Any, monkeypatch: Any
) -> None:
    from credentials import services

    woken: list[Any] = []
    monkeypatch.setattr(services, "wake", woken.append)
    assert as_user(alice).delete(f"{API}/{stored.uid}").status_code == 204
    logins, version = namespaces.registries_of(project.uid)
    assert (dict(logins()), version) == ({}, "")
    assert woken == [project]


def test_the_page_asks_for_the_typed_name(stored: Credential, alice: Any, as_user: Any) -> None:
    client = as_user(alice)
    url = f"/projects/vision/credentials/{stored.uid}/delete"
    assert client.post(url, {"confirm": "other"}).status_code == 422
    assert Credential.objects.exists()
    assert client.post(url, {"confirm": "ours"}).status_code == 302
    assert not Credential.objects.exists()


def test_the_pages_store_and_replace_and_never_give_a_secret_back(
    project: Any, alice: Any, as_user: Any
) -> None:
    client = as_user(alice)
    wrong = client.post("/projects/vision/credentials/", given(host="a b"))
    assert wrong.status_code == 422
    assert SECRET not in wrong.content.decode()
    day = (now() + timedelta(days=3)).date().isoformat()
    made = client.post("/projects/vision/credentials/", given(expires_on=day))
    assert made.status_code == 302
    page = client.get(made["Location"])
    assert "Runs out soon" in page.content.decode()
    changed = client.post(made["Location"], {"username": "robot", "password": "second"})
    assert changed.status_code == 302
    assert Credential.objects.get().version == 2


def test_members_see_why_they_may_not_change_it(stored: Credential, bob: Any, as_user: Any) -> None:
    for tab in ("", "settings"):
        page = as_user(bob).get(f"/projects/vision/credentials/{stored.uid}/{tab}").content.decode()
        assert "This needs the right" in page
        assert 'name="password"' not in page


def test_its_page_has_tabs_and_tells_what_was_done(
    stored: Credential, alice: Any, bob: Any, charlie: Any, as_user: Any
) -> None:
    base = f"/projects/vision/credentials/{stored.uid}/"
    client = as_user(alice)
    for tab in ("", "events", "settings"):
        page = client.get(base + tab).content.decode()
        assert page.count('aria-current="page">') >= 1
        assert f'href="{base}events"' in page
        assert f'href="{base}settings"' in page
        assert as_user(charlie).get(base + tab).status_code == 404
    assert "Nothing yet." not in as_user(bob).get(base + "events").content.decode()
    wrong = client.post(base, {"username": "", "password": ""})
    assert wrong.status_code == 422
    assert 'name="password"' in wrong.content.decode()  # where it was typed


def test_a_project_that_is_deleted_takes_its_credentials_along(
    stored: Credential, project: Any, alice: Any, principal: Any
) -> None:
    from projects.services.life import project_request_delete

    project_request_delete(principal=principal(alice), project=project, confirm="vision")
    assert not Credential.objects.exists()
    assert Event.objects.filter(verb="credential.deleted").count() == 1


def test_the_list_never_loads_the_sealed_column(
    stored: Credential, alice: Any, principal: Any, project: Any
) -> None:
    row = selectors.credentials_visible_to(principal(alice), project).get()
    assert "sealed" in row.get_deferred_fields()


# --- keys -------------------------------------------------------------------------------------


def test_d11_an_old_key_opens_and_a_rotation_can_be_cut_anywhere(
    project: Any, settings: Any, monkeypatch: Any
) -> None:
    settings.BERTH_CREDENTIAL_KEYS = ["old"]
    rows = []
    for n in range(7):
        row = Credential(project=project, kind="registry", name=f"n{n}", target=f"h{n}.example")
        row.sealed, row.sealed_with = sealing.seal(row.uid, {"password": f"p{n}"})
        rows.append(row)
    Credential.objects.bulk_create(rows)
    settings.BERTH_CREDENTIAL_KEYS = ["new", "old"]
    monkeypatch.setattr(rekey, "STEP", 2)
    written = []

    def cut(fresh: Any) -> None:
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(fresh)
        real(fresh)

    real = rekey._write
    monkeypatch.setattr(rekey, "_write", cut)
    with pytest.raises(KeyboardInterrupt):
        rekey.again()
    monkeypatch.setattr(rekey, "_write", real)
    assert rekey.left() == 3
    assert rekey.again() == (3, 0)
    settings.BERTH_CREDENTIAL_KEYS = ["new"]
    for n, row in enumerate(Credential.objects.order_by("pk")):
        assert sealing.unseal(row.uid, row.sealed) == {"password": f"p{n}"}


def test_d11_every_kind_opens_after_a_change_of_keys_and_says_nothing_new(
    project: Any, keep: Any, settings: Any
) -> None:
    from credentials.decrypt import opened

    settings.BERTH_CREDENTIAL_KEYS = ["old"]
    kept = {(row := keep(kind)).pk: (opened(row), row.updated_at) for kind in samples.KINDS}
    settings.BERTH_CREDENTIAL_KEYS = ["new", "old"]
    assert rekey.again() == (len(kept), 0)
    settings.BERTH_CREDENTIAL_KEYS = ["new"]
    rows = Credential.objects.all()
    assert {row.pk: (opened(row), row.updated_at) for row in rows} == kept
    assert {row.version for row in rows} == {1}


def test_d11_without_the_key_it_fails_closed_and_says_why(
    stored: Credential, project: Any, settings: Any, alice: Any, as_user: Any
) -> None:
    settings.BERTH_CREDENTIAL_KEYS = ["another"]
    logins, _version = namespaces.registries_of(project.uid)
    with pytest.raises(Unavailable, match="BERTH_CREDENTIAL_KEYS"):
        logins()
    assert rekey.again() == (0, 1)
    assert rekey.locked() == 1
    settings.BERTH_CREDENTIAL_KEYS = []
    answer = post(as_user(alice), API, given(name="x", host="x.example"))
    assert answer.status_code == 503
    assert "BERTH_CREDENTIAL_KEYS" in answer.json()["detail"]


def test_d11_a_sealed_text_that_was_moved_to_another_row_opens_nothing(
    stored: Credential, project: Any
) -> None:
    other = Credential.objects.create(
        project=project,
        kind="registry",
        name="mine",
        target="evil.example",
        sealed=stored.sealed,
        sealed_with=stored.sealed_with,
    )
    with pytest.raises(Unavailable):
        sealing.unseal(other.uid, other.sealed)


def test_a_hundred_thousand_secrets_would_take_less_than_a_minute(
    project: Any, settings: Any
) -> None:
    import time

    settings.BERTH_CREDENTIAL_KEYS = ["old"]
    many = 2000
    rows = []
    for n in range(many):
        row = Credential(project=project, kind="generic", name=f"n{n}")
        row.sealed, row.sealed_with = sealing.seal(row.uid, {"password": "p" * 40})
        rows.append(row)
    Credential.objects.bulk_create(rows)
    settings.BERTH_CREDENTIAL_KEYS = ["new", "old"]
    begun = time.process_time()
    assert rekey.again() == (many, 0)
    assert (time.process_time() - begun) * 100_000 / many < 60
