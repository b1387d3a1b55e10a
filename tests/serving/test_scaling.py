"""From what gateways have in hand to how many replicas there are."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from hypothesis import given
from hypothesis import strategies as st

from common.clock import now
from runtime.reasons import Reason
from runtime.spec import Serve
from serving.runtime_spec import workload_spec
from serving.services import Scaler
from serving.services import scale as scale_module
from serving.services.scale import LESS_AFTER_S, Needs, needed
from tests.serving.conftest import ENDPOINTS
from usage import selectors
from usage.selectors import Range

HOUR = timedelta(hours=1)
NUMBERS = st.integers(min_value=1, max_value=64)


@given(hand=st.integers(min_value=0, max_value=10**6), concurrency=NUMBERS, a=NUMBERS, b=NUMBERS)
def test_needed_is_within_the_bounds_and_enough_where_they_allow(hand, concurrency, a, b) -> None:
    least, most = sorted((a, b))
    found = needed(hand, concurrency, least, most)
    assert least <= found <= most
    assert found == most or found * concurrency >= hand
    assert found == least or (found - 1) * concurrency < hand


@given(looks=st.lists(st.tuples(st.floats(0.5, 40), NUMBERS), min_size=1, max_size=60))
def test_up_at_once_and_never_below_what_the_last_minute_needed(looks) -> None:
    """Whatever comes in whatever order, and however far apart the looks are."""
    needs, current, at = Needs(), 1, 0.0
    history: list[tuple[float, int]] = []
    for pause, now_needed in looks:
        at += pause
        history.append((at, now_needed))
        before, current = current, needs.wanted(at, now_needed, current)
        assert current >= now_needed
        assert current <= max(before, now_needed)
        lately = [number for when, number in history if when >= at - LESS_AFTER_S]
        assert current >= min(before, max(lately))
        if current < before:
            assert current == max(lately)
            assert at - history[0][0] >= LESS_AFTER_S


@pytest.fixture
def clock(monkeypatch) -> Any:
    """The scaler's own clock; minutes pass at once."""

    class Clock:
        at = 1000.0

        def monotonic(self) -> float:
            return self.at

    made = Clock()
    monkeypatch.setattr(scale_module, "time", made)
    return made


def _press(row: Any, answering: int, waiting: int = 0, gateway: str = "one") -> None:
    from serving.models import Pressure

    told = {"answering": answering, "waiting": waiting, "seen_at": now()}
    Pressure.objects.update_or_create(endpoint=row, gateway=gateway, defaults=told)


@pytest.fixture
def wide(serve) -> Any:
    """From one to three replicas, each for two requests at once."""
    return serve(min_replicas=1, max_replicas=3, concurrency=2)


def _ready(fake: Any, row: Any) -> int:
    (seen,) = fake.observe([str(row.uid)]).values()
    return len([one for one in seen.replicas if one.address])


pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project")]


def test_one_three_one_by_what_all_gateways_have(
    fake, wide, settle, clock, django_assert_max_num_queries
) -> None:
    scaler = Scaler()
    _press(wide, 2)
    _press(wide, 1, 2, gateway="two")
    assert scaler.tick() == 1
    row = settle(wide)
    assert (row.replicas, _ready(fake, row), row.launch) == (3, 3, 1)
    _press(wide, 0)
    _press(wide, 1, gateway="two")
    for seconds in (2, 56):
        clock.at += seconds
        assert scaler.tick() == 0
    clock.at += 5
    with django_assert_max_num_queries(40):
        assert scaler.tick() == 1
    row = settle(wide)
    assert (row.replicas, _ready(fake, row)) == (1, 1)


def test_a_look_that_changes_nothing_is_one_question(
    wide, serve, clock, django_assert_num_queries
) -> None:
    for name in ("b", "c"):
        serve(name=name, max_replicas=4)
    scaler = Scaler()
    with django_assert_num_queries(1):
        assert scaler.tick() == 0


