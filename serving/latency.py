"""How long requests took, as counts of buckets: those of any minute, caller and gateway add up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FIRST_S = 0.001  # the first bucket ends here
STEP = 1.15  # a bucket ends so many times later than the one before: percentiles are within 8 %
MAX_BUCKET = 120  # 5 hours: longer than any request is carried


def bucket_of(seconds: float) -> int:
    """Return the bucket of a duration: 0 up to 1 ms, then steps of 15 %."""
    if not seconds > FIRST_S:
        return 0
    return min(MAX_BUCKET, math.ceil(round(math.log(seconds / FIRST_S, STEP), 9)))


def end_of(bucket: int) -> float:
    """Return the longest duration that is in a bucket, in seconds."""
    return FIRST_S * STEP ** float(bucket)


def merged(histograms: Iterable[Mapping[str, int] | Mapping[int, int]]) -> dict[int, int]:
    """Add histograms up. A bucket may be written as text: JSON has no other keys."""
    total: dict[int, int] = {}
    for one in histograms:
        for bucket, count in one.items():
            total[int(bucket)] = total.get(int(bucket), 0) + count
    return total


def percentile(histogram: Mapping[int, int], percent: float) -> float | None:
    """Return the duration that ``percent`` of the requests did not exceed; None without any.

    It is the middle of the bucket in which that request is.
    """
    requests = sum(histogram.values())
    if not requests:
        return None
    rank = max(1, math.ceil(requests * percent / 100))
    passed = 0
    for bucket in sorted(histogram):
        passed += histogram[bucket]
        if passed >= rank:
            break
    return end_of(bucket) / math.sqrt(STEP)
