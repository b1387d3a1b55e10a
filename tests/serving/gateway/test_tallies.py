"""What a gateway counted becomes rows, also what the database had no answer to for a while."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from common.clock import now
from runtime.models import Lease
from serving.gateway.counts import Counts
from serving.gateway.table import Endpoint as Routed
from serving.gateway.table import Principal, RoutingTable, Row
from serving.gateway.tallies import Tallies, gateways, some_gateway_tells, tallies_prune
from serving.models import Calls, EndpointKey, Pressure

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project")]

MINUTE = 1_790_000_040 // 60 * 60


@pytest.fixture
def row(serve: Any) -> Any:
    return serve()


@pytest.fixture
def table(row: Any) -> RoutingTable:
    key = EndpointKey.objects.create(endpoint=row, name="shop", prefix="bep_abc", digest="1" * 64)
    caller = Principal(f"k{key.pk}", f"k{key.pk}", frozenset({str(row.pk)}))
    routed = Routed(str(row.pk), "vision", row.name, Row(str(row.pk), "v1", ()))
    return RoutingTable((routed,), {"1" * 64: caller})


def counting(table: RoutingTable) -> Tallies:
    one = Tallies("one")
    one.know(table)
    return one


def lines(table: RoutingTable, *seconds: float) -> Any:
    """Requests that ended so long after the minute began."""
    counts = Counts()
    (endpoint,), (caller,) = table.endpoints, table.principals.values()
    for one in seconds:
        line = f"{caller.word} {endpoint.uid} {endpoint.main.uid} 200 12 100 100 --"
        counts.add(line, MINUTE + one)
    return counts.take()


@contextmanager
def away() -> Iterator[None]:
    """The database answers nothing."""

    def refuse(*_asked: Any) -> None:
        raise OperationalError("the connection is lost")

    with connection.execute_wrapper(refuse), pytest.raises(OperationalError):
        yield


def test_the_latest_request_is_told_to_the_second(row: Any, table: RoutingTable) -> None:
    one = counting(table)
    one.write_calls(lines(table, 50.5, 40))
    one.write_calls(lines(table, 20))  # its line came later
    row.refresh_from_db()
    latest = datetime.fromtimestamp(MINUTE + 50.5, UTC)
    assert row.called_at == latest
    assert EndpointKey.objects.get().last_used_at == latest
    assert Calls.objects.get().requests == 3


def test_what_a_caller_did_that_has_gone_counts_for_an_hour(
    table: RoutingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key was revoked, or a batch ended, before the last of its streams was told."""
    one = counting(table)
    clock = time.monotonic()
    one.know(RoutingTable())
    one.write_calls(lines(table, 1))
    (endpoint,), (caller,) = table.endpoints, table.principals.values()
    refused = Counts()
    refused.add(f"{caller.word} {endpoint.uid} - 429 1 100 100 --", MINUTE)
    one.write_calls(refused.take())
    assert (Calls.objects.get().requests, Calls.objects.get().refused) == (1, 1)
    monkeypatch.setattr(time, "monotonic", lambda: clock + 3700)
    one.know(RoutingTable())
    one.write_calls(lines(table, 2))
    assert Calls.objects.get().requests == 1
    assert (one._callers, one._mains) == ({}, {})


def test_what_was_counted_while_the_database_was_away_is_written_when_it_is_back(
    row: Any, table: RoutingTable
) -> None:
    one = counting(table)
    one.write_calls(lines(table, 1))
    for minutes in range(10):  # longer than what is kept of what was written
        with away():
            one.write_calls(lines(table, 60 * minutes + 2))
    one.write_calls({})
    assert sum(Calls.objects.values_list("requests", flat=True)) == 11
    assert Calls.objects.count() == 10
    one.write_calls(lines(table, 60 * 9 + 30))
    assert sum(Calls.objects.values_list("requests", flat=True)) == 12


def test_a_gateway_whose_counts_wait_for_long_tells_not_all_it_knows(
    row: Any, table: RoutingTable
) -> None:
    """What somebody held in the very second of writing is written with the next turn."""
    one, at = counting(table), time.monotonic()

    def tells(after_s: float) -> bool:
        Lease.objects.filter(name="gateway:one").delete()
        one.write_pressures({str(row.pk): 1}, {}, moment=at + after_s)
        return some_gateway_tells(now())

    one.write_pressures({}, {}, moment=at - 6)
    with away():
        one.write_calls(lines(table, 1))
    assert tells(after_s=3)
    with away():
        one.write_calls(lines(table, 2))  # another of the same minute makes it no younger
    assert not tells(after_s=60)
    one.write_calls({})
    assert tells(after_s=66)


def test_what_was_not_written_of_pressure_is_said_again_at_once(row: Any) -> None:
    one = Tallies("one")
    one.write_pressures({}, {}, moment=100)
    with away():
        one.write_pressures({str(row.pk): 3}, {}, moment=101)
    one.write_pressures({str(row.pk): 3}, {}, moment=102)
    assert Pressure.objects.get().answering == 3


def test_old_calls_and_gateways_that_ended_are_forgotten(row: Any, settings: Any) -> None:
    settings.BERTH_CALLS_DAYS = 31
    for days in (30, 32):
        at = now() - timedelta(days=days)
        Calls.objects.create(endpoint=row, minute=at, gateway="one", caller="u1", requests=days)
    for name, minutes in (("lives", 0), ("ended", 61)):
        at = now() - timedelta(minutes=minutes)
        Pressure.objects.create(endpoint=row, gateway=name, seen_at=at, answering=1)
        Lease.objects.create(name=f"gateway:{name}", until=at)
    tallies_prune()
    assert Calls.objects.get().requests == 30
    assert Pressure.objects.get().gateway == "lives"
    assert Lease.objects.get(name__startswith="gateway:").name == "gateway:lives"


def test_operators_see_which_gateways_run_since_when_and_what_they_carry(
    row: Any, as_user: Any, operator: Any
) -> None:
    from console.health import check_all

    def told() -> tuple[bool, str]:
        return next((one.ok, one.message) for one in check_all() if one.name == "gateway")

    assert told() == (False, "No gateway has told anything for 30 s: endpoints answer nobody.")
    one = Tallies("gw-1")
    one.write_pressures({str(row.pk): 3}, {str(row.pk): 2}, moment=100)
    one.write_pressures({str(row.pk): 3}, {str(row.pk): 2}, moment=106)
    minute = now().replace(second=0, microsecond=0)
    Calls.objects.create(endpoint=row, minute=minute, gateway="gw-1", caller="u1", requests=1234)
    Lease.objects.create(name="gateway:gw-0", until=now() - timedelta(minutes=5))
    live, gone = gateways()
    assert (live.name, live.is_live, live.requests) == ("gw-1", True, 1234)
    assert (live.answering, live.waiting) == (3, 2)
    since = live.since
    one.write_pressures({}, {}, moment=112)
    assert gateways()[0].since == since
    latest = gateways()[0].latest
    assert latest is not None
    assert live.latest is not None
    assert latest >= live.latest
    assert (gone.name, gone.is_live, gone.requests) == ("gw-0", False, 0)
    with CaptureQueriesContext(connection) as asked:
        assert told() == (True, "1 gateway")
    assert not any("serving_calls" in one["sql"] for one in asked)  # a monitor asks each second
    page = as_user(operator).get("/console/system/").content.decode()
    assert "1,234" in page
    assert "Silent" in page
    assert "gateway:gw-1" not in page  # it is no duty
