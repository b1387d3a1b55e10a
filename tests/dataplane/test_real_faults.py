"""Bad moments between a load and real stores: the answers are the servers' own, spoiled on the way."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.dataplane.test_real_stores import files_below, put_many, through
from tests.support.copying import Copying
from tests.support.store_front import Rule, Spoil
from tests.support.store_rules import changed_bytes, every_nth, s3_error, wrong_clock
from tests.support.stores import Store, VersityS3

pytestmark = [
    pytest.mark.real,
    pytest.mark.long("the same faults from a store of ours: dataplane/test_copy_faults.py"),
]
BucketOf = Callable[[Store], str]
COUNT = 120


@pytest.fixture
def contents() -> dict[str, bytes]:
    return {f"raw/{i:03d}.bin": random.Random(i).randbytes(3000) for i in range(COUNT)}


@pytest.mark.parametrize(
    "rule",
    [every_nth(7, s3_error(503, "SlowDown")), every_nth(5, Spoil(cut_after=1000))],
    ids=["busy", "cut"],
)
def test_bad_moments_cost_tries_and_no_file(
    tmp_path: Path,
    any_store: Store,
    bucket_of: BucketOf,
    contents: dict[str, bytes],
    rule: Rule,
) -> None:
    bucket = bucket_of(any_store)
    put_many(any_store, bucket, tmp_path / "source", contents)
    with any_store.front(rules=[rule]) as front:
        place, outbound = through(any_store, front.url, bucket)
        copying = Copying(tmp_path, place, outbound)
        done = copying.run()
    assert done.code == 0, done.output
    assert files_below(copying.target) == {k.removeprefix("raw/"): v for k, v in contents.items()}


def test_an_object_that_arrives_changed_is_named_and_has_no_file(
    tmp_path: Path, any_store: Store, bucket_of: BucketOf, contents: dict[str, bytes]
) -> None:
    bucket = bucket_of(any_store)
    put_many(any_store, bucket, tmp_path / "source", contents)
    with any_store.front(rules=[changed_bytes("007.bin")]) as front:
        place, outbound = through(any_store, front.url, bucket)
        copying = Copying(tmp_path, place, outbound)
        done = copying.run()
    assert (done.code, done.errors) == (3, {"raw/007.bin": "checksum"}), done.output
    there = files_below(copying.target)
    assert len(there) == COUNT - 1
    assert "007.bin" not in there


def test_a_clock_that_nobody_can_follow_is_said_and_soon(
    tmp_path: Path, versity_s3: VersityS3, bucket_of: BucketOf, contents: dict[str, Any]
) -> None:
    """What stands before the store tells another time than the store itself."""
    bucket = bucket_of(versity_s3)
    put_many(versity_s3, bucket, tmp_path / "source", contents)
    with versity_s3.front(rules=[wrong_clock(3600)]) as front:
        place, outbound = through(versity_s3, front.url, bucket)
        done = Copying(tmp_path, place, outbound).run()
        asked = len(front.requests)
    assert (done.code, done.final["code"]) == (4, "clock-skew"), done.output
    assert asked <= 5
