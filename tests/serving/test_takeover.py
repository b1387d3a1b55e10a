"""A manager makes an endpoint of somebody else their own."""

from __future__ import annotations

from typing import Any

import pytest

from accounts.principal import Principal
from common.errors import Conflict
from events.models import Event
from notifications.models import Notification
from projects.models import Membership
from projects.services.members import member_remove
from quotas.models import Limit, Reservation
from runtime.workload_state import ReconcileContext
from serving.models import Endpoint, ModelVersion
from serving.reconciler import EndpointReconciler
from serving.services import canary_make, endpoint_takeover, endpoint_wake, takeover, version_files
from tests.serving.conftest import ENDPOINTS
from tests.serving.test_rollback import turn
from volumes.models import Volume
from work.attached import attached_to
from work.services.launch import relaunch

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project")]
WHY = {"reason": "Bob goes"}
PINNED = "sha256:" + "a" * 64


@pytest.fixture
def his(api, bob, settle, fake, version, data) -> Any:
    """An endpoint of Bob's that answers."""
    del fake
    version(volume=data)
    said = {"name": "digits", "model": "digits/v1", "env": {"TUNED": "yes"}}
    answer = api(bob, "POST", ENDPOINTS, said)
    assert answer.status_code == 202, answer.content
    return settle(Endpoint.objects.get(short_id=answer.json()["id"]))


@pytest.fixture
def at(his) -> str:
    return f"{ENDPOINTS}/{his.short_id}"


def test_what_answers_goes_on_until_the_same_answers_for_its_new_owner(
    api, mona, bob, his, at, settle, fake
) -> None:
    answer = api(mona, "POST", f"{at}/takeover", WHY)
    assert (answer.status_code, answer.json()["owner"]) == (202, "mona"), answer.content
    assert answer.json()["taken_over"] is True
    his.refresh_from_db()
    assert (his.phase, his.launch, his.owner) == ("running", 1, mona)
    canary = his.canary
    assert (canary.owner, canary.env, his.rolls_back) == (mona, {"TUNED": "yes"}, True)
    launches = []
    settle()
    for _ in range(6):
        his.refresh_from_db()
        beside = his.canary
        assert "running" in {his.phase, beside.phase if beside else ""}
        launches.append(his.launch)
        turn(settle)
    his.refresh_from_db()
    assert (his.phase, his.launch, launches[0]) == ("running", 2, 1)
    assert (his.canary, his.taken_over, his.promoting, his.rolls_back) == (
        None,
        False,
        False,
        False,
    )
    assert (his.canary_percent, his.scaling_problem) == (0, "")
    held = Reservation.objects.filter(project=his.project)
    assert set(held.values_list("owner__username", "workload_uid")) == {("mona", his.uid)}
    event = Event.objects.get(verb="endpoint.taken-over")
    told_of = (event.actor_uid, event.data["from"], event.message)
    assert told_of == (mona.uid, "bob", "Bob goes")
    told = Notification.objects.get(user=bob, kind="endpoint.taken-over")
    assert told.params == {"who": "mona", "name": "digits", "reason": "Bob goes"}
    assert not Event.objects.filter(verb="endpoint.rolled-back").exists()


def test_what_stopped_because_its_owner_left_is_started_for_the_new_one(
    api, alice, mona, bob, his, at, settle, project
) -> None:
    member_remove(principal=Principal(alice), project=project, user=bob)
    assert settle(his).stop_reason == "owner-left"
    assert "until somebody starts it" in endpoint_wake(his.pk)
    answer = api(mona, "POST", f"{at}/takeover", WHY)
    assert answer.status_code == 202, answer.content
    row = settle(his)
    assert (row.phase, row.launch, row.owner) == ("running", 2, mona)
    assert (row.taken_over, row.canary) == (False, None)
    assert Notification.objects.filter(user=bob, kind="endpoint.taken-over").count() == 1
    assert api(mona, "POST", f"{at}/takeover", WHY).json()["code"] == "yours"


@pytest.mark.parametrize("state", ["asleep", "stopped"])
def test_what_rests_is_not_started_and_wakes_for_its_new_owner(
    api, mona, bob, his, at, settle, state
) -> None:
    api(bob, "POST", f"{at}/{'sleep' if state == 'asleep' else 'stop'}")
    settle(his)
    assert api(mona, "POST", f"{at}/takeover", WHY).status_code == 202
    row = settle(his)
    assert (row.desired, row.launch, row.owner) == ("stopped", 1, mona)
    Membership.objects.filter(user=bob).delete()  # whose rights count no more
    assert (endpoint_wake(row.pk) == "") is (state == "asleep")


