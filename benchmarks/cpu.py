"""CPU seconds of several sides of a benchmark: a rate says little about a machine that all share.

A process that ends meanwhile is counted as far as its parent has waited for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import psutil


class Cpu:
    """``sides``: a name and the processes that it is made of, each with all that it starts."""

    def __init__(self, sides: Mapping[str, Iterable[int]]) -> None:
        self._sides = {name: tuple(pids) for name, pids in sides.items()}
        self._begin = self._now()

    def spent(self) -> dict[str, float]:
        """Seconds since this was made, by side."""
        begin = self._begin
        return {name: seconds - begin[name] for name, seconds in self._now().items()}

    def _now(self) -> dict[str, float]:
        return {name: sum(map(_seconds, set(trees(pids)))) for name, pids in self._sides.items()}


def trees(pids: Iterable[int]) -> Iterator[psutil.Process]:
    """These processes and all that they started, however far down."""
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(pid)
            yield root
            yield from root.children(recursive=True)


def _seconds(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(sum(times[:4]))  # its own, and those of children that it has waited for
    return 0.0
