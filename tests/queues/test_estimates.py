"""When a turn comes: a range from how long such work held its GPUs, and how far off it was."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from clusters.models import Claim
from common.clock import now
from placement.decision import Estimate
from queues import local
from queues.history import KEPT, LONG, History, prune
from queues.line import Line
from queues.models import Turn

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def past(cluster, minutes, *, project=None, expected=None, kind="thing"):
    """Turns that took so many minutes each, an hour ago."""
    at = now() - timedelta(hours=1)
    for taken in minutes:
        low, high = expected or (None, None)
        Turn.objects.create(
            cluster=cluster,
            workload_uid=uuid4(),
            workload_kind=kind,
            project_uid=project or uuid4(),
            gpus=1,
            asked_at=at,
            granted_at=at,
            ended_at=at + taken * MINUTE,
            expected_from=low and at + low,
            expected_until=high and at + high,
        )


def minutes_of(estimate):
    return [round((x - now()) / MINUTE) for x in (estimate.earliest, estimate.latest)]


def test_the_range_is_that_of_work_like_it(machine, ask):
    cluster = machine(gpus=["H100"])
    past(cluster, range(10, 51))
    local.admit(ask(gpus=1))
    request = ask(gpus=1)
    assert local.admit(request).position == 1
    claim = Claim.objects.get(workload_uid=request.uid)
    found = Line(cluster).estimate(claim, History(cluster))
    assert minutes_of(found) == [20, 40]
    assert found.samples == 41
    assert (claim.expected_from - now()) < 21 * MINUTE
    third = ask(gpus=1)
    local.admit(third)
    behind = Line(cluster).estimate(Claim.objects.get(workload_uid=third.uid), History(cluster))
    assert minutes_of(behind) == [40, 80]  # two must end


def test_five_of_its_project_say_more_than_all_others(machine, ask):
    cluster = machine(gpus=["H100"])
    past(cluster, [600] * 50)
    one = ask(gpus=1)
    past(cluster, [10] * 5, project=one.project_uid)
    local.admit(one)
    local.admit(ask(gpus=1))
    waiting = Claim.objects.get(granted_at__isnull=True)
    assert minutes_of(Line(cluster).estimate(waiting, History(cluster))) == [10, 10]


def test_a_time_limit_and_a_reclaim_end_it_sooner(machine, ask):
    cluster = machine(gpus=["H100"])
    past(cluster, [600] * 50)
    one = ask(gpus=1)
    local.admit(one)
    local.admit(ask(gpus=1))
    claims, history = Claim.objects.filter(workload_uid=one.uid), History(cluster)
    waiting = Claim.objects.get(granted_at__isnull=True)
    claims.update(time_limit_minutes=30)
    assert minutes_of(Line(cluster).estimate(waiting, history)) == [30, 30]
    claims.update(reclaim_at=now(), reclaim_until=now() + 2 * MINUTE)
    assert minutes_of(Line(cluster).estimate(waiting, history)) == [2, 2]


def test_with_nothing_known_it_goes_on_about_as_long_as_it_did(machine, ask):
    cluster = machine(gpus=["H100"])
    one = ask(gpus=1)
    local.admit(one)
    local.admit(ask(gpus=1))
    Claim.objects.filter(workload_uid=one.uid).update(granted_at=now() - 60 * MINUTE)
    waiting = Claim.objects.get(granted_at__isnull=True)
    found = Line(cluster).estimate(waiting, History(cluster))
    assert (minutes_of(found), found.samples, found.held) == ([30, 120], 0, None)


def test_what_never_fits_has_no_estimate(machine, ask):
    cluster = machine(gpus=["H100"])
    request = ask(gpus=3)
    local.admit(request)
    claim = Claim.objects.get(workload_uid=request.uid)
    assert Line(cluster).estimate(claim, History(cluster)) is None
    assert claim.expected_until is None


def test_how_often_estimates_held_is_told(machine):
    cluster = machine(gpus=["H100"])
    past(cluster, [10] * 3, expected=(-MINUTE, MINUTE))
    past(cluster, [10] * 2, expected=(MINUTE, 2 * MINUTE))
    assert History(cluster).held == pytest.approx(0.6)


def test_a_turn_is_kept_when_it_is_over_and_forgotten_later(machine, ask):
    machine(gpus=["H100"])
    one = ask(gpus=1)
    local.admit(one)
    local.release(one.uid)
    (turn,) = Turn.objects.all()
    assert (turn.gpus, turn.gave_back, str(turn.project_uid)) == (1, False, one.project_uid)
    Turn.objects.update(ended_at=now() - KEPT - MINUTE)
    assert (prune(), Turn.objects.count()) == (1, 0)


def test_housekeeping_forgets_old_turns(machine):
    from portal.server import duties

    cluster = machine(gpus=["H100"])
    past(cluster, [10, 20])
    old = Turn.objects.order_by("pk").first()
    Turn.objects.filter(pk=old.pk).update(ended_at=now() - KEPT - MINUTE)
    duties.tidy()
    assert not Turn.objects.filter(pk=old.pk).exists()
    assert Turn.objects.count() == 1


def test_in_a_long_line_it_is_counted_how_much_is_before(machine, ask):
    cluster = machine(gpus=["H100", "H100"])
    past(cluster, [10] * 8)
    for _n in range(LONG + 2):
        local.admit(ask(gpus=1))
    last = ask(gpus=2)
    assert local.admit(last).turn is not None
    claim = Claim.objects.get(workload_uid=last.uid)
    # 30 of one wait before it, and it wants two: 32 one after another on two GPUs
    assert minutes_of(Estimate(claim.expected_from, claim.expected_until, 0)) == [160, 160]
