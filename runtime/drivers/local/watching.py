"""Descriptors and tasks of the event loop that belong to one thing, and end with it."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger("berth.supervisor")


class Watching:
    """Base of what waits for things."""

    def __init__(self) -> None:
        self.watched: dict[int, Callable[[], None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()):
            log.error("a workload's task failed", exc_info=problem)

    def on_readable(self, fd: int, callback: Callable[[], None]) -> None:
        self.watched[fd] = callback
        asyncio.get_running_loop().add_reader(fd, callback)

    def forget_fd(self, fd: int) -> None:
        """Always before the descriptor is closed: its number may be another's at once."""
        if self.watched.pop(fd, None):
            asyncio.get_running_loop().remove_reader(fd)

    def close(self) -> None:
        """Let go of everything in this process; the workload itself is untouched."""
        for task in tuple(self._tasks):
            task.cancel()
        for fd in tuple(self.watched):
            self.forget_fd(fd)
