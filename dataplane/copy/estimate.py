"""A dry run: what would be copied, and about how long it would take, by trying a little of it."""

from __future__ import annotations

import asyncio

from dataplane.copy.engine import Engine, size_text
from dataplane.copy.http1 import now
from dataplane.copy.pace import FILE_WORTH
from dataplane.copy.problems import Final, Stop, Trouble
from dataplane.copy.progress import Progress
from dataplane.copy.stores.base import Item

SAMPLES = 48
SAMPLE_BYTES = 4 * 1024 * 1024
AT_ONCE = 8
SECONDS = 3.0


class Estimate:
    """Collects what there is to do; keeps a few objects to try."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.files = 0
        self.bytes = 0
        self._samples: list[Item] = []

    def add(self, item: Item) -> None:
        self.files += 1
        self.bytes += item.size
        if len(self._samples) < SAMPLES:
            self._samples.append(item)

    async def result(self) -> Stop:
        progress = self._engine.progress
        seconds = await self._seconds() if self.files else 0.0
        progress.estimate_s = seconds
        return would(progress, self.files, self.bytes, seconds)

    async def _seconds(self) -> float | None:
        """Return how long it would take; None when nothing could be tried."""
        begun, waiting = now(), list(reversed(self._samples))
        before = self._engine.progress.bytes_read
        files = 0

        async def some() -> None:
            nonlocal files
            while waiting and now() - begun < SECONDS:
                files += await self._try(waiting.pop())

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))
        read = self._engine.progress.bytes_read - before
        if not files:
            return None
        rate = (read + files * FILE_WORTH) / max(now() - begun, 0.001)
        seconds = (self.bytes + self.files * FILE_WORTH) / rate
        limit = self._engine.plan.bandwidth
        return max(seconds, self.bytes / limit) if limit else seconds

    async def _try(self, item: Item) -> int:
        calls = self._engine.calls
        end = min(item.size, SAMPLE_BYTES)
        try:
            answer = await calls.once(
                lambda: calls.store.get_question(item, 0, end if end < item.size else None)
            )
        except Trouble:
            return 0
        self._engine.progress.read(len(answer.body))
        return 1


def would(progress: Progress, files: int, size: int, seconds: float | None) -> Stop:
    """Return what a dry run found."""
    text = f"{files} files ({size_text(size)}) would be copied"
    if seconds is not None:
        text += f", in about {_duration(seconds)}"
    text += f"; {progress.unchanged} are there already."
    bad = progress.failed + progress.skipped
    if bad:
        return Stop(Final.PARTIAL, f"{text} {bad} can't be copied and are named.")
    return Stop(Final.DONE, text)


def _duration(seconds: float) -> str:
    if seconds < 90:  # noqa: PLR2004
        return f"{max(1, round(seconds))} seconds"
    if seconds < 5400:  # noqa: PLR2004
        return f"{round(seconds / 60)} minutes"
    return f"{seconds / 3600:.1f} hours"
