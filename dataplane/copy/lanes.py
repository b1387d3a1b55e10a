"""Threads that read large bodies, each by a loop of its own with connections of its own.

What takes the time there (reading, writing, summing) lets go of the interpreter's lock, so a
second lane brings the bytes of a second core. Who asks stays in the loop of the run.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")
SCRATCH = 256 * 1024  # stays in the cache of a core


class Lane:
    """One thread. Use from the loop of the run; ``close`` when nothing is asked any more."""

    def __init__(self, number: int) -> None:
        self.scratch = memoryview(bytearray(SCRATCH))
        self.bodies = 0  # that are read here now
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name=f"lane-{number}", daemon=True)
        self._thread.start()

    async def run(
        self,
        act: Callable[[], Coroutine[Any, Any, T]],
        unwanted: Callable[[T], object] | None = None,
    ) -> T:
        """Carry ``act`` out in the lane.

        It may be writing to a file of the caller's, so not even being cancelled ends the wait
        before it has ended there. ``unwanted`` gets, in the lane, what nobody waits for any more.
        """
        job = _Job(act, asyncio.get_running_loop())
        self._loop.call_soon_threadsafe(job.begin)
        cancelled = False
        while not job.over.done():
            try:
                await asyncio.wait([job.over])
            except asyncio.CancelledError:
                cancelled = True
                self._loop.call_soon_threadsafe(job.cancel)
        if cancelled:
            done = job.over.result()
            if unwanted is not None and not done.cancelled() and done.exception() is None:
                self._loop.call_soon_threadsafe(unwanted, done.result())
            raise asyncio.CancelledError
        return job.over.result().result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _work(self) -> None:
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.run_until_complete(asyncio.sleep(0))  # connections end a turn later
        finally:
            self._loop.close()


class _Job(Generic[T]):
    """Something done in a lane; ``over`` belongs to the loop that waits for it."""

    def __init__(
        self, act: Callable[[], Coroutine[Any, Any, T]], caller: asyncio.AbstractEventLoop
    ) -> None:
        self.over: asyncio.Future[asyncio.Task[T]] = caller.create_future()
        self._act = act
        self._caller = caller
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._act())
        self._task.add_done_callback(self._ended)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._caller.call_soon_threadsafe(self.over.set_result, task)
