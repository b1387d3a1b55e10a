"""A small JSON world kept in memory, or in a file when several processes share it (fakes)."""

import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Store:
    """``with store.open() as world`` gives a dict that nobody else changes meanwhile."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._memory: dict[str, Any] = {}
        self._changed = threading.Condition(self._lock)

    def wait(self, seconds: float) -> None:
        """Return when its version grew, or after so long; a file tells nobody."""
        if self._path is not None:
            time.sleep(seconds)
            return
        with self._changed:
            self._changed.wait(seconds)

    @contextmanager
    def open(self) -> Iterator[dict[str, Any]]:
        with self._lock:
            if self._path is None:
                before = self._memory.get("version")
                try:
                    yield self._memory
                finally:
                    if self._memory.get("version") != before:
                        self._changed.notify_all()
                return
            with self._path.with_suffix(".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                world = self._read()
                try:
                    yield world
                finally:  # who refuses has noted something too
                    self._write(world)

    def _read(self) -> dict[str, Any]:
        assert self._path is not None  # noqa: S101 - for the type checker
        try:
            return dict(json.loads(self._path.read_text()))
        except FileNotFoundError:
            return {}

    def _write(self, world: dict[str, Any]) -> None:
        assert self._path is not None  # noqa: S101 - for the type checker
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(world))
        os.replace(new, self._path)  # noqa: PTH105
