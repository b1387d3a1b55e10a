"""Percentiles from buckets are near those of the durations themselves."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from serving.latency import bucket_of, percentile

durations = st.lists(st.floats(0.001, 3600), min_size=1, max_size=200)


@given(durations, st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_a_percentile_is_within_eight_percent(took: list[float], share: float) -> None:
    counted = Counter(str(bucket_of(one)) for one in took)
    found = percentile(counted, share)
    ordered = sorted(took)
    exact = next(one for n, one in enumerate(ordered, 1) if n >= share * len(ordered))
    assert found is not None
    assert exact / 1.081 <= found <= exact * 1.081


def test_of_nothing_there_is_none() -> None:
    assert percentile({}, 0.5) is None
    assert bucket_of(0) == bucket_of(0.001) == 0
    assert bucket_of(0.00101) == 1
