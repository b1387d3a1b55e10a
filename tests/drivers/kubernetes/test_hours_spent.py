"""GPU-hours that are spent while work runs or waits, with the real Kueue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.drivers.kubernetes.queued import in_queue
from runtime.reasons import Reason
from runtime.spec import Resources
from tests.drivers.kubernetes.harness import wait_for
from tests.drivers.kubernetes.town import SPENT, Town

pytestmark = pytest.mark.cluster


def test_whose_hours_are_spent_later_gives_back_first(town: Town) -> None:
    """A soft budget that is spent while work runs: Kueue keeps what was said first of it."""
    driver = town.ground.driver
    driver.ensure_queues(replace(town.tree, priorities=SPENT))
    notebook = town.submit("a", once=False, kind="workspace", priority=f"{town.root}-build")
    spent = [notebook, town.submit("a")]
    town.until(spent, 2)
    others = [town.submit("a") for _n in range(6)]
    town.until(others, 6)
    for one in spent:
        town.stand(one, "over-budget")
    wait_for(lambda: {town.workload(o)["spec"]["priority"] for o in spent} == {1}, seconds=60)
    assert town.running(spent) == [0, 1]  # by that alone nothing ends
    town.until([town.submit("b") for _n in range(2)], 2)
    # they began first, and one of them stood before all jobs
    wait_for(lambda: not town.running(spent), seconds=60, every=0.2)
    assert len(town.running(others)) == 6
    # there is room again: it stands where it stood
    for one in spent:
        town.stand(one)
    wait_for(lambda: town.workload(notebook)["spec"]["priority"] == 1000, seconds=60)
    town.end(others[:2])
    town.until(spent, 2)


def test_what_waits_is_held_back_until_there_are_hours_again(town: Town) -> None:
    """A hard budget that is spent while work stands in Kueue's line."""
    first = [town.submit("a", resources=Resources(1000, 512, gpus=4)) for _n in range(2)]
    town.until(first, 2)
    notebook = town.submit("a", once=False, kind="workspace", priority=f"{town.root}-build")
    held, later = [notebook, town.submit("a")], town.submit("a")
    for one in [*held, first[0]]:
        town.stand(one, waits=True)
    town.end([first[1]])
    town.until([later], 1)
    # what Kueue let in by a look of before it read the word is put out again by itself
    wait_for(lambda: not town.running(held), seconds=60, every=0.2)
    assert town.running(first[:1]) == [0]  # what was let in goes on
    for one in held:
        found = town.workload(one)
        assert (found["spec"]["active"], in_queue(found).reason) == (False, Reason.BUDGET)
    for _twice in range(2):
        for one in held:
            town.stand(one)
    town.until(held, 2)
    assert town.ground.driver.stand("unknown", priority="", waits=True)
