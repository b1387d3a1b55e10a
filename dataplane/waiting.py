"""Folders that a walk has seen and not looked into yet, bounded by the memory that they take.

A tenant decides how many there are and how long their paths: a million of them may be kilobytes
or gigabytes.
"""

from __future__ import annotations

import sys
from typing import Protocol

MOST_BYTES = 128 * 1024 * 1024  # a million folders with paths of 70 letters
_PLACE = 16  # what a list takes for one entry, with what it keeps free


class Room(Protocol):
    """Bytes that several share."""

    def take(self, size: int) -> bool: ...
    def give(self, size: int) -> None: ...


class Waiting:
    """The last one that was put in comes out first, so that few wait."""

    def __init__(self, first: str, most: int = MOST_BYTES, room: Room | None = None) -> None:
        self._paths = [first]
        self._most, self._room = most, room
        self._bytes = 0  # the first one is whoever's that asks

    def __bool__(self) -> bool:
        return bool(self._paths)

    def take(self) -> str:
        path = self._paths.pop()
        if self._bytes:
            self._give(_size(path))
        return path

    def put(self, path: str) -> bool:
        """False when there is no room for it: what lies below it is not looked at."""
        size = _size(path)
        if self._bytes + size > self._most:
            return False
        if self._room is not None and not self._room.take(size):
            return False
        self._bytes += size
        self._paths.append(path)
        return True

    def close(self) -> None:
        self._give(self._bytes)

    def _give(self, size: int) -> None:
        self._bytes -= size
        if self._room is not None:
            self._room.give(size)


def _size(path: str) -> int:
    """A letter takes one to four bytes, by the rarest one of the path."""
    return sys.getsizeof(path) + _PLACE
