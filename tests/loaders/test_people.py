"""People who go, secrets that go, ids of others: A1, A3, D12, D13."""

import json
from typing import Any

import pytest
from django.urls import reverse

from clusters.options import ClusterOptions
from common.errors import Conflict, Forbidden
from loaders import services
from loaders.choices import State
from loaders.models import Load
from loaders.runtime_spec import plan_of, workload_spec
from loaders.states import state_of
from projects.choices import Role
from projects.models import Membership
from work.services import limits_enforce

BASE = "/api/v1/projects/vision/loads"


@pytest.fixture
def theirs(make_user: Any) -> dict[str, Any]:
    """Another project with a volume, a credential and a load."""
    from credentials.models import Credential
    from projects.models import Membership, Project
    from volumes.services.create import project_volume_ensure

    tom = make_user("tom")
    other = Project.objects.create(slug="other", name="Other", phase="running")
    Membership.objects.create(project=other, user=tom, role="owner")
    volume = project_volume_ensure(principal=None, project=other)
    secret = Credential.objects.create(
        project=other, owner=tom, kind="s3", name="theirs", sealed="x"
    )
    own = Credential.objects.create(project=None, owner=tom, kind="s3", name="own", sealed="x")
    row = Load.objects.create(
        project=other,
        owner=tom,
        name="x",
        volume=volume,
        anonymous=True,
        store_kind="s3",
        bucket="b",
    )
    return {"volume": volume, "secret": secret, "own": own, "load": row, "tom": tom}


@pytest.mark.parametrize("what", ["volume", "secret", "own"])
def test_d12_ids_of_another_project_in_a_body_are_not_found(
    api, alice, project, shared, theirs, what
):
    field = "volume" if what == "volume" else "credential"
    before = Load.objects.count()
    for said in (str(theirs[what].uid), theirs[what].name):
        body = {"url": "s3://bucket/x", field: said}
        if said == "shared":
            continue  # one's own volume has this name too
        for query in ("", "?plan=1"):
            assert api(alice, "POST", f"{BASE}{query}", body).status_code == 404
        document = {
            "apiVersion": "berth.dev/v1",
            "kind": "Load",
            "metadata": {"name": "mine"},
            "spec": body,
        }
        assert api(alice, "POST", f"{BASE}/apply", document).status_code == 404
        assert api(alice, "POST", f"{BASE}/ensure", body).status_code == 404
    assert Load.objects.count() == before


def test_a1_a_load_of_another_project_is_not_found_and_not_changed(api, alice, project, theirs):
    uid = theirs["load"].uid
    for verb, path in (
        *(("GET", tail) for tail in ("", "/runs", "/errors", "/manifest", "/document")),
        *(("POST", f"/{act}") for act in ("start", "pause", "cancel", "resume", "retry")),
        ("PATCH", ""),
        ("DELETE", ""),
    ):
        assert api(alice, verb, f"{BASE}/{uid}{path}", {}).status_code == 404, path
    theirs["load"].refresh_from_db()
    assert theirs["load"].generation == 1


def test_a1_a_load_of_another_project_serves_no_need(theirs, alice, project, principal):
    from common.errors import NotFound
    from loaders.selectors import load_for_need

    with pytest.raises(NotFound):
        load_for_need(principal(alice), project, theirs["load"].uid)


@pytest.mark.parametrize(
    "field",
    [
        *("owner", "project", "uid", "launch", "phase", "desired", "result", "loaded_at"),
        *("anonymous", "kind", "bucket", "fingerprint", "cluster_key", "seq", "nonce"),
    ],
)
def test_a5_columns_that_were_not_offered_are_refused(api, alice, project, load, settle, field):
    row = settle(load(alice))
    value = {"owner": "bob", "launch": 9}.get(field, "x")
    for verb, path in (("POST", BASE), ("PATCH", f"{BASE}/{row.uid}")):
        answer = api(alice, verb, path, {"url": "s3://b-c/x", field: value})
        assert answer.status_code == 400
        assert field in answer.json()["fields"]


def running(load: Any, user: Any, settle: Any, **wanted: Any) -> Any:
    row = settle(load(user, schedule="0 3 * * *", **wanted))
    assert row.phase == "running"
    return row


def test_a3_a_disabled_owner_s_loads_are_cut_and_do_not_start_again(
    load, bob, operator, principal, settle
):
    from accounts.services.people import user_disable

    row = running(load, bob, settle)
    user_disable(who=principal(operator), user=bob)
    settle(row)
    assert (state_of(row), row.stop_reason, row.next_run_at) == (
        State.STOPPED,
        "owner-disabled",
        None,
    )


def test_a3_a_removed_member_s_loads_are_cut(load, bob, alice, project, principal, settle):
    from projects.services.members import member_remove

    row = running(load, bob, settle)
    member_remove(principal=principal(alice), project=project, user=bob)
    assert state_of(settle(row)) == State.STOPPED
    with pytest.raises(Conflict, match="may not load data"):
        services.load_start(principal=principal(alice), row=row)