def test_only_who_manages_endpoints_takes_one_over(
    api, alice, mona, bob, vera, charlie, his, at, project
) -> None:
    for who, status in ((bob, 403), (vera, 403), (charlie, 404)):
        assert api(who, "POST", f"{at}/takeover", WHY).status_code == status
    assert api(mona, "POST", f"{at}/takeover", {}).status_code == 400  # its owner is told why
    his.refresh_from_db()
    assert (his.owner, his.launch, his.canary) == (bob, 1, None)
    Membership.objects.filter(user=bob).update(role="manager")
    assert api(bob, "POST", f"{at}/takeover", WHY).json()["code"] == "yours"
    assert api(alice, "POST", f"{at}/takeover", WHY).status_code == 202


def test_what_its_new_owner_may_not_use_stands_in_the_way(
    api, mona, bob, his, at, settle, version, project
) -> None:
    Volume.objects.filter(pk=his.version.volume_id).update(kind="home", owner=bob)
    answer = api(mona, "POST", f"{at}/takeover", WHY)
    assert (answer.status_code, answer.json()["code"]) == (409, "not-usable")
    row = settle(his)
    assert (row.owner, row.phase, row.taken_over, row.canary) == (bob, "running", False, None)


def test_a_canary_stands_in_the_way_and_goes_with_what_is_stopped(
    api, mona, bob, his, at, settle
) -> None:
    assert api(bob, "POST", f"{at}/canary", {}).status_code == 202
    settle()
    assert api(mona, "POST", f"{at}/takeover", WHY).json()["code"] == "has-canary"
    api(bob, "POST", f"{at}/stop")
    settle()
    assert api(mona, "POST", f"{at}/takeover", WHY).status_code == 202
    his.refresh_from_db()
    assert {his.owner, his.canary.owner} == {mona}


def test_where_limits_leave_no_room_for_both_it_is_theirs_and_goes_on(
    api, mona, his, at, settle, project
) -> None:
    Limit.objects.create(project=project, resource="cpu_milli", amount=his.cpu_milli)
    answer = api(mona, "POST", f"{at}/takeover", WHY)
    assert (answer.status_code, answer.json()["owner"]) == (202, "mona"), answer.content
    assert "from its next start" in answer.json()["scaling_problem"]
    row = settle(his)
    assert (row.phase, row.launch, row.taken_over, row.canary) == ("running", 1, True, None)
    api(mona, "POST", f"{at}/stop")
    settle(row)
    api(mona, "POST", f"{at}/start")
    assert settle(row).taken_over is False


def test_one_press_on_its_page(client, mona, bob, his) -> None:
    page = f"/projects/vision/endpoints/{his.short_id}/"
    client.force_login(bob)
    assert "Take over" not in client.get(page).content.decode()
    client.force_login(mona)
    assert "Take over" in client.get(page).content.decode()
    assert client.post(f"{page}takeover/", WHY).status_code == 302
    his.refresh_from_db()
    assert his.owner == mona
    assert "It is the same for its new owner" in client.get(page).content.decode()
    assert "Take over" not in client.get(page).content.decode()


def test_the_bytes_that_answer_go_on_and_no_registry_is_asked(
    api, mona, his, at, monkeypatch
) -> None:
    def away(*_what: Any, **_how: Any) -> str:
        raise Conflict("The registry does not answer.")

    monkeypatch.setattr("work.services.launch.digest_of", away)
    Endpoint.objects.filter(pk=his.pk).update(image_digest=PINNED)
    assert api(mona, "POST", f"{at}/takeover", WHY).json()["scaling_problem"] == ""
    assert his.canary.image_digest == PINNED


def _killed(*_what: Any, **_how: Any) -> None:
    raise RuntimeError


