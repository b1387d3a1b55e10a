"""File browsers as rows: who may open one, how it lives, when it ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext


def session_url(project: Any, volume: Any) -> str:
    return f"/projects/{project.slug}/volumes/{volume.uid}/files/session"


def api_url(project: Any, volume: Any) -> str:
    return f"/api/v1/projects/{project.slug}/volumes/{volume.uid}/files"


def rows() -> Any:
    from files.models import FileSession

    return FileSession.objects.order_by("id")


def test_the_first_visit_opens_it_and_the_next_finds_it(
    as_user: Any, project: Any, bob: Any, shared: Any, settle: Any
) -> None:
    client: Client = as_user(bob)
    page = client.get(f"/projects/{project.slug}/volumes/{shared.uid}/files/")
    assert page.status_code == 200
    assert not rows().exists()  # a page that is only looked at begins nothing
    said = client.post(session_url(project, shared)).json()
    assert (said["phase"], said["is_open"], said["read_only"]) == ("pending", False, False)
    settle()
    said = client.get(session_url(project, shared)).json()
    assert (said["phase"], said["is_open"], said["message"]) == ("running", True, "")
    assert said["url"].endswith(f"/gate/volumes/{shared.uid}")
    client.post(session_url(project, shared))
    assert rows().count() == 1


def test_a_home_is_its_owners_alone(
    as_user: Any, project: Any, alice: Any, bob: Any, home: Any
) -> None:
    assert as_user(bob).post(session_url(project, home)).status_code == 202
    for path in (session_url(project, home), f"/projects/{project.slug}/volumes/{home.uid}/files/"):
        assert as_user(alice).get(path).status_code == 403
    assert as_user(alice).post(session_url(project, home)).status_code == 403
    assert rows().count() == 1


def test_a1_strangers_get_404_and_viewers_403(
    as_user: Any, project: Any, charlie: Any, vera: Any, shared: Any
) -> None:
    for path in (session_url(project, shared), api_url(project, shared)):
        for verb in ("get", "post"):
            assert getattr(as_user(charlie), verb)(path).status_code == 404
            assert getattr(as_user(vera), verb)(path).status_code == 403
    assert not rows().exists()


def test_a1_a_volume_of_another_project_is_not_there(
    as_user: Any, project: Any, bob: Any, charlie: Any, shared: Any
) -> None:
    from projects.models import Membership, Project

    other = Project.objects.create(slug="other", name="Other", phase="running")
    Membership.objects.create(project=other, user=charlie, role="owner")
    assert as_user(charlie).post(session_url(other, shared)).status_code == 404


def test_who_may_only_read_gets_a_volume_that_is_mounted_so(
    as_user: Any, project: Any, bob: Any, alice: Any, shared: Any
) -> None:
    from files.reconciler import workload_spec
    from volumes.models import Volume

    Volume.objects.filter(pk=shared.pk).update(write_policy="managers")
    assert as_user(bob).post(session_url(project, shared)).json()["read_only"] is True
    spec = workload_spec(rows().get())
    assert spec.mounts[0].read_only is True
    assert "--read-only" in spec.command
    as_user(alice).post(session_url(project, shared))
    spec = workload_spec(rows().get(person=alice))
    assert spec.mounts[0].read_only is False
    assert spec.secret_env()["BERTH_FILES_TOKEN"] not in str((spec.command, spec.env))


def test_a_right_that_changed_opens_another_one(
    as_user: Any, project: Any, bob: Any, shared: Any, settle: Any
) -> None:
    from files.services import sessions_tidy
    from volumes.models import Volume

    as_user(bob).post(session_url(project, shared))
    settle()
    Volume.objects.filter(pk=shared.pk).update(write_policy="managers")
    assert sessions_tidy() == 1  # what could still write is ended
    settle()
    assert as_user(bob).post(session_url(project, shared)).json()["read_only"] is True
    old, new = rows()
    assert old.deleted_at is not None
    assert (new.read_only, new.desired) == (True, "running")


def test_it_ends_when_nobody_uses_it(
    as_user: Any, project: Any, bob: Any, shared: Any, settle: Any, settings: Any
) -> None:
    from common.clock import now
    from files.services import session_touch, sessions_tidy

    as_user(bob).post(session_url(project, shared))
    row = settle(rows().get())
    assert sessions_tidy() == 0
    rows().update(last_used_at=now() - timedelta(minutes=settings.BERTH_FILES_IDLE_MINUTES + 1))
    session_touch(uid=row.uid)
    assert sessions_tidy() == 0
    rows().update(last_used_at=now() - timedelta(minutes=settings.BERTH_FILES_IDLE_MINUTES + 1))
    assert sessions_tidy() == 1
    settle(row)
    assert row.deleted_at is not None
    said = as_user(bob).get(session_url(project, shared)).json()
    assert said["phase"] == "closed"


@pytest.fixture
def looking(as_user: Any, project: Any, bob: Any, shared: Any, settle: Any) -> Any:
    """Bob's open file browser."""
    as_user(bob).post(session_url(project, shared))
    return settle(rows().get())


