"""The contract with an idle holder, from the first quiet minute to the end."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine

from accounts.models import User
from common.clock import now
from common.errors import Conflict, Forbidden, Invalid
from events.models import Event
from notebooks.models import Workspace
from notifications.models import Mail, Notification
from parking import dry_run, selectors, services
from parking.look import look
from parking.models import Stretch
from work.models import Ticket

HOUR = timedelta(hours=1)


def minutes(n):
    return timedelta(minutes=n)


@pytest.fixture
def passes(measured):
    """Look each half minute for so many minutes; return how many were told or stopped."""

    def run(row, count, **figures):
        done = 0
        begun = now()
        for n in range(count + 1):
            with time_machine.travel(begun + minutes(n), tick=False):
                measured(row, 0, **figures)
                done += services.enforce()
        return done

    return run


@pytest.fixture
def idle(holder, alice, policy, measured):
    """A holder of a platform with a policy, idle for 70 minutes as far as it was looked at."""
    policy()
    row = holder(alice)
    with time_machine.travel(now() - minutes(70), tick=False):
        measured(row, 10)
        services.enforce()
    measured(row, 75)
    return row


def test_an_idle_holder_is_told_once_and_then_parked(idle, alice, settle, measured):
    began = now()
    with time_machine.travel(began, tick=False):
        measured(idle, 5)
        assert services.enforce() == 1
        assert services.enforce() == 0
    told = Notification.objects.get(kind="work.idle-park")
    assert (told.user, told.params["minutes"]) == (alice, 15)
    assert Mail.objects.filter(kind="work.idle-park", user=alice).count() == 1
    with time_machine.travel(began + minutes(14), tick=False):
        measured(idle, 20)
        assert services.enforce() == 0
    with time_machine.travel(began + minutes(15), tick=False):
        measured(idle, 5)
        assert services.enforce() == 1
        settle(idle)
    assert (idle.phase, idle.stop_reason, idle.deleted_at) == ("stopped", "parked", None)
    assert not Stretch.objects.exists()
    assert Ticket.objects.get().workload_id == idle.pk


@pytest.mark.parametrize(
    "figures",
    [
        {"gpu": 60.0},
        {"cpu": 900.0},
        {"busy": 1},
        {"gpu": None},
        {"cpu": None},
        {"used_at": "now"},
    ],
)
def test_who_uses_it_or_is_not_measured_keeps_it(idle, measured, figures):
    services.enforce()
    assert Stretch.objects.get().warned_at is not None
    began = now()
    for n in range(0, 40, 2):
        with time_machine.travel(began + minutes(n), tick=False):
            said = dict(figures)
            if said.get("used_at"):
                said["used_at"] = now()
            measured(idle, 2, **said)
            services.enforce()
    idle.refresh_from_db()
    assert idle.desired == "running"
    assert not Stretch.objects.exists()


def test_figures_that_are_away_give_nothing_back(idle):
    services.enforce()
    with time_machine.travel(now() + HOUR, tick=False):
        assert services.enforce() == 0
    idle.refresh_from_db()
    assert idle.desired == "running"


def test_the_last_two_minutes_are_looked_at_before_it_is_parked(idle, measured):
    services.enforce()
    with time_machine.travel(now() + minutes(15), tick=False):
        measured(idle, 20)
        from metrics.models import Sample

        Sample.objects.create(uid=idle.uid, at=now(), gpu_utilisation=90, cpu_milli=10)
        assert services.enforce() == 0
    idle.refresh_from_db()
    assert idle.desired == "running"


def test_a_worker_that_is_killed_after_the_warning_is_followed_by_one_that_parks(
    idle, measured, monkeypatch
):
    services.enforce()
    due = Stretch.objects.get().due_at

    def killed(*_args, **_said):
        raise SystemExit(9)

    with time_machine.travel(due, tick=False):
        measured(idle, 20)
        with monkeypatch.context() as m:
            m.setattr("parking.services.watch.end", killed)
            with pytest.raises(SystemExit):
                services.enforce()
        idle.refresh_from_db()
        assert (idle.desired, Stretch.objects.get().due_at) == ("running", due)
        assert services.enforce() == 1
    assert Notification.objects.filter(kind="work.idle-park").count() == 1


def test_an_extension_puts_it_off_and_beyond_its_policy_a_reason_is_asked(
    idle, alice, principal, measured
):
    services.enforce()
    who, began = principal(alice), now()
    services.idle_extend(principal=who, row=idle)
    kept = Stretch.objects.get()
    assert (kept.extensions, kept.warned_at) == (1, None)
    assert kept.due_at > began + minutes(130)
    with pytest.raises(Invalid) as refused:
        services.idle_extend(principal=who, row=idle)
    assert "reason" in refused.value.fields
    services.idle_extend(principal=who, row=idle, reason="A demonstration at four")
    told = Event.objects.filter(verb="work.idle-extended").order_by("-id").first()
    assert (told.message, told.data["times"]) == ("A demonstration at four", 2)
    with pytest.raises(Conflict) as enough:
        services.idle_extend(principal=who, row=idle, reason="And one at six")
    assert enough.value.code == "far-enough"
    with time_machine.travel(began + minutes(30), tick=False):
        measured(idle, 35)
        assert services.enforce() == 0
    idle.refresh_from_db()
    assert idle.desired == "running"


def test_an_extension_in_the_second_of_parking_is_told_that_it_is_late(
    idle, alice, principal, measured
):
    services.enforce()
    with time_machine.travel(Stretch.objects.get().due_at, tick=False):
        measured(idle, 20)
        assert services.enforce() == 1
        with pytest.raises(Conflict) as late:
            services.idle_extend(principal=principal(alice), row=idle)
    assert late.value.code == "not-running"


def test_an_extension_a_moment_before_it_counts(idle, alice, principal, measured):
    """The duty had decided on what it saw; under the lock it looks again."""
    from parking.services import watch

    services.enforce()
    with time_machine.travel(Stretch.objects.get().due_at, tick=False):
        measured(idle, 20)
        services.idle_extend(principal=principal(alice), row=idle)
        assert watch._decide(idle.pk) is False
    idle.refresh_from_db()
    assert idle.desired == "running"


def test_others_put_nothing_off(idle, bob, mona, principal):
    services.enforce()
    with pytest.raises(Forbidden):
        services.idle_extend(principal=principal(bob), row=idle)
    services.idle_extend(principal=principal(mona), row=idle)


def test_who_was_disabled_meanwhile_is_told_nothing_more(idle, alice, settle, measured):
    services.enforce()
    User.objects.filter(pk=alice.pk).update(is_active=False)
    from work.services import limits_enforce

    limits_enforce()
    settle(idle)
    assert idle.stop_reason == "owner-disabled"
    assert services.enforce() == 0
    assert not Stretch.objects.exists()


def test_an_archived_project_ends_the_stretch(idle, alice, principal, project, settle):
    services.enforce()
    from projects.services.life import project_archive

    project_archive(principal=principal(alice), project=project, confirm_stop=True)
    settle(idle)
    assert idle.stop_reason == "project-archived"
    assert services.enforce() == 0
    assert not Stretch.objects.exists()


def test_a_dry_run_touches_and_tells_nobody(holder, alice, policy, measured):
    policy(state="dry-run")
    row = holder(alice)
    for n in range(0, 120, 5):
        with time_machine.travel(now() + minutes(n), tick=False):
            measured(row, 6)
            assert services.enforce() == 0
    row.refresh_from_db()
    assert row.desired == "running"
    assert Stretch.objects.get().done_at is not None
    assert selectors.notice_of(row) is None
    assert not Notification.objects.filter(kind__startswith="work.idle").exists()


def test_one_that_only_tells_stops_nothing(holder, alice, policy, measured):
    policy(act="tell")
    row = holder(alice)
    told = 0
    for n in range(0, 180, 5):
        with time_machine.travel(now() + minutes(n), tick=False):
            measured(row, 6)
            told += services.enforce()
    row.refresh_from_db()
    assert (told, row.desired) == (1, "running")
    assert Notification.objects.filter(kind="work.idle-tell").count() == 1


def test_the_nearest_policy_holds(holder, alice, project, policy, measured):
    policy(minutes=5, grace=1)
    policy(project=project, state="on", act="tell", minutes=600)
    row = holder(alice)
    for n in range(0, 60, 5):
        with time_machine.travel(now() + minutes(n), tick=False):
            measured(row, 6)
            assert services.enforce() == 0
    row.refresh_from_db()
    assert row.desired == "running"


def test_the_stricter_of_preset_and_policy_holds(holder, alice, policy, measured):
    from metrics.models import Quiet
    from notebooks.models import Workspace

    policy(minutes=600)
    row = holder(alice)
    Workspace.objects.filter(pk=row.pk).update(idle_stop_minutes=30)
    measured(row, 6)
    Quiet.objects.create(uid=row.uid, known_at=now(), since=now() - HOUR)
    assert services.enforce() == 1
    assert Stretch.objects.get().policy is None
    assert Notification.objects.filter(kind="workspace.ending").exists()


def test_what_was_put_off_stays_so_where_two_rules_hold(holder, alice, policy, principal, measured):
    from metrics.models import Quiet
    from notebooks.models import Workspace

    policy(minutes=60, grace=15)
    row = holder(alice)
    Workspace.objects.filter(pk=row.pk).update(idle_stop_minutes=90)
    measured(row, 6)
    began = now()
    Quiet.objects.create(uid=row.uid, known_at=began, since=began - timedelta(minutes=80))
    assert services.enforce() == 1
    services.idle_extend(principal=principal(alice), row=row)
    put_off = Stretch.objects.get()
    assert (put_off.policy, put_off.extensions) == (None, 1)
    for later in (2, 10, 20):
        with time_machine.travel(began + minutes(later), tick=False):
            measured(row, 6 + later)
            Quiet.objects.update(known_at=now())
            services.enforce()
        kept = Stretch.objects.get()
        assert (kept.extended_until, kept.policy) == (put_off.extended_until, None)


def test_an_open_ssh_session_is_use(idle):
    from hubapi.activity import note_used

    services.enforce()
    note_used([idle.uid])
    services.enforce()
    assert not Stretch.objects.exists()


def test_a_shorter_time_begins_with_a_new_look(idle, operator, principal):
    services.enforce()
    row = selectors.policies().get()
    services.policy_change(principal=principal(operator), policy=row, values={"minutes": 30})
    assert not Stretch.objects.exists()
    told = Event.objects.get(verb="idle-policy.changed")
    assert told.data["after"]["gpu_hours"] == "0"


def test_looking_costs_as_much_for_ten_as_for_two(
    holder, alice, bob, policy, measured, django_assert_max_num_queries
):
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    policy()
    counts = []
    for user in (alice, bob):
        for _ in range(2):
            measured(holder(user), 6)
        services.enforce()
        with CaptureQueriesContext(
            connection,
        ) as seen:
            services.enforce()
        counts.append(len(seen))
    assert counts[0] == counts[1]


def test_a_policy_for_containers_leaves_notebooks_to_the_one_for_workspaces(
    holder, alice, bob, policy, measured
):
    note, box = holder(alice), holder(bob)
    Workspace.objects.filter(pk=box.pk).update(variant="container")
    general, exact = policy(kind="workspace", minutes=600), policy(kind="container")
    for row in (note, box):
        measured(row, 75)
    found = {one.pk: one.policy for one in look()}
    assert found == {note.pk: general, box.pk: exact}
    exact.delete()
    assert {one.policy for one in look()} == {general}
    with pytest.raises(Invalid):
        policy(kind="boat")


def test_a_dry_run_for_notebooks_counts_no_containers(holder, alice, bob, policy, hours):
    note, box = holder(alice), holder(bob)
    Workspace.objects.filter(pk=box.pk).update(variant="container")
    for row in (note, box):
        hours(row, *[0] * 12)
    (line,) = dry_run.look_back(policy(kind="notebook", state="dry-run"), days=7).lines
    assert line.owner == "alice"
