"""E1: who dies at any step of a canary, a promotion, a roll back, sleep or wake loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from common.clock import now
from runtime import engine, killpoints, workload, workload_ending
from serving.services import canaries_step, canary, endpoint_wake, endpoints_sleep
from tests.serving.conftest import ENDPOINTS
from tests.serving.test_sleep import tells

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project")]

# Each passes some of these; no endpoint has a route, and no test here deletes one at its end.
POINTS = tuple(name for name in killpoints.NAMES if name not in {"route-wanted", "routed"})
# What the duty calls on its way: it dies before each, and after what it has committed.
OF_THE_DUTY = ("_split", "changed", "request_delete", "workload_edit", "_become")


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it, open transactions roll back."""


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Arm a point of the engine, or a function of the duty: who comes to it dies, once."""

    def arm(point: str, *, after: bool = False) -> list[str]:
        hit: list[str] = []

        def reached(name: str) -> None:
            if name == point and not hit:
                hit.append(name)
                raise Killed

        if point in POINTS:
            for module in (engine, workload, workload_ending):
                monkeypatch.setattr(module, "killpoint", reached)
            return hit
        real = getattr(canary, point)

        def called(*args: Any, **kwargs: Any) -> Any:
            if after:
                found = real(*args, **kwargs)
            reached(point)
            return found if after else real(*args, **kwargs)

        monkeypatch.setattr(canary, point, called)
        return hit

    return arm


@pytest.fixture
def turn(settle: Any) -> Callable[..., None]:
    """Let the duty and the engine work; who is killed is followed by the next one."""
    from serving.models import Endpoint

    def run(*acts: Callable[[], object]) -> None:
        past = now() - timedelta(seconds=10)
        for act in (*acts, settle):
            Endpoint.objects.filter(split_at__isnull=False).update(split_at=past)
            try:
                act()
            except Killed:
                rows = Endpoint.objects.filter(lease_token__isnull=False)
                rows.update(lease_until=past, next_reconcile_at=past)

    return run


@pytest.fixture
def first(fake: Any, serve: Any, version: Any) -> Any:
    del fake
    for name in ("v1", "v2"):
        version(name)
    return serve(model="digits/v1", command=[])


@pytest.fixture
def answers(fake: Any, first: Any) -> Callable[[], bool]:
    """Whether a replica answers what gateways send: the share goes to whom it is for."""

    def look() -> bool:
        from serving.models import Endpoint

        rows = Endpoint.objects.filter(project=first.project, deleted_at=None)
        seen = fake.observe([str(row.uid) for row in rows])
        return any(one.seen == "ready" for one in seen.values())

    return look


def once_each(fake: Any, *uids: Any) -> None:
    with fake._store.open() as world:
        for uid in uids:
            starts = world["starts"][str(uid)]
            assert starts == sorted(set(starts)), "a launch was started twice"


def goes_on(turn: Any, answers: Any, first: Any, until: Callable[[], bool]) -> None:
    for _ in range(8):
        turn(canaries_step)
        first.refresh_from_db()
        assert answers(), "nobody answered"
        if until():
            return
    raise AssertionError("it did not come to its end")


KILLS = [
    *(pytest.param(point, False, id=point) for point in POINTS),
    *(pytest.param(name, False, id=f"before {name.strip('_')}") for name in OF_THE_DUTY),
    *(pytest.param(name, True, id=f"after {name.strip('_')}") for name in OF_THE_DUTY),
]


BACK = pytest.mark.long(
    "20 CPU s more over the same steps: promote in serving/test_e1_kill_points.py"
)


@pytest.mark.parametrize("verb", ["promote", pytest.param("roll-back", marks=BACK)])
@pytest.mark.parametrize(("point", "after"), KILLS)
def test_e1_a_promotion_and_a_roll_back_come_to_their_end(
    point, after, verb, kill, turn, answers, api, alice, fake, first
) -> None:
    from serving.models import Endpoint, Served

    at = f"{ENDPOINTS}/{first.short_id}"
    done = partial(lambda: first.canary is None and not first.promoting)
    api(alice, "POST", f"{at}/canary", {"model": "digits/v2"})
    turn()
    if verb == "roll-back":
        api(alice, "POST", f"{at}/canary/promote")
        goes_on(turn, answers, first, done)
        api(alice, "POST", f"{at}/roll-back")
    else:
        api(alice, "POST", f"{at}/canary/promote")
    hit = kill(point, after=after)
    goes_on(turn, answers, first, done)
    turn(canaries_step)
    first.refresh_from_db()
    assert hit
    assert first.model == ("digits/v2" if verb == "promote" else "digits/v1")
    assert (first.phase, first.canary_percent, first.rolls_back) == ("running", 0, False)
    assert Endpoint.objects.filter(deleted_at=None).count() == 1
    shown = ["digits/v1", "digits/v2", "digits/v1"][: 2 if verb == "promote" else 3]
    assert list(Served.objects.order_by("pk").values_list("serves", flat=True)) == shown
    once_each(fake, first.uid)


START = ("claimed", "admitted", "volumes-ensured", "ensured", "stepped", "applied", "committed")
STOP = ("claimed", "tokens-revoked", "route-dropped", "stop-asked", "released", "stepped",
        "applied", "committed")  # fmt: skip


@pytest.mark.parametrize("point", START)
def test_e1_a_canary_starts_once_and_the_endpoint_answers_meanwhile(
    point, kill, turn, answers, api, alice, fake, first
) -> None:
    hit = kill(point)
    said = {"model": "digits/v2"}
    assert api(alice, "POST", f"{ENDPOINTS}/{first.short_id}/canary", said).status_code == 202
    for _ in range(2):
        turn()
        assert answers()
    first.refresh_from_db()
    assert (hit, first.canary.phase, first.phase) == ([point], "running", "running")
    once_each(fake, first.uid, first.canary.uid)


@pytest.mark.parametrize("verb", ["canary", "promote", "roll-back"])
def test_e1_a_web_process_that_dies_in_a_press_has_done_nothing_or_all(
    verb, kill, turn, answers, api, alice, first, monkeypatch
) -> None:
    from serving.models import Endpoint

    at = f"{ENDPOINTS}/{first.short_id}"
    path, said = f"{at}/canary", {"model": "digits/v2"}
    if verb != "canary":
        api(alice, "POST", path, said)
        turn()
        path, said = f"{at}/canary/promote", {}
    if verb == "roll-back":
        api(alice, "POST", path, said)
        goes_on(turn, answers, first, lambda: first.canary is None)
        path = f"{at}/roll-back"
    columns = "phase", "canary_of_id", "promoting", "rolls_back", "canary_percent", "promoted_by"
    before = list(Endpoint.objects.order_by("pk").values(*columns))
    kill("_record")
    with pytest.raises(Killed):
        api(alice, "POST", path, said)
    assert list(Endpoint.objects.order_by("pk").values(*columns)) == before
    assert api(alice, "POST", path, said).status_code == 202


@pytest.mark.parametrize("point", STOP)
@pytest.mark.parametrize("wakes_in_the_middle", [False, True])
def test_e1_sleep_gives_all_back_and_a_request_wakes_it_once(
    point, wakes_in_the_middle, kill, turn, answers, fake, first
) -> None:
    from quotas.models import Reservation
    from serving.models import Endpoint
    from usage.models import Interval

    ready = {"ready_at": now() - timedelta(minutes=2), "sleep_after_minutes": 1}
    Endpoint.objects.filter(pk=first.pk).update(**ready)
    tells()
    hit = kill(point)
    turn(endpoints_sleep)
    assert hit == [point]
    if not wakes_in_the_middle:
        turn()
        first.refresh_from_db()
        assert (first.phase, first.stop_reason) == ("stopped", "asleep")
        assert not Reservation.objects.filter(workload_uid=first.uid).exists()
        assert Interval.objects.get(uid=first.uid).ended_at is not None
    for _ in range(3):
        assert endpoint_wake(first.pk) == ""
        turn()
    first.refresh_from_db()
    assert (first.phase, first.launch) == ("running", 2)
    assert answers()
    once_each(fake, first.uid)


@pytest.mark.parametrize("point", START)
def test_e1_a_wake_is_one_launch(point, kill, turn, answers, fake, first) -> None:
    from serving.models import Endpoint

    ready = {"ready_at": now() - timedelta(minutes=2), "sleep_after_minutes": 1}
    Endpoint.objects.filter(pk=first.pk).update(**ready)
    tells()
    turn(endpoints_sleep)
    hit = kill(point)
    assert endpoint_wake(first.pk) == ""
    turn()
    assert endpoint_wake(first.pk) == ""  # its caller, or another, asks again
    turn()
    first.refresh_from_db()
    assert (hit, first.phase, first.launch) == ([point], "running", 2)
    assert answers()
    once_each(fake, first.uid)