def test_it_ends_when_the_person_leaves_the_project(
    looking: Any, project: Any, alice: Any, bob: Any, principal: Any
) -> None:
    from projects.services.members import member_remove

    member_remove(principal=principal(alice), project=project, user=bob)
    assert rows().get().desired == "absent"


def test_it_ends_when_the_person_is_disabled(
    looking: Any, bob: Any, operator: Any, principal: Any
) -> None:
    from accounts.services.people import user_disable

    user_disable(who=principal(operator), user=bob)
    assert rows().get().desired == "absent"


def test_it_ends_when_the_project_is_archived(
    looking: Any, project: Any, alice: Any, bob: Any, principal: Any, as_user: Any, shared: Any
) -> None:
    from projects.services.life import project_archive

    project_archive(principal=principal(alice), project=project)
    assert rows().get().desired == "absent"
    answer = as_user(bob).post(session_url(project, shared))
    assert answer.status_code == 409


def test_it_gives_way_when_its_volume_goes(
    as_user: Any, project: Any, bob: Any, principal: Any, settle: Any
) -> None:
    from files.services import sessions_tidy
    from volumes import references
    from volumes.models import Volume
    from volumes.services.removal import volume_delete

    data = Volume.objects.create(
        project=project, created_by=bob, kind="data", name="set", phase="running"
    )
    as_user(bob).post(session_url(project, data))
    settle()
    assert references.holders_of(data) == []
    assert references.in_use(data)
    volume_delete(principal=principal(bob), volume=data)
    assert sessions_tidy() == 1
    settle()
    assert not references.in_use(data)


def test_a_token_that_only_reads_changes_nothing_in_a_home(
    bob: Any, home: Any, principal: Any
) -> None:
    from accounts.services.tokens import token_create
    from common.errors import Forbidden
    from files.selectors import place_get

    token, _secret = token_create(who=principal(bob), name="reads", read_only=True)
    assert place_get(principal(bob), home.uid, write=True).may_write
    assert not place_get(principal(bob, token), home.uid).may_write
    with pytest.raises(Forbidden):
        place_get(principal(bob, token), home.uid, write=True)


def test_one_that_failed_says_why_and_is_opened_anew(
    as_user: Any, project: Any, bob: Any, shared: Any, settle: Any
) -> None:
    as_user(bob).post(session_url(project, shared))
    row = settle(rows().get())
    rows().update(phase="failed", reason="oom", message="")
    said = as_user(bob).get(session_url(project, shared)).json()
    assert said["is_open"] is False
    assert "memory" in said["message"]
    again = as_user(bob).post(session_url(project, shared)).json()
    assert again["phase"] == "pending"
    row.refresh_from_db()
    assert row.desired == "absent"


