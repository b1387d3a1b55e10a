"""A small JSON world kept in memory, or in a file when several processes share it (fakes)."""

import fcntl
import json
import os
import threading
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
        self.changed = threading.Condition(self._lock)

    @property
    def shared(self) -> bool:
        return self._path is not None

    @contextmanager
    def open(self) -> Iterator[dict[str, Any]]:
        with self._lock:
            if self._path is None:
                before = self._memory.get("version")
                yield self._memory
                if self._memory.get("version") != before:
                    self.changed.notify_all()
                return
            with self._path.with_suffix(".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                world = self._read()
                yield world
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