def test_limits_count_each_replica_and_what_they_refuse_is_said(
    api, alice, wide, settle, clock, project
) -> None:
    from quotas.models import Limit, Reservation

    scaler = Scaler()
    limit = Limit.objects.create(project=project, resource="cpu_milli", amount=4000)
    _press(wide, 6)
    assert scaler.tick() == 1  # two of the three that it needs
    row = settle(wide)
    held = Reservation.objects.get(workload_uid=row.uid, resource="cpu_milli")
    assert (row.replicas, held.amount) == (2, 4000)
    told = api(alice, "GET", f"{ENDPOINTS}/{row.short_id}").json()
    assert "CPU" in told["scaling_problem"]
    limit.delete()
    assert scaler.tick() == 0  # limits are not asked every two seconds
    clock.at += 31
    assert scaler.tick() == 1
    row = settle(wide)
    assert (row.replicas, row.scaling_problem) == (3, "")


def test_fewer_are_refused_by_no_limit_and_no_spent_budget(wide, settle, clock, project) -> None:
    """What was allowed before is given back whatever is allowed now."""
    from budgets.models import Budget
    from quotas.models import Limit, Reservation
    from serving.models import Endpoint

    _press(wide, 6)
    scaler = Scaler()
    assert scaler.tick() == 1
    row = settle(wide)
    Endpoint.objects.filter(pk=row.pk).update(gpus=1, min_replicas=1, max_replicas=1)
    for resource in ("cpu_milli", "gpus"):
        Limit.objects.create(project=project, resource=resource, amount=0)
    Budget.objects.create(project=project, hours=0, mode="hard")
    assert scaler.tick() == 1
    row = settle(row)
    held = Reservation.objects.get(workload_uid=row.uid, resource="cpu_milli")
    assert (row.replicas, row.scaling_problem, held.amount) == (1, "", 2000)


def test_what_a_gateway_had_that_is_gone_counts_no_more(wide, clock) -> None:
    from serving.models import Pressure

    _press(wide, 6)
    Pressure.objects.update(seen_at=now() - timedelta(minutes=1))
    assert Scaler().tick() == 0


def test_other_bounds_hold_without_a_restart(api, alice, wide, settle, clock) -> None:
    said = {"min_replicas": 2, "max_replicas": 4}
    assert api(alice, "PATCH", f"{ENDPOINTS}/{wide.short_id}", said).status_code == 202
    assert Scaler().tick() == 1
    row = settle(wide)
    assert (row.replicas, row.launch) == (2, 1)
    api(alice, "PATCH", f"{ENDPOINTS}/{wide.short_id}", {"min_replicas": 1, "max_replicas": 1})
    assert Scaler().tick() == 1
    assert settle(wide).replicas == 1


def test_it_begins_small_after_a_stop(api, alice, wide, settle, clock) -> None:
    _press(wide, 6)
    Scaler().tick()
    settle(wide)
    api(alice, "POST", f"{ENDPOINTS}/{wide.short_id}/stop")
    settle(wide)
    api(alice, "POST", f"{ENDPOINTS}/{wide.short_id}/start")
    row = settle(wide)
    assert (row.phase, row.replicas) == ("running", 1)


def test_gpus_of_this_machine_are_given_once(wide, clock) -> None:
    from serving.models import Endpoint

    Endpoint.objects.filter(pk=wide.pk).update(gpus=1)
    _press(wide, 6)
    assert Scaler().tick() == 0


def test_what_stops_is_not_scaled(api, alice, wide, clock) -> None:
    _press(wide, 6)
    api(alice, "POST", f"{ENDPOINTS}/{wide.short_id}/stop")
    assert Scaler().tick() == 0
    wide.refresh_from_db()
    assert (wide.desired, wide.replicas) == ("stopped", 1)


def test_e10_a_number_that_a_hand_set_outside_is_put_back(fake, wide, settle) -> None:
    row, uid = settle(wide), str(wide.uid)
    fake.scale(replace(workload_spec(row), serve=Serve(3)))
    assert len(fake.observe([uid])[uid].replicas) == 3
    with time_machine.travel(now() + timedelta(minutes=2)):
        row = settle(wide, rounds=3)
    assert len(fake.observe([uid])[uid].replicas) == row.replicas == 1


