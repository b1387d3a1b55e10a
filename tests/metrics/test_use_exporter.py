"""The exporter that stands in where there is no GPU says what DCGM's would, and is read as it is."""

from __future__ import annotations

import pytest

from clusters.accelerators import known_of
from runtime.use_sources import NOBODY, figures, parse
from tools.use_exporter import at_hour, made_up, text

TRACE = {"GPU-a": [(0, 10, 100), (8, 90, 2000)], "GPU-b": [(9, 5, 50)]}


@pytest.mark.parametrize(
    ("hour", "expected"), [(0, (10, 100)), (7.9, (10, 100)), (8, (90, 2000)), (32, (90, 2000))]
)
def test_a_point_holds_until_the_next_one(hour: float, expected: tuple[float, float]) -> None:
    assert at_hour(TRACE["GPU-a"], hour) == expected


def test_before_its_first_point_it_is_still_the_day_before() -> None:
    assert at_hour(TRACE["GPU-b"], 3) == (5, 50)


def test_what_it_says_is_read_by_the_names_that_are_built_in() -> None:
    source = parse(known_of("nvidia.com/gpu"))
    said = text(TRACE, {"GPU-a": ("berth-x", "job-0")}, "n1", 9 * 3600)
    found = figures(said.splitlines(), source)
    assert found[("berth-x", "job-0")].utilisation == {("GPU-a",): 90.0}
    assert found[("berth-x", "job-0")].memory_mib == {("GPU-a",): 2000.0}
    assert found[NOBODY].utilisation == {("GPU-b",): 5.0}


def test_the_made_up_day_trains_bursts_and_idles() -> None:
    trace = made_up(3)
    means = [
        sum(at_hour(points, minute / 60)[0] for minute in range(24 * 60)) / (24 * 60)
        for points in trace.values()
    ]
    assert means[0] > 90
    assert 20 < means[1] < 30
    assert means[2] == 0