def test_a3_a_member_who_becomes_a_viewer_loads_no_more(
    load, bob, alice, project, principal, settle
):
    from projects.services.members import member_set_role

    row = running(load, bob, settle)
    member_set_role(principal=principal(alice), project=project, user=bob, role=Role.VIEWER)
    settle(row)
    assert (state_of(row), row.stop_reason) == (State.STOPPED, "owner-left")


@pytest.mark.parametrize(
    ("change", "reason"),
    [("removed", "owner-left"), ("lowered", "owner-left"), ("disabled", "owner-disabled")],
)
def test_a3_a_load_that_was_written_a_moment_after_its_owner_lost_the_right_is_stopped(
    load, bob, mona, project, settle, change, reason
):
    """Who is removed while his load is being written was allowed to, before."""
    row, other = running(load, bob, settle), running(load, mona, settle)
    done = load(bob, "s3://bucket/2")
    Load.objects.filter(pk=done.pk).update(result="done", phase="stopped")
    assert limits_enforce() == 0
    member = Membership.objects.filter(project=project, user=bob)
    if change == "removed":
        member.delete()
    elif change == "lowered":
        member.update(role=Role.VIEWER)
    else:
        type(bob).objects.filter(pk=bob.pk).update(is_active=False)
    assert limits_enforce() == 1
    settle(row)
    assert (state_of(row), row.stop_reason, row.next_run_at) == (State.STOPPED, reason, None)
    assert limits_enforce() == 0
    assert settle(other).phase == "running"


def test_a3_a_role_that_is_lowered_while_a_load_is_checked_makes_none(
    load, bob, project, monkeypatch
):
    """Into his own home, which a viewer may still see."""
    from loaders.services import create
    from volumes.services.create import home_ensure

    home_ensure(principal=None, project=project, owner=bob)
    checked = create.require_cluster

    def lowered(*parts: Any) -> None:
        checked(*parts)
        Membership.objects.filter(project=project, user=bob).update(role=Role.VIEWER)

    monkeypatch.setattr(create, "require_cluster", lowered)
    with pytest.raises(Forbidden):
        load(bob, volume="home")
    assert not Load.objects.exists()


def test_a3_who_may_not_use_the_credential_any_more_is_cut(
    load, mona, alice, project, principal, settle, credential
):
    from projects.services.members import member_set_role

    secret = credential(usable_by="managers")
    row = running(load, mona, settle, credential=str(secret.uid))
    member_set_role(principal=principal(alice), project=project, user=mona, role=Role.MEMBER)
    settle(row)
    assert (state_of(row), row.stop_reason) == (State.STOPPED, "credential")


def test_d13_a_removed_credential_ends_what_uses_it_and_never_becomes_nobody(
    load, alice, principal, settle, credential, as_user
):
    from credentials.services import credential_delete

    secret = credential()
    row = running(load, alice, settle, credential=secret.name)
    credential_delete(principal=principal(alice), credential=secret, confirm=secret.name)
    settle(row)
    assert (state_of(row), row.credential, row.anonymous) == (State.STOPPED, None, False)
    assert row.next_run_at is None
    with pytest.raises(Conflict, match="credential was removed"):
        services.load_start(principal=principal(alice), row=row)
    page = f"/projects/vision/loads/{row.uid}/settings/"
    assert b"It was removed: choose another one" in as_user(alice).get(page).content
    as_user(alice).post(page, {"name": "other", "credential": "gone", "schedule": "0 3 * * *"})
    row.refresh_from_db()
    assert (row.name, row.credential, row.anonymous) == ("other", None, False)


def test_d13_a_load_that_lost_its_credential_unseen_is_ended_by_the_engine(
    load, alice, settle, credential, fake
):
    from runtime.hints import hint

    row = settle(load(alice, credential=credential().name))
    Load.objects.filter(pk=row.pk).update(credential=None)
    hint(row)
    settle(row)
    assert (row.result, row.result_code) == ("failed", "credential-gone")
    assert fake.spec_seen(str(row.uid))["seen"] == "exited"


def test_a2_the_secret_lies_in_the_plan_file_and_nowhere_else(
    load, alice, settle, credential, api, as_user
):
    from tests.support.work_fixtures import SECRET

    row = settle(load(alice, credential=credential().name))
    row = Load.objects.select_related("project", "owner", "volume", "credential").get()
    spec = workload_spec(row)
    assert SECRET not in repr(spec)
    plan = json.loads(spec.secret_files()["plan.json"])
    assert plan["store"]["secret_key"] == SECRET
    shown = [
        *(api(alice, "GET", f"{BASE}{tail}").content for tail in ("", f"/{row.uid}")),
        api(alice, "GET", f"{BASE}/{row.uid}/document").content,
        as_user(alice).get(f"/projects/vision/loads/{row.uid}/").content,
        as_user(alice).get(f"/projects/vision/loads/{row.uid}/settings/").content,
    ]
    assert not [text for text in shown if SECRET.encode() in text]
    row.refresh_from_db()
    assert SECRET not in json.dumps(row.external_ref)


