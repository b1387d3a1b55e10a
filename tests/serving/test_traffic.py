"""Sums of what gateways counted: by endpoint, over time, by caller."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from common.clock import now
from serving import traffic
from serving.latency import bucket_of
from serving.models import Calls, Endpoint, EndpointKey

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project")]


def called(row: Any, ago: int, caller: str, *took: float, gateway: str = "a", **more: int) -> None:
    """Write the minute so many minutes ago, with a request for each duration."""
    minute = now().replace(second=0, microsecond=0) - timedelta(minutes=ago)
    histogram: dict[str, int] = {}
    for seconds in took:
        histogram[str(bucket_of(seconds))] = histogram.get(str(bucket_of(seconds)), 0) + 1
    counts = {"requests": len(took), "seconds": sum(took), "histogram": histogram, **more}
    Calls.objects.create(endpoint=row, minute=minute, gateway=gateway, caller=caller, **counts)


@pytest.fixture
def row(serve) -> Any:
    return serve()


@pytest.fixture
def canary(row, alice) -> Any:
    same = {"project": row.project, "owner": alice, "command": ["x"]}
    return Endpoint.objects.create(name="canary", canary_of=row, **same)


def test_gateways_and_the_canary_add_up_and_stand_apart(row, canary, serve) -> None:
    other = serve(name="other")
    called(row, 1, "u1", 0.010, 0.010, 0.010)
    called(row, 1, "u1", 0.010, gateway="b", server_errors=1)
    called(canary, 2, "u1", 1.0)
    called(other, 2, "u1", 0.5)
    called(row, 40, "u1", 9.0)
    told = traffic.lately([row, other])
    assert (told[row.pk].requests, told[row.pk].per_minute, told[other.pk].requests) == (5, 1.0, 1)
    assert told[row.pk].p50 == pytest.approx(0.010, rel=0.08)
    assert told[row.pk].p99 == pytest.approx(1.0, rel=0.08)
    assert told[row.pk].failed_share == 0.2
    apart = traffic.lately([row, canary], apart=True)
    assert (apart[row.pk].requests, apart[canary.pk].requests) == (4, 1)


def test_nobody_called_is_told_as_that(row) -> None:
    told = traffic.lately([row])[row.pk]
    assert (told.per_minute, told.p99, told.failed_share) == (0, None, None)
    assert traffic.by_caller(row, "month") == []


@pytest.mark.parametrize(
    ("span", "count"), [("hour", 60), ("day", 96), ("week", 84), ("month", 90)]
)
def test_over_time_each_minute_is_in_one_step(row, span: str, count: int) -> None:
    for ago in range(0, 55, 5):
        called(row, ago, "u1", 0.01, 0.02)
    points = traffic.series(row, span)
    assert len(points) == count
    begins = [begin for begin, _part in points]
    assert begins == sorted(begins)
    assert begins[-1] <= now()
    assert traffic.total(points).requests == 22


def test_callers_are_keys_people_and_who_is_gone(row, alice, bob) -> None:
    key = EndpointKey.objects.create(endpoint=row, name="shop", prefix="bep_abc", digest="1" * 64)
    tried = EndpointKey.objects.create(endpoint=row, name="Bob", prefix="", digest="2" * 64)
    called(row, 3, f"k{key.pk}", 0.01, 0.01, refused=4)
    called(row, 3, f"u{alice.pk}", 0.01)
    called(row, 70, f"u{alice.pk}", 0.01, 0.01)
    called(row, 3, f"k{tried.pk}", 0.01)
    called(row, 3, "k999999", 0.01)
    called(row, 3, "nonsense", 0.01)
    told = {one.name: (part.requests, one.is_key, one.note)
            for one, part in traffic.by_caller(row, "day")}  # fmt: skip
    assert told["shop"] == (2, True, "bep_abc…")
    assert told["Alice"] == (3, False, "")
    assert told["Bob"] == (1, False, "tried it here")
    assert told["A key that is gone"] == (1, True, "")
    assert told["Somebody who is gone"] == (1, False, "")
    hours = traffic.by_hour(row, "day")
    assert sum(part.requests for _hour, _caller, part in hours) == 8
    assert [one[0] for one in hours] == sorted((one[0] for one in hours), reverse=True)
