"""Paired rounds, medians, spread: every figure is a ratio of two things run side by side."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

SMALL = "BERTH_BENCH_SMALL"  # the environment's: whether it only shows that the benchmarks work
RESULTS = Path(__file__).resolve().parent / "results.json"
T = TypeVar("T")


@dataclass
class Result:
    """``value`` is judged against ``goal`` (``floor`` in brackets); ``better`` says how."""

    name: str
    unit: str
    ours: list[float]
    peer: list[float] = field(default_factory=list)
    peer_name: str = ""
    goal: float | None = None
    floor: float | None = None
    better: str = "lower"
    note: str = ""

    @property
    def value(self) -> float:
        """Median of the paired ratios, or of our figures where there is no peer."""
        if not self.peer:
            return statistics.median(self.ours)
        return statistics.median([a / b for a, b in zip(self.ours, self.peer, strict=True)])

    @property
    def spread(self) -> tuple[float, float]:
        if not self.peer:
            return min(self.ours), max(self.ours)
        ratios = [a / b for a, b in zip(self.ours, self.peer, strict=True)]
        return min(ratios), max(ratios)

    @property
    def verdict(self) -> str:
        def meets(bound: float | None) -> bool:
            if bound is None:
                return False
            return self.value <= bound if self.better == "lower" else self.value >= bound

        if self.goal is None:
            return "-"
        return "goal" if meets(self.goal) else "floor" if meets(self.floor) else "missed"

    def line(self) -> str:
        low, high = self.spread
        peer = f" against {self.peer_name} {statistics.median(self.peer):.3g}" if self.peer else ""
        return (
            f"{self.name}: {self.value:.3g} ({low:.3g} to {high:.3g}), goal {self.goal}"
            f" [{self.floor}]: {self.verdict}; ours {statistics.median(self.ours):.3g}"
            f" {self.unit}{peer}, {len(self.ours)} rounds"
        )


def is_small() -> bool:
    return os.environ.get(SMALL) == "yes"


def sized(usual: T, small: T) -> T:
    """``small`` where a benchmark only has to show that it works, and its figures say nothing."""
    return small if is_small() else usual


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def timed(act: Callable[[], object]) -> float:
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def poll(ready: Callable[[], bool], *, within_s: float, every_s: float = 0.01) -> None:
    """Wait until ``ready``; a plain poll so that peer and Berth are watched the same way."""
    deadline = time.perf_counter() + within_s
    while not ready():
        if time.perf_counter() > deadline:
            message = f"not ready within {within_s} s"
            raise TimeoutError(message)
        time.sleep(every_s)


def save(results: list[Result]) -> None:
    """Merge into results.json by name, so that one benchmark can be run again alone."""
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for result in results:
        known[result.name] = {
            **asdict(result),
            "value": result.value,
            "spread": result.spread,
            "verdict": result.verdict,
        }
    RESULTS.write_text(json.dumps(known, indent=2) + "\n")