def test_what_comes_beside_it_is_made_once_more_where_it_is_not_there(
    api, client, mona, bob, his, at, settle, monkeypatch, project
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(takeover, "canary_make", _killed)  # right after its owner was changed
        with pytest.raises(RuntimeError):
            endpoint_takeover(principal=Principal(mona), row=his, said="Bob goes")
    his.refresh_from_db()
    assert (his.owner, his.taken_over, his.canary) == (mona, True, None)
    client.force_login(mona)
    page = f"/projects/vision/endpoints/{his.short_id}/"
    assert "Begin anew as yours" in client.get(page).content.decode()
    limit = Limit.objects.create(project=project, resource="cpu_milli", amount=his.cpu_milli)
    assert api(mona, "POST", f"{at}/takeover").status_code == 409  # said at once
    limit.delete()
    assert api(mona, "POST", f"{at}/takeover").status_code == 202
    assert his.canary.owner == mona
    assert "Begin anew as yours" not in client.get(page).content.decode()
    assert api(mona, "POST", f"{at}/takeover", WHY).json()["code"] == "yours"
    assert api(mona, "DELETE", f"{at}/canary").status_code == 202  # somebody takes it away
    turn(settle)
    assert api(mona, "POST", f"{at}/takeover").status_code == 202
    settle()
    for _ in range(6):
        turn(settle)
    his.refresh_from_db()
    assert (his.phase, his.launch, his.taken_over, his.canary) == ("running", 2, False, None)
    assert Notification.objects.filter(user=bob, kind="endpoint.taken-over").count() == 1


def test_a_canary_that_answers_for_one_that_failed_stands_in_the_way(
    api, mona, bob, his, at, settle
) -> None:
    assert api(bob, "POST", f"{at}/canary", {}).status_code == 202
    settle()
    Endpoint.objects.filter(pk=his.pk).update(phase="failed")
    assert api(mona, "POST", f"{at}/takeover", WHY).json()["code"] == "has-canary"
    his.refresh_from_db()
    assert {his.owner, his.canary.owner} == {bob}


@pytest.mark.parametrize("by", ["its queue", "the line"])
def test_what_waits_begins_as_its_new_owners_only(api, mona, his, at, by) -> None:
    """Also where its cluster, or a step of the engine that is under way, has it as Bob's."""
    line = {**his.external_ref, "line": {"queue": "team"}}
    columns = {"phase": "pending", "external_ref": line if by == "its queue" else {}}
    Endpoint.objects.filter(pk=his.pk).update(**columns)
    assert api(mona, "POST", f"{at}/takeover", WHY).status_code == 202
    before = his.asked_at
    his.refresh_from_db()
    assert (his.owner, his.launch, his.taken_over, his.canary) == (mona, 2, False, None)
    assert (his.asked_at == before) is (by == "the line")
    assert Reservation.objects.get(workload_uid=his.uid, resource="cpu_milli").launch == 2


def test_what_is_stopped_meanwhile_does_not_begin_anew(api, bob, his, at) -> None:
    assert api(bob, "POST", f"{at}/stop").status_code == 202
    with pytest.raises(Conflict, match="meanwhile"):
        relaunch(principal=Principal(bob), found=his)
    his.refresh_from_db()
    assert (his.desired, his.launch) == ("stopped", 1)


def test_a_canary_that_is_made_meanwhile_is_not_its_former_owners(mona, bob, his) -> None:
    seen = Endpoint.objects.select_related("owner", "project").get(pk=his.pk)
    Endpoint.objects.filter(pk=his.pk).update(owner=mona)
    with pytest.raises(Conflict, match="meanwhile"):
        canary_make(principal=Principal(bob), row=seen, said={})
    assert his.canary is None


def test_what_it_is_given_stays_the_same_where_the_new_owner_has_one_of_that_name(
    api, mona, bob, his, at, settle, credential
) -> None:
    shared = credential("lake")
    assert api(bob, "PATCH", at, {"credentials": ["lake"]}).status_code == 202
    settle(his)
    credential("lake", project=None, owner=mona)
    assert api(mona, "POST", f"{at}/takeover", WHY).json()["scaling_problem"] == ""
    assert attached_to(his.canary).credentials == (shared,)


def test_another_launch_after_a_lost_place_is_its_new_owners(his) -> None:
    his.taken_over = True
    lost = EndpointReconciler().lost_place(ReconcileContext(his, {}), "preempted")
    assert lost.updates["taken_over"] is False


def test_files_are_looked_at_in_the_name_of_who_may_say_so_of_versions(
    mona, vera, his, monkeypatch
) -> None:
    monkeypatch.setattr(version_files, "LOOKED_WITHIN_S", 0)
    Membership.objects.filter(user=his.version.created_by).delete()
    for who, name in ((vera, "alice"), (mona, "mona")):
        version = version_files.version_look(his.version, anew=Principal(who))
        assert (version.created_by.username, version.files) == (name, "there")
    ModelVersion.objects.filter(pk=version.pk).update(created_by=None, look_at=None)
    version.refresh_from_db()
    version = version_files.version_look(version, anew=Principal(vera))
    assert (version.created_by, version.files) == (None, "there")