def test_a_number_of_what_serves_is_no_reason_to_end_it_when_its_files_are_gone(
    fake, serve, settle, version
) -> None:
    """They are needed for a start only; the number is put back once they are there again."""
    made = version()
    row = serve(name="files", command=[], model="digits/v1", max_replicas=3)
    uid = str(row.uid)
    fake.scale(replace(workload_spec(row), serve=Serve(3)))
    row.external_ref["secrets"] = "1"  # of a credential that was removed since
    row.save(update_fields=["external_ref"])
    for minutes, files, expected in ((2, "failed", 3), (4, "there", 1)):
        type(made).objects.filter(pk=made.pk).update(files=files)
        with time_machine.travel(now() + timedelta(minutes=minutes)):
            found = settle(row, rounds=3)
        assert (found.phase, found.reason) == ("running", "")
        assert len(fake.observe([uid])[uid].replicas) == expected


@pytest.mark.parametrize("files", ["failed", "coming"])
def test_another_number_is_refused_when_its_files_are_gone_and_what_answers_goes_on(
    api, alice, fake, serve, settle, clock, version, files
) -> None:
    made = version()
    row = serve(name="files", command=[], model="digits/v1", max_replicas=2, concurrency=2)
    _press(row, 4)
    assert Scaler().tick() == 1
    assert settle(row).replicas == 2
    gone = type(made).objects.filter(pk=made.pk)
    gone.update(files=files, problem="There are no files in this folder.")
    at, wanted = f"{ENDPOINTS}/{row.short_id}", {"min_replicas": 1, "max_replicas": 3}
    plan = api(alice, "PATCH", f"{at}?plan=1", wanted).json()
    for said in (wanted, {"min_replicas": 1, "max_replicas": 1}, {"cpu_milli": 500}):
        answer = api(alice, "PATCH", at, said)
        assert (answer.status_code, answer.json()["code"]) == (409, "files-gone")
        assert "digits/v1" in answer.json()["detail"]
        assert "serve another one" in answer.json()["detail"]
    assert plan["refusal"].startswith(answer.json()["detail"][:40])
    assert api(alice, "PATCH", at, {"wait_s": 7}).status_code == 202  # needs no files
    row = settle(row)
    assert (row.phase, row.replicas, row.max_replicas, row.launch) == ("running", 2, 2, 1)
    assert _ready(fake, row) == 2
    gone.update(files="there", problem="")
    assert api(alice, "PATCH", at, wanted).status_code == 202


@pytest.mark.parametrize("hand", [6, 0])
def test_no_scaling_by_itself_ends_what_answers_when_its_files_are_gone(
    fake, serve, settle, clock, version, hand
) -> None:
    """Neither more, which could not begin, nor fewer, which could not come back, nor none."""
    from serving.models import Endpoint
    from serving.services.sleep import endpoints_sleep

    made = version()
    row = serve(name="files", command=[], model="digits/v1", max_replicas=3, concurrency=2)
    scaler = Scaler()
    _press(row, 4)
    assert scaler.tick() == 1
    settle(row)
    type(made).objects.filter(pk=made.pk).update(files="failed", problem="Nothing is there.")
    _press(row, hand)
    Endpoint.objects.filter(pk=row.pk).update(sleep_after_minutes=1, ready_at=now() - HOUR)
    for _turn in range(2):
        clock.at += LESS_AFTER_S + 1
        assert scaler.tick() == endpoints_sleep() == 0
    row = settle(row)
    assert (row.phase, row.desired, row.replicas, _ready(fake, row)) == ("running", "running", 2, 2)
    assert "Nothing is there." in row.scaling_problem


