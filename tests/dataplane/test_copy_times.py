"""D1: times and sizes that no journal can keep cost neither the load nor the file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dataplane.copy.problems import Final
from tests.dataplane.test_copy_out import out, stored, write
from tests.support.copying import Copying, files_below
from tests.support.hostile_store import HostileS3, Thing

YEARS = ["9999-12-31T23:59:59.000Z", "2300-01-01T00:00:00.000Z", "0001-01-01T00:00:00.000Z", "soon"]


@pytest.mark.parametrize("modified", YEARS)
def test_d1_an_object_of_any_year_arrives_with_the_others_and_once(
    load: Any, copying: Copying, hostile: HostileS3, modified: str
) -> None:
    def read() -> int:
        return len([call for call in hostile.calls if call.method == "GET" and call.key])

    hostile.put("usual", b"x")
    hostile.things[b"odd"] = Thing(b"y", modified=modified)
    order, _ = load(copying)
    assert order.final is Final.DONE
    assert files_below(copying.target) == {"usual": b"x", "odd": b"y"}
    once = read()
    order, _ = load(copying)
    assert (order.final, read()) == (Final.DONE, once)


def test_d1_a_file_of_the_far_future_is_sent_out_and_once(
    load: Any, tmp_path: Path, hostile: HostileS3
) -> None:
    def sent() -> int:
        return len([call for call in hostile.calls if call.method == "PUT"])

    copying = out(tmp_path, hostile)
    write(copying, {"usual": b"x", "odd": b"y"})
    future = 2**63 + 10**9  # nanoseconds: in the year 2262
    os.utime(copying.target / "odd", ns=(future, future))
    if (copying.target / "odd").stat().st_mtime_ns != future:
        pytest.skip("this file system keeps no such time")
    order, _ = load(copying)
    assert order.final is Final.DONE
    assert set(stored(hostile).values()) == {b"x", b"y"}
    once = sent()
    order, _ = load(copying)
    assert (order.final, sent()) == (Final.DONE, once)


@pytest.mark.parametrize("size", ["99999999999999999999999", "-1", "many", "1e3"])
def test_d1_an_object_of_an_impossible_size_is_named_and_the_others_arrive(
    load: Any, copying: Copying, hostile: HostileS3, size: str
) -> None:
    hostile.put("usual", b"x")
    hostile.things[b"odd"] = Thing(b"y", size=size)
    order, progress = load(copying)
    assert (order.final, progress.failed) == (Final.PARTIAL, 1)
    assert files_below(copying.target) == {"usual": b"x"}