def test_it_takes_no_place_in_the_line_and_counts_as_no_usage(
    as_user: Any, project: Any, bob: Any, shared: Any, settle: Any
) -> None:
    from clusters.models import Claim
    from usage.models import Interval

    as_user(bob).post(session_url(project, shared))
    row = settle(rows().get())
    assert row.phase == "running"
    claim = Claim.objects.get(workload_uid=row.uid)
    assert (claim.cpu_milli, claim.memory_mib, claim.gpus) == (0, 0, 0)
    assert not Interval.objects.exists()


def test_the_api_opens_asks_and_ends(
    project: Any, bob: Any, shared: Any, settle: Any, principal: Any
) -> None:
    from accounts.services.tokens import token_create

    def client(*, read_only: bool) -> Client:
        _token, secret = token_create(who=principal(bob), name=f"t{read_only}", read_only=read_only)
        return Client(HTTP_AUTHORIZATION=f"Bearer {secret}")

    mine = client(read_only=False)
    assert mine.get(api_url(project, shared)).json()["phase"] == "closed"
    assert mine.post(api_url(project, shared)).status_code == 202
    settle()
    assert mine.get(api_url(project, shared)).json()["is_open"] is True
    assert mine.delete(api_url(project, shared)).status_code == 204
    assert rows().get().desired == "absent"


def test_a_token_that_only_reads_opens_a_shared_volume_and_ends_nobodys_work(
    as_user: Any, project: Any, bob: Any, vera: Any, shared: Any, settle: Any, principal: Any
) -> None:
    from accounts.services.tokens import token_create
    from common.errors import Forbidden
    from files.selectors import place_get

    as_user(bob).post(session_url(project, shared))
    settle()
    token, secret = token_create(who=principal(bob), name="reads", read_only=True)
    said = Client(HTTP_AUTHORIZATION=f"Bearer {secret}").post(api_url(project, shared))
    assert (said.status_code, said.json()["is_open"], said.json()["read_only"]) == (202, True, True)
    assert (rows().count(), rows().get().read_only) == (1, False)  # it is still bob's own
    reading = principal(bob, token)
    assert not place_get(reading, shared.uid).may_write
    with pytest.raises(Forbidden):
        place_get(reading, shared.uid, write=True)
    # a person who may not look into it gains nothing by such a token
    token, secret = token_create(who=principal(vera), name="reads", read_only=True)
    refused = Client(HTTP_AUTHORIZATION=f"Bearer {secret}").post(api_url(project, shared))
    assert refused.status_code == 403


def test_a_reading_token_of_other_scopes_or_projects_opens_nothing(
    project: Any, bob: Any, shared: Any, principal: Any
) -> None:
    from accounts.models import ApiToken
    from common.errors import Forbidden, NotFound
    from common.ids import new_uid
    from files.selectors import place_get

    token = ApiToken(user=bob, read_only=True, scopes=["project:read"])
    with pytest.raises((Forbidden, NotFound)):
        place_get(principal(bob, token), shared.uid)
    token = ApiToken(user=bob, read_only=True, project_uids=[str(new_uid())])
    with pytest.raises((Forbidden, NotFound)):
        place_get(principal(bob, token), shared.uid)


def test_opening_is_history_and_use(as_user: Any, project: Any, bob: Any, shared: Any) -> None:
    from events.models import Event

    as_user(bob).post(session_url(project, shared))
    shared.refresh_from_db()
    assert shared.last_used_by == bob
    assert Event.objects.filter(verb="volume.files-opened").count() == 1


def test_the_gate_is_wanted_while_somebody_looks(
    as_user: Any, project: Any, bob: Any, shared: Any
) -> None:
    from files.services import sessions_end_for
    from runtime import gateway

    assert not any(gateway.wanted())
    as_user(bob).post(session_url(project, shared))
    assert any(gateway.wanted())
    sessions_end_for(project=project)
    assert not any(gateway.wanted())


