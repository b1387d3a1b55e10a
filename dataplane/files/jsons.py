"""What reading JSON takes, which may be thirty times what it was written in. Known beforehand."""

from __future__ import annotations

from dataplane.files.memory import MIB

MOST_MORE = 72 * MIB
_LIST, _OBJECT, _ITEM = 120, 250, 75
_WIDE, _NARROW = 10, 5  # as read, as text, as values, and as what is made of them


def bytes_of(length: int) -> int:
    """Return what its letters take, if all of them are of ASCII."""
    return _NARROW * length


def more_of(data: bytes) -> int:
    """Return about what it takes beyond that: other letters, lists, objects and values.

    Some of the signs may be text: then it is less.
    """
    parts = _LIST * data.count(b"[") + _OBJECT * data.count(b"{") + _ITEM * data.count(b",")
    return parts if data.isascii() else parts + (_WIDE - _NARROW) * len(data)
