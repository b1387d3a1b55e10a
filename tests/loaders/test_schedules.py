"""Loads that start by themselves: once for each time, and never without the right."""

from datetime import timedelta
from typing import Any

import pytest

from common.clock import now
from events.models import Event
from loaders import services
from loaders.models import Load
from notifications.models import Notification
from work import services as work


@pytest.fixture
def scheduled(load: Any, alice: Any, settle: Any, end: Any) -> Any:
    return end(settle(load(alice, schedule="30 2 * * *")))


def come_due(row: Any) -> None:
    Load.objects.filter(pk=row.pk).update(next_run_at=now() - timedelta(days=3))


def test_a_time_that_came_starts_one_run_however_long_nobody_looked(scheduled):
    assert services.schedules_run() == 0
    come_due(scheduled)
    assert services.schedules_run() == 1
    assert services.schedules_run() == 0
    scheduled.refresh_from_db()
    assert (scheduled.launch, scheduled.next_run_at > now()) == (2, True)
    run = scheduled.runs.first()
    assert (run.scheduled, run.started_by) == (True, None)
    assert Event.objects.filter(verb="load.started", actor_name="").count() == 1


def test_a_run_that_is_not_over_is_not_started_again(scheduled, settle):
    come_due(scheduled)
    services.schedules_run()
    settle(scheduled)
    come_due(scheduled)
    assert services.schedules_run() == 0
    scheduled.refresh_from_db()
    assert (scheduled.launch, "not over" in scheduled.schedule_note) == (2, True)


def test_what_is_paused_stays_paused(scheduled, settle, principal, alice):
    services.load_start(principal=principal(alice), row=scheduled)
    work.workload_stop(principal=principal(alice), row=scheduled)
    settle(scheduled)
    come_due(scheduled)
    assert services.schedules_run() == 0
    scheduled.refresh_from_db()
    assert (scheduled.launch, scheduled.schedule_note) == (2, "It is paused.")


def test_a_limit_that_refuses_is_told_once_and_asked_again_the_next_time(
    scheduled, project, operator, principal
):
    from quotas.services import limits_set

    limits_set(principal=principal(operator), project=project, limits={"cpu_milli": 1})
    for _ in range(2):
        come_due(scheduled)
        assert services.schedules_run() == 0
    scheduled.refresh_from_db()
    assert (scheduled.launch, "CPU" in scheduled.schedule_note) == (1, True)
    assert Notification.objects.filter(kind="load.not-started").count() == 1
    limits_set(principal=principal(operator), project=project, limits={"cpu_milli": None})
    come_due(scheduled)
    assert services.schedules_run() == 1
    scheduled.refresh_from_db()
    assert scheduled.schedule_note == ""


def test_nothing_starts_for_an_owner_who_may_not_load(scheduled, project, alice):
    from projects.models import Membership

    Membership.objects.filter(project=project, user=alice).update(role="viewer")
    come_due(scheduled)
    assert services.schedules_run() == 0
    scheduled.refresh_from_db()
    assert (scheduled.launch, bool(scheduled.schedule_note)) == (1, True)


def test_a_schedule_that_rests_wakes_when_somebody_chooses_another_credential(
    load, alice, settle, end, credential, principal
):
    from credentials.services import credential_delete

    gone, other = credential("gone"), credential("other")
    row = end(settle(load(alice, schedule="30 2 * * *", credential="gone")))
    credential_delete(principal=principal(alice), credential=gone, confirm="gone")
    row.refresh_from_db()
    assert (row.next_run_at, bool(row.schedule_note)) == (None, True)
    wanted = {"credential": str(other.uid)}
    work.workload_edit(principal=principal(alice), row=row, said=wanted)
    row.refresh_from_db()
    assert (row.next_run_at > now(), row.schedule_note) == (True, "")


def test_a_schedule_that_rests_wakes_when_it_is_saved_as_it_is(scheduled, principal, alice):
    Load.objects.filter(pk=scheduled.pk).update(next_run_at=None, schedule_note="Away.")
    generation = scheduled.generation
    for _ in range(2):
        work.workload_edit(principal=principal(alice), row=scheduled, said={})
        scheduled.refresh_from_db()
        assert (scheduled.next_run_at > now(), scheduled.schedule_note) == (True, "")
    assert scheduled.generation == generation + 1


def test_a_longer_pause_of_the_operator_ends_no_schedule_that_is_there(scheduled, settings):
    settings.BERTH_LOAD_SCHEDULE_MINUTES = 3 * 24 * 60
    come_due(scheduled)
    assert services.schedules_run() == 1
    scheduled.refresh_from_db()
    assert scheduled.next_run_at > now()


def test_a_time_zone_that_is_gone_is_told_and_starts_nothing(scheduled):
    Load.objects.filter(pk=scheduled.pk).update(time_zone="Mars/Olympus")
    come_due(scheduled)
    assert services.schedules_run() == 0
    scheduled.refresh_from_db()
    assert (scheduled.launch, scheduled.next_run_at) == (1, None)
    assert "time zone" in scheduled.schedule_note
    assert Notification.objects.filter(kind="load.not-started").count() == 1


def test_people_are_told_how_their_loads_ended(load, alice, settle, end):
    end(settle(load(alice, "s3://bucket/a")), 0)
    end(settle(load(alice, "s3://bucket/b")), 3)
    end(settle(load(alice, "s3://bucket/c")), 4)
    kinds = set(Notification.objects.values_list("kind", flat=True))
    assert kinds == {"load.done", "load.partial", "load.failed"}
