"""Memory of a process that loads a lot, or had a crowd: what the collector and the C library do."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if collects:
            gc.enable()


WORTH = 50  # streams fewer than at the last peak


def give_back() -> None:
    """Return what is free to the system, where the C library can (glibc).

    Connections are cycles of objects: they are collected first, which takes some milliseconds.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Ebb:
    """Says when so many streams have ended that asking is worth it.

    Twice in a row: what was still being closed the first time is free the second.
    """

    def __init__(self) -> None:
        self._peak = 0
        self._owed = 0

    def rise(self, streams: int) -> None:
        self._peak = max(self._peak, streams)

    def has_fallen(self, streams: int) -> bool:
        if self._peak - streams >= WORTH:
            self._peak, self._owed = streams, 2
        self._owed -= 1
        return self._owed >= 0
