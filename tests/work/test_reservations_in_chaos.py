"""C12 for each kind of work: no order of presses, failures and deaths lets live work be unreserved.

Each seed is one story; what fails tells its steps.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from quotas.listeners import repair
from quotas.models import Reservation
from runtime.protocol import Seen
from tests.work.kinds import KINDS, Kind

pytestmark = pytest.mark.django_db
PIECES, STEPS = 3, 25
PRESSES = ("start", "stop")
ACTS = ("fail", "heal", "exit", "vanish", "repair", *PRESSES * 3)
ERRORS = ("unreachable", "not-yet", "no-capacity", "crash")
VERBS = ("*", "ensure", "stop", "remove", "observe")
OVER = {Seen.EXITED, Seen.MISSING}


def reserved() -> set[str]:
    return {str(uid) for uid in Reservation.objects.values_list("workload_uid", flat=True)}


def alive(driver: Any) -> set[str]:
    """Return what holds the machine now, whatever the database believes; no script fails it."""
    with driver._store.open() as world:
        there = world.get("workloads", {}).items()
        return {uid for uid, item in there if item["seen"] not in OVER}


@pytest.mark.parametrize("seed", range(3, 6))
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_c12_what_is_alive_is_reserved_whatever_happens(
    kind: Kind,
    seed: int,
    api: Callable[..., Any],
    settle: Any,
    world: Any,
    alice: Any,
    project: Any,
    request: pytest.FixtureRequest,
) -> None:
    for name in kind.needs:
        request.getfixturevalue(name)
    chance, driver, story = random.Random(seed), world.driver_for("local"), list[str]()
    made = [api(alice, "POST", kind.url, kind.least).json()["id"] for _ in range(PIECES)]
    urls = [f"{kind.url}/{one}" for one in made]

    def step(act: str) -> None:
        told = act
        if act in {"start", "stop"}:
            url = chance.choice(urls)
            answer = api(alice, "POST", f"{url}/{getattr(kind, act)}")
            told = f"{act} {url} {answer.status_code}"
        elif act == "fail":
            verb, error = chance.choice(VERBS), chance.choice(ERRORS)
            driver.fail(verb, error, times=chance.choice([1, 3, -1]))
            told = f"fail {verb} {error}"
        elif act == "heal":
            driver.heal()
        elif act in {"exit", "vanish"}:
            for uid in sorted(alive(driver))[: chance.randint(0, PIECES)]:
                told += f" {uid}"
                driver.exit(uid) if act == "exit" else driver.vanish(uid)
        else:
            repair()
        story.append(told)

    for _ in range(STEPS):
        step(chance.choice(ACTS))
        if chance.random() < 0.7:
            settle(horizon_s=chance.choice([0, 5, 600]), rounds=chance.choice([1, 3]))
            story.append("settle")
        assert alive(driver) <= reserved(), story
    driver.heal()
    for _ in range(3):
        settle(horizon_s=6000)
    repair()
    assert alive(driver) == reserved(), story