def test_a_personal_credential_is_its_owner_s_alone(load, alice, bob, credential, project):
    from common.errors import NotFound

    mine = credential("mine", project=None, owner=bob)
    with pytest.raises(NotFound):
        load(alice, credential=str(mine.uid))
    assert load(bob, credential=str(mine.uid)).credential == mine


def test_nobody_loads_into_the_home_of_another(load, alice, bob, project, settle, api, report):
    from volumes.services.create import home_ensure

    home = home_ensure(principal=None, project=project, owner=bob)
    with pytest.raises(Forbidden):
        load(alice, volume=str(home.uid))
    row = settle(load(bob, volume="home"))
    report(row, errors=[{"key": "private-name", "code": "bad-key", "message": ""}])
    assert api(alice, "GET", f"{BASE}/{row.uid}/errors").json() == []
    assert api(bob, "GET", f"{BASE}/{row.uid}/errors").json()[0]["key"] == "private-name"


def test_a_folder_of_a_home_is_shown_to_its_owner_only(
    load, bob, alice, project, settle, report, as_user
):
    from volumes.services.create import home_ensure

    home_ensure(principal=None, project=project, owner=bob)
    row = settle(load(bob, volume="home", folder="secret-plans"))
    error = {"key": "private", "code": "io", "message": ""}
    tabs = [f"{row.uid}/{tab}" for tab in ("", "history/", "yaml/", "state/")]
    for seq, errors in enumerate(([], [error]), 1):
        report(row, seq, errors=errors)
        for page in ("", *tabs):
            answer = as_user(alice).get(f"/projects/vision/loads/{page}")
            assert (answer.status_code, b"secret-plans" in answer.content) == (200, False), page
    for page in ("", tabs[0]):
        assert b"secret-plans" in as_user(bob).get(f"/projects/vision/loads/{page}").content


def test_the_plan_is_what_the_contract_says(load, alice, settle, credential, settings):
    settings.BERTH_OUTBOUND_ALLOW = ["10.0.0.0/8:9000"]
    settings.BERTH_INSECURE_STORES = ["store.lan:9000"]
    row = settle(
        load(
            alice,
            "s3://bucket/a",
            credential=credential().name,
            folder="data",
            mode="sync",
            delete_extra=True,
            include=["*.png"],
            bandwidth_bytes_s=10**6,
        )
    )
    row = Load.objects.select_related("project", "owner", "volume", "credential").get()
    plan = plan_of(row, None)
    assert plan["store"]["endpoint"] == "https://store.example.org"
    assert (plan["store"]["bucket"], plan["store"]["prefix"]) == ("bucket", "a")
    assert plan["volume"] == {"name": "shared", "folder": "data"}
    assert (plan["mode"], plan["delete_extra"]) == ("sync", True)
    assert plan["include"] == ["a/**/*.png"]
    assert plan["outbound"]["allow"] == ["10.0.0.0/8:9000"]
    assert plan["outbound"]["insecure_hosts"] == ["store.lan:9000"]
    assert plan["outbound"]["fence"] is None  # no network policy on this machine
    options = ClusterOptions(
        internet=False, allowed_cidrs=("10.0.0.0/8:9000",), pod_cidrs=("10.9.0.0/16",)
    )
    assert plan_of(row, options)["outbound"]["fence"] == {
        "internet": False,
        "opened": ["10.0.0.0/8:9000"],
        "blocked": [],
        "closed": ["10.9.0.0/16"],
    }
    assert plan["report"]["url"].endswith(f"/hub/api/berth/loads/{row.uid}/report")
    assert plan["report"]["url"].startswith(settings.BERTH_INTERNAL_URL)


def test_a_project_that_is_archived_or_deleted_ends_its_loads(
    load, alice, project, principal, settle
):
    from projects.services.life import project_archive

    row = settle(load(alice, schedule="0 3 * * *"))
    project_archive(principal=principal(alice), project=project, confirm_stop=True)
    settle(row)
    assert (state_of(row), row.next_run_at) == (State.STOPPED, None)


def test_archiving_says_what_runs_by_its_kind(load, alice, settle, project, principal, as_user):
    from common.errors import Conflict
    from projects.services.life import project_archive

    settle(load(alice))
    settle(load(alice, "s3://bucket/b"))
    with pytest.raises(Conflict, match=r"Running now: 2 loads\. Archiving stops that"):
        project_archive(principal=principal(alice), project=project)
    page = as_user(alice).get(reverse("projects:settings", args=[project.slug])).content.decode()
    assert "Stop what is running: 2 loads" in page