def test_files_that_went_between_the_asking_and_the_doing_end_nothing(
    api, alice, fake, serve, settle, clock, version
) -> None:
    made = version()
    row = serve(name="files", command=[], model="digits/v1", max_replicas=3)
    at = f"{ENDPOINTS}/{row.short_id}"
    assert api(alice, "PATCH", at, {"min_replicas": 3}).status_code == 202
    assert Scaler().tick() == 1
    gone = type(made).objects.filter(pk=made.pk)
    gone.update(files="failed", problem="Nothing is there.")
    row = settle(row, rounds=3)
    assert (row.phase, row.reason, _ready(fake, row)) == ("running", "", 1)
    assert "Nothing is there." in row.scaling_problem
    gone.update(files="there", problem="")
    with time_machine.travel(now() + timedelta(minutes=1)):
        row = settle(row, rounds=3)
        assert (row.phase, row.scaling_problem, _ready(fake, row)) == ("running", "", 3)


def test_files_are_looked_at_where_one_answers_and_another_one_ended(
    fake, serve, settle, version
) -> None:
    made = version()
    row = serve(name="files", command=[], model="digits/v1", min_replicas=2)
    made.refresh_from_db()
    assert made.look_at is None
    fake.change(row.uid, reason=str(Reason.TRIED_AGAIN))
    for minutes in (1, 2, 7):  # once in five minutes
        type(made).objects.filter(pk=made.pk).update(look_at=None)
        with time_machine.travel(now() + timedelta(minutes=minutes)):
            assert settle(row, rounds=2).phase == "running"
        made.refresh_from_db()
        assert (made.look_at is None) is (minutes == 2)


def test_a_folder_that_nobody_saw_going_is_looked_at_before_another_number_is_asked(
    api, alice, serve, look, data, version, settle
) -> None:
    """The real server of files looks into the volume while the person waits."""
    made = version(volume=data)
    row = serve(name="files", command=[], model="digits/v1", max_replicas=3)
    folder = look() / "data" / "digits" / "v1"
    folder.mkdir(parents=True)
    (folder / "model.joblib").write_bytes(b"x")
    at, wanted = f"{ENDPOINTS}/{row.short_id}", {"min_replicas": 2}
    type(made).objects.filter(pk=made.pk).update(look_at=now())
    look()  # so that the server of files runs
    made.refresh_from_db()
    assert (made.files, made.look_at) == ("there", None)
    assert api(alice, "PATCH", at, wanted).status_code == 202
    (folder / "model.joblib").unlink()
    answer = api(alice, "PATCH", at, {"min_replicas": 3})
    assert (answer.status_code, answer.json()["code"]) == (409, "files-gone")
    assert "There are no files in this folder." in answer.json()["detail"]
    assert settle(row).phase == "running"


def test_hours_and_cost_follow_each_replica(fake, wide, settle, clock) -> None:
    """1→3→1, by the driver's own times; the cost that its page shows adds it up."""
    from serving.cost import cost_of
    from usage.models import Interval

    scaler, begun = Scaler(), now()
    for seconds, hand in ((600, 6), (1200, 0), (1800, 0)):
        with time_machine.travel(begun + timedelta(seconds=seconds), tick=False):
            clock.at += 100
            _press(wide, hand)
            scaler.tick()
            row = settle(wide, rounds=3)
        with time_machine.travel(begun + timedelta(seconds=seconds + 2), tick=False):
            row = settle(wide, rounds=3)  # it is looked at soon again, also unwatched
    assert (row.replicas, row.launch) == (1, 1)
    parts = list(Interval.objects.filter(uid=row.uid).order_by("part"))
    sizes = [one.cpu_milli // row.cpu_milli for one in parts]
    assert sizes == [1, 3, 1]
    assert (parts[1].started_at - begun).total_seconds() == pytest.approx(600, abs=1)
    with time_machine.travel(begun + timedelta(hours=1), tick=False):
        found = cost_of(row, begun - timedelta(days=1), 10)
        report = selectors.report(Interval.objects.all(), Range(begun, now()))
    assert found.hours == pytest.approx(1, abs=0.01)
    assert found.cpu_hours == pytest.approx(report.total.cpu_hours, abs=0.01)
    assert report.total.cpu_hours == pytest.approx(2 * (1 + 2 * 600 / 3600), abs=0.01)
