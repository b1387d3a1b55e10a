"""An endpoint that nobody calls sleeps, and the next request wakes it once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from common.clock import now
from serving.gateway.tallies import LIVES_S, Tallies
from serving.services import endpoint_wake, endpoints_sleep
from tests.serving.conftest import ENDPOINTS

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project")]


@pytest.fixture
def quiet(serve) -> Any:
    """An endpoint that was ready for two minutes and sleeps after one, and a gateway that tells."""
    from serving.models import Endpoint

    row = serve(sleep_after_minutes=1)
    Endpoint.objects.filter(pk=row.pk).update(ready_at=now() - timedelta(minutes=2))
    row.refresh_from_db()
    tells()
    return row


def tells() -> Tallies:
    """A gateway that has looked twice and carries nothing."""
    one = Tallies("quiet")
    for moment in (100.0, 106.0):
        one.write_pressures({}, {}, moment=moment)
    return one


def _press(row: Any, *, ago_s: float = 0, **numbers: int) -> None:
    from serving.models import Pressure

    at = now() - timedelta(seconds=ago_s)
    Pressure.objects.create(endpoint=row, gateway="one", seen_at=at, **numbers)


def test_it_sleeps_and_a_request_wakes_it(api, quiet, settle, alice) -> None:
    assert endpoints_sleep() == 1
    row = settle(quiet)
    address = f"{ENDPOINTS}/{row.short_id}"
    assert api(alice, "GET", address).json()["status"]["state"] == "asleep"
    assert endpoint_wake(row.pk) == ""
    row = settle(row)
    assert (api(alice, "GET", address).json()["status"]["state"], row.launch) == ("ready", 2)


def test_asleep_it_holds_nothing_of_the_limits(quiet, settle) -> None:
    from quotas.models import Reservation

    assert Reservation.objects.filter(workload_uid=quiet.uid).exists()
    endpoints_sleep()
    settle(quiet)
    assert not Reservation.objects.filter(workload_uid=quiet.uid).exists()


def test_its_owner_is_not_told_of_sleep_but_the_events_are(quiet, alice) -> None:
    from events.models import Event
    from notifications.models import Notification

    endpoints_sleep()
    endpoint_wake(quiet.pk)
    verbs = Event.objects.filter(verb__in=["endpoint.asleep", "endpoint.called"]).order_by("id")
    assert [(one.verb, one.actor_uid) for one in verbs] == [
        ("endpoint.asleep", None),
        ("endpoint.called", None),
    ]
    assert not Notification.objects.filter(user=alice).exists()


@pytest.mark.parametrize(
    ("columns", "pressure"),
    [
        ({"called_at": 0}, None),
        ({"ready_at": None}, None),
        ({"sleep_after_minutes": 0}, None),
        ({"promoting": True}, None),
        ({}, {"answering": 1}),
        ({}, {"waiting": 1}),
    ],
)
def test_what_is_called_or_busy_or_never_sleeps_stays_awake(quiet, columns, pressure) -> None:
    from serving.models import Endpoint

    if "called_at" in columns:
        columns = {"called_at": now()}
    Endpoint.objects.filter(pk=quiet.pk).update(**columns)
    if pressure:
        _press(quiet, **pressure)
    assert endpoints_sleep() == 0


def test_what_a_dead_gateway_had_in_hand_keeps_nothing_awake(quiet) -> None:
    _press(quiet, ago_s=60, answering=3)
    assert endpoints_sleep() == 1


def test_nothing_sleeps_while_no_gateway_tells(quiet) -> None:
    """It may carry any number of requests that no row knows of."""
    from runtime.models import Lease

    Lease.objects.filter(name="gateway:quiet").update(until=now() - timedelta(seconds=1))
    assert endpoints_sleep() == 0
    tells().leave()
    assert endpoints_sleep() == 0
    one = Tallies("new")
    one.write_pressures({}, {}, moment=100.0)
    assert endpoints_sleep() == 0  # it has only begun
    one.write_pressures({}, {}, moment=106.0)
    assert endpoints_sleep() == 1


def test_what_a_gateway_carries_counts_as_long_as_its_word(quiet) -> None:
    _press(quiet, ago_s=LIVES_S - 2, answering=1)
    assert endpoints_sleep() == 0


def test_a_request_between_the_look_and_the_lock_keeps_it_awake(quiet) -> None:
    from serving.services.sleep import _sleep

    _press(quiet, waiting=1)  # it was due when all were looked at
    assert _sleep(quiet) is False
    quiet.refresh_from_db()
    assert quiet.desired == "running"


def test_one_row_that_fails_keeps_no_other_awake(quiet, serve) -> None:
    from serving.models import Endpoint

    other = serve(name="other", sleep_after_minutes=1)
    Endpoint.objects.update(ready_at=now() - timedelta(minutes=2))
    Endpoint.objects.filter(pk=quiet.pk).update(kind="none-of-these")
    assert endpoints_sleep() == 1
    other.refresh_from_db()
    assert other.stop_reason == "asleep"


def test_any_number_of_wishes_make_one_launch(quiet, settle) -> None:
    endpoints_sleep()
    assert [endpoint_wake(quiet.pk) for _one in range(5)] == [""] * 5
    assert settle(quiet).launch == 2


def test_what_goes_to_sleep_is_woken_in_the_middle_of_it(quiet, settle) -> None:
    endpoints_sleep()  # its process still runs
    assert endpoint_wake(quiet.pk) == ""
    row = settle(quiet)
    assert (row.phase, row.launch) == ("running", 2)


def test_e1_who_still_waits_while_its_launch_before_ends_is_not_told_that_it_was_stopped(
    quiet, fake
) -> None:
    """As with a worker that was killed when it went to sleep: the gateway asks every five seconds."""
    from serving.models import Endpoint

    del fake
    endpoints_sleep()
    Endpoint.objects.filter(pk=quiet.pk).update(phase="stopping")
    assert [endpoint_wake(quiet.pk) for _turn in range(3)] == ["", "", ""]
    quiet.refresh_from_db()
    assert (quiet.desired, quiet.phase, quiet.launch) == ("running", "stopping", 2)


def test_what_somebody_stopped_is_not_woken(api, quiet, settle, alice) -> None:
    api(alice, "POST", f"{ENDPOINTS}/{quiet.short_id}/stop")
    row = settle(quiet)
    assert endpoint_wake(row.pk) == (
        "It does not answer until somebody starts it. Stopped by its owner."
    )
    row.refresh_from_db()
    assert row.desired == "stopped"


def test_a_limit_that_is_reached_is_said_where_its_owner_looks(quiet, settle, project) -> None:
    from quotas.models import Limit

    endpoints_sleep()
    row = settle(quiet)
    limit = Limit.objects.create(project=project, resource="cpu_milli", amount=1)
    assert endpoint_wake(row.pk) == "A limit of its project or its owner is reached."
    row.refresh_from_db()
    assert (row.desired, row.stop_reason, row.launch) == ("stopped", "asleep", 1)
    assert "CPU" in row.scaling_problem
    limit.delete()
    assert endpoint_wake(row.pk) == ""
    row.refresh_from_db()
    assert (row.desired, row.scaling_problem) == ("running", "")


def test_an_archived_project_wakes_nothing(quiet, settle, project) -> None:
    endpoints_sleep()
    row = settle(quiet)
    project.archived_at = now()
    project.save()
    assert endpoint_wake(row.pk) == "It can't start now; its page says why."
    row.refresh_from_db()
    assert "archived" in row.scaling_problem


def test_what_its_owner_may_not_start_any_more_is_not_woken_and_its_page_says_what_to_do(
    client, quiet, settle, alice, project
) -> None:
    from projects.models import Membership

    endpoints_sleep()
    row = settle(quiet)
    of_alice = Membership.objects.filter(project=project, user=alice)
    of_alice.update(role="viewer")
    assert endpoint_wake(row.pk) == "Its owner may not run it here any more."
    row.refresh_from_db()
    assert row.launch == 1
    client.force_login(alice)
    page = client.get(f"/projects/vision/endpoints/{row.short_id}/").content.decode()
    assert "It does not wake" in page
    assert f"{alice.label} may not run it here any more. Whoever manages the project" in page
    of_alice.update(role="member")
    assert endpoint_wake(row.pk) == ""
    page = client.get(f"/projects/vision/endpoints/{row.short_id}/").content.decode()
    assert "does not wake" not in page


def test_a3_who_calls_what_cant_start_reads_no_name_of_a_volume(quiet, settle, data, alice) -> None:
    """Its page does: whoever owns it reads which one."""
    from serving.models import Endpoint
    from volumes.models import Volume
    from work.models import WorkloadVolume

    endpoints_sleep()
    row = settle(quiet)
    WorkloadVolume.objects.create(workload=row, volume=data)
    Volume.objects.filter(pk=data.pk).update(desired="absent", phase="stopping")
    told = endpoint_wake(row.pk)
    row.refresh_from_db()
    assert (told, data.name in row.scaling_problem) == (
        "It can't start now; its page says why.",
        True,
    )
    assert Endpoint.objects.get(pk=row.pk).launch == 1


def test_nothing_that_is_not_there_is_woken() -> None:
    assert endpoint_wake(0)


def test_its_owner_puts_it_to_sleep_by_a_press_and_a_request_wakes_it(
    client, api, serve, settle, alice
) -> None:
    row = serve()
    client.force_login(alice)
    here = f"/projects/vision/endpoints/{row.short_id}/"
    assert "Put to sleep" in client.get(here).content.decode()
    assert client.post(f"{here}sleep/").status_code == 302
    row = settle(row)
    page = client.get(here).content.decode()
    assert ("Asleep" in page, "Put to sleep</button>" in page) == (True, False)
    again = api(alice, "POST", f"{ENDPOINTS}/{row.short_id}/sleep", {})
    assert "Wake</button>" in page
    assert (again.status_code, again.json()["detail"]) == (
        409,
        "It does not answer now: there is nothing to put to sleep.",
    )
    assert endpoint_wake(row.pk) == ""
    assert settle(row).launch == 2


def test_who_manages_puts_anothers_to_sleep_and_says_why(
    api, serve, settle, alice, operator
) -> None:
    from notifications.models import Notification

    row = serve()
    at = f"{ENDPOINTS}/{row.short_id}/sleep"
    assert api(operator, "POST", at, {}).status_code == 400
    assert api(operator, "POST", at, {"reason": "a demonstration needs it"}).status_code == 202
    assert settle(row).stop_reason == "asleep"
    told = Notification.objects.get(user=alice)
    assert (told.kind, told.params["reason"]) == ("work.stopped", "a demonstration needs it")


def test_who_only_sees_it_does_not_put_it_to_sleep(api, serve, vera) -> None:
    row = serve()
    at = f"{ENDPOINTS}/{row.short_id}/sleep"
    assert api(vera, "POST", at, {"reason": "why not"}).status_code == 403
    row.refresh_from_db()
    assert row.desired == "running"


def test_what_sleeps_can_be_stopped_and_is_woken_by_nobody_then(
    client, api, quiet, settle, alice
) -> None:
    endpoints_sleep()
    row = settle(quiet)
    client.force_login(alice)
    here = f"/projects/vision/endpoints/{row.short_id}/"
    assert client.post(f"{here}stop/").status_code == 302
    row = settle(row)
    assert api(alice, "GET", f"{ENDPOINTS}/{row.short_id}").json()["status"]["state"] == "stopped"
    assert endpoint_wake(row.pk) == (
        "It does not answer until somebody starts it. Stopped by its owner."
    )
    assert client.post(f"{here}start/").status_code == 302
    assert settle(row).launch == 2


def test_who_wakes_it_by_a_press_needs_no_request(client, quiet, settle, alice) -> None:
    endpoints_sleep()
    row = settle(quiet)
    client.force_login(alice)
    assert client.post(f"/projects/vision/endpoints/{row.short_id}/start/").status_code == 302
    assert settle(row).launch == 2


@pytest.mark.parametrize("what", ["archived", "left"])
def test_what_sleeps_stops_with_its_project_and_its_owner(
    quiet, settle, project, alice, operator, api, what
) -> None:
    """Else the next request after a way back launches it, unasked."""
    from accounts.principal import Principal
    from projects.models import Membership
    from projects.services.life import project_archive, project_unarchive
    from projects.services.members import member_remove
    from serving.models import Endpoint

    answer = api(alice, "POST", f"{ENDPOINTS}/{quiet.short_id}/canary", {})
    assert answer.status_code == 202, answer.content
    canary = settle(Endpoint.objects.get(canary_of=quiet))
    assert endpoints_sleep() == 1
    settle()
    who = Principal(operator)
    if what == "archived":
        project_archive(principal=who, project=project)
        project_unarchive(principal=who, project=project)
    else:
        Membership.objects.create(project=project, user=operator, role="owner")
        member_remove(principal=who, project=project, user=alice)
    for row in (quiet, canary):
        assert settle(row).stop_reason in {"project-archived", "owner-left"}
    assert "until somebody starts it" in endpoint_wake(quiet.pk)


def test_a_look_is_one_question_however_many_canaries_there_were(
    quiet, api, alice, settle, django_assert_num_queries
) -> None:
    from serving.models import Endpoint

    for _turn in range(2):
        answer = api(alice, "POST", f"{ENDPOINTS}/{quiet.short_id}/canary", {})
        assert answer.status_code == 202, answer.content
        canary = settle(Endpoint.objects.get(canary_of=quiet, deleted_at=None))
        Endpoint.objects.filter(pk=canary.pk).update(called_at=now(), deleted_at=now())
    with django_assert_num_queries(1):
        assert endpoints_sleep() == 0  # who just took one away was called through it a moment ago
    Endpoint.objects.filter(canary_of=quiet).update(called_at=now() - timedelta(minutes=5))
    assert endpoints_sleep() == 1
