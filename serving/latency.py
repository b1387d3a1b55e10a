"""Durations of requests in buckets: what a gateway counts, and percentiles of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LEAST_S = 0.001
STEP = 1.15  # a bucket ends so many times later than the one before


def bucket_of(seconds: float) -> int:
    """Return the bucket of a duration: 0 up to 1 ms, then steps of 15 %."""
    return max(0, math.ceil(math.log(max(seconds, LEAST_S / 10) / LEAST_S, STEP) - 1e-9))


def percentile(histogram: Mapping[str, int], share: float) -> float | None:
    """Return how many seconds this share of requests took at most, within 8 %; None of nothing.

    ``histogram``: bucket → requests, as ``Calls`` keeps it; those of several rows may be added up.
    """
    left = share * sum(histogram.values())
    for bucket in sorted(map(int, histogram)):
        left -= histogram[str(bucket)]
        if left <= 0 and histogram[str(bucket)]:
            return LEAST_S * STEP ** (bucket - 0.5 if bucket else 0)
    return None
