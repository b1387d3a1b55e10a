"""Percentiles of buckets are those of the durations, within the width of a bucket."""

from __future__ import annotations

import json
import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from serving.latency import MAX_BUCKET, STEP, bucket_of, end_of, merged, percentile

DURATIONS = st.floats(min_value=0.001, max_value=3600)
MANY = st.lists(DURATIONS, min_size=1, max_size=200)


def histogram(durations: list[float]) -> dict[int, int]:
    return dict(Counter(bucket_of(one) for one in durations))


@given(DURATIONS)
def test_a_duration_lies_within_its_bucket(seconds: float) -> None:
    bucket = bucket_of(seconds)
    assert seconds <= end_of(bucket) * (1 + 1e-6)
    assert bucket == 0 or seconds > end_of(bucket - 1) * (1 - 1e-6)


@given(MANY, st.sampled_from([1, 50, 90, 99, 100]))
def test_a_percentile_is_that_of_the_durations(durations: list[float], percent: int) -> None:
    exact = sorted(durations)[max(1, math.ceil(len(durations) * percent / 100)) - 1]
    told = percentile(histogram(durations), percent)
    assert told is not None
    assert exact / math.sqrt(STEP) * 0.999 <= told <= exact * math.sqrt(STEP) * 1.001


@given(st.lists(MANY, max_size=6))
def test_parts_add_up_to_the_whole_also_as_json(parts: list[list[float]]) -> None:
    stored = [json.loads(json.dumps(histogram(one))) for one in parts]
    assert merged(stored) == histogram([one for part in parts for one in part])


@given(MANY)
def test_a_higher_percentile_is_no_shorter(durations: list[float]) -> None:
    told = [percentile(histogram(durations), one) or 0 for one in (1, 50, 90, 99, 100)]
    assert told == sorted(told)


def test_nothing_has_no_percentile_and_nonsense_a_bucket() -> None:
    assert percentile({}, 99) is None
    assert bucket_of(-1) == bucket_of(0) == bucket_of(math.nan) == 0
    assert bucket_of(1e9) == MAX_BUCKET
