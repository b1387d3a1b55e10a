"""What the requests under way may hold in memory together, so that their sum fits this server's.

The server has 256 MiB: one that takes more is killed, with every upload in it. Who needs memory
in proportion to what a tenant made says how much before he takes it. What is small has room of its
own and does not wait behind what is large; who waits does so in one short line, so that there are
connections left for others.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from typing import Self

from dataplane.files.names import Refusal

MIB = 1024 * 1024
IS_SMALL = 4 * MIB  # a page of a folder, the beginning of a text
LEAST_LARGE = 6 * MIB  # what begins with no more, and grows beside what is large
MOST_WAITING = 32  # requests in line: half of the connections
PATIENCE_S = 10.0


_ARENAS, _OWN_MAPPING = -8, -3  # of glibc's mallopt
MOST_MORE = 72 * MIB
_LIST, _OBJECT, _ITEM = 120, 250, 75
_WIDE, _NARROW = 10, 5  # as read, as text, as values, and as what is made of them


def give_back_early() -> None:
    """Let what was large go back to the system when it is free, whichever thread had it.

    glibc would keep a heap for each of many threads. Other libraries of C do not know the call.
    """
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_ARENAS, 2)
        libc.mallopt(_OWN_MAPPING, 64 * 1024)


def busy() -> Refusal:
    """Nothing was done: the same may be asked again in a moment."""
    return Refusal(503, "busy", "Too much is being looked through at once; try again.")


class Room:
    """So many bytes for all together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._left = most
        self._changed = threading.Condition()

    def take(self, size: int, within_s: float = 0.0) -> bool:
        """Return whether there is room for ``size``, or will be before long; then it is taken."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._left >= size, within_s):
                return False
            self._left -= size
            return True

    def give(self, size: int) -> None:
        with self._changed:
            self._left += size
            self._changed.notify_all()


class Line:
    """Who waits for a turn: few at once, and none for long."""

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._places = threading.BoundedSemaphore(most)

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        if not self._places.acquire(blocking=False):
            raise busy()
        try:
            yield
        finally:
            self._places.release()

    @contextlib.contextmanager
    def turn(self, turns: threading.Semaphore, within_s: float = PATIENCE_S) -> Iterator[None]:
        """Hold one of ``turns``; refuse who would wait in a long line, or for long."""
        if not turns.acquire(blocking=False):
            with self.place():
                if not turns.acquire(timeout=within_s):
                    raise busy()
        try:
            yield
        finally:
            turns.release()


SMALL, LARGE = Room(32 * MIB), Room(112 * MIB)
LINE = Line()


class Share:
    """What one request holds of a room, until it is closed."""

    def __init__(self) -> None:
        self._room, self.size = LARGE, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_what: object) -> None:
        self.close()

    def need(self, size: int) -> None:
        """Hold ``size``; wait for it, which only who holds nothing may do."""
        assert not self.size, "who holds and waits may wait for ever"  # noqa: S101
        room = SMALL if size <= IS_SMALL else LARGE
        if not room.take(size):
            with LINE.place():
                if not room.take(size, PATIENCE_S):
                    raise busy()
        self._room, self.size = room, size

    def grow(self, size: int) -> bool:
        """Hold so much more if there is room for it now."""
        if not self._room.take(size):
            return False
        self.size += size
        return True

    def close(self) -> None:
        """May be called again."""
        size, self.size = self.size, 0
        if size:
            self._room.give(size)


def json_bytes(length: int) -> int:
    """Return what its letters take, if all of them are of ASCII."""
    return _NARROW * length


def json_more(data: bytes) -> int:
    """Return about what it takes beyond that: other letters, lists, objects and values.

    Some of the signs may be text: then it is less.
    """
    parts = _LIST * data.count(b"[") + _OBJECT * data.count(b"{") + _ITEM * data.count(b",")
    return parts if data.isascii() else parts + (_WIDE - _NARROW) * len(data)