def test_on_a_cluster_it_is_a_pod_with_one_volume(project: Any, bob: Any, principal: Any) -> None:
    from clusters.models import Cluster, Pool
    from clusters.registry import lookup
    from files.reconciler import workload_spec
    from files.services import session_open
    from runtime.protocol import InvalidSpec
    from volumes.models import ClassPlace, Volume, VolumeClass

    cluster = Cluster.objects.create(key="k1", name="K1", driver="kubernetes", reachable=True)
    data = Volume.objects.create(
        project=project, created_by=bob, kind="data", name="set", cluster_key="k1", phase="running"
    )
    row = session_open(principal=principal(bob), project=project, volume_uid=data.uid)
    with pytest.raises(InvalidSpec, match="image"):
        workload_spec(row)
    cluster.options = {"data_image": "registry.example/data@sha256:" + "0" * 64}
    cluster.save()
    spec = workload_spec(row)
    assert spec.image.startswith("registry.example/data")
    assert (spec.port, spec.probe.path, len(spec.mounts)) == (8888, "/livez", 1)
    assert spec.command[-4:] == ("--bind", "0.0.0.0", "--port", "{port}")
    assert (spec.resources.gpus, spec.resources.memory_mib) == (0, 256)
    kind = VolumeClass.objects.create(key="fast", name="Fast", backing_kind=data.backing_kind)
    place = ClassPlace.objects.create(volume_class=kind, cluster=cluster)
    place.near.add(Pool.objects.create(cluster=cluster, name="east", node_labels={"rack": "7"}))
    Volume.objects.filter(pk=data.pk).update(volume_class=kind)
    row.volume.refresh_from_db()
    assert workload_spec(row).placement.near == ({"rack": "7"},)
    found = lookup(str(row.uid))
    assert found == {"namespace": spec.namespace, "name": f"ws-files-{row.short_id}"}


def test_a_volume_that_was_handed_over_is_opened_anew(
    looking: Any, as_user: Any, project: Any, bob: Any, shared: Any
) -> None:
    from files.services import sessions_tidy
    from projects.models import Membership, Project
    from volumes.models import Volume

    other = Project.objects.create(slug="other", name="Other", phase="running")
    Membership.objects.create(project=other, user=bob, role="member")
    Volume.objects.filter(pk=shared.pk).update(project=other, kind="data")
    said = as_user(bob).post(session_url(other, shared)).json()
    assert (said["phase"], said["is_open"]) == ("pending", False)
    assert sessions_tidy() == 1
    looking.refresh_from_db()
    assert looking.desired == "absent"


def test_looking_after_many_costs_no_more_queries_than_after_one(
    as_user: Any, project: Any, alice: Any, bob: Any, shared: Any, settle: Any
) -> None:
    from files.services import sessions_tidy

    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert sessions_tidy() == 0
        return len(seen)

    as_user(bob).post(session_url(project, shared))
    settle()
    one = queries()
    as_user(alice).post(session_url(project, shared))
    settle()
    assert rows().count() == 2
    assert queries() == one


@pytest.mark.parametrize("role", ["viewer", "member", "manager", None])
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"desired": "absent"},
        {"restore_serial": 1},
        {"move_serial": 1},
        {"write_policy": "managers"},
        {"kind": "home"},
        {"deleted_at": "2026-01-01T00:00:00Z"},
    ],
)
def test_what_may_go_on_is_what_could_be_opened(
    project: Any, bob: Any, shared: Any, principal: Any, role: str | None, changed: dict[str, Any]
) -> None:
    from common.errors import BerthError
    from files.selectors import place_get
    from files.services import _still_allowed
    from projects.access import roles_in
    from projects.models import Membership
    from volumes.models import Volume

    Membership.objects.filter(project=project, user=bob).delete()
    if role:
        Membership.objects.create(project=project, user=bob, role=role)
    Volume.objects.filter(pk=shared.pk).update(**changed)
    found = roles_in({project.pk}, {bob.pk}).get((project.pk, bob.pk))
    for read_only in (True, False):
        row = rows().model(
            project=project,
            person=bob,
            volume=Volume.objects.get(pk=shared.pk),
            read_only=read_only,
        )
        try:
            place = place_get(principal(bob), shared.uid)
            expected = read_only or place.may_write
        except BerthError:
            expected = False
        assert _still_allowed(row, found) is expected
