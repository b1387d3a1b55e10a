"""Paths as they travel, and names as people see them.

A path is percent-encoded bytes relative to the volume, because a name may hold anything but NUL
and ``/``. Inside it is a ``str`` as ``os.fsdecode`` makes it.
"""

from __future__ import annotations

import os
from urllib.parse import quote_from_bytes, unquote_to_bytes

from dataplane.files.refusals import Refusal
from dataplane.safepath import NAME_MAX, PATH_MAX, UnsafePath, is_own, parts_of


def path_of(given: str) -> str:
    """Return the path below the volume; "" is the volume itself."""
    raw = unquote_to_bytes(given)
    parts = [os.fsdecode(part) for part in raw.split(b"/") if part not in {b"", b"."}]
    path = "/".join(parts)
    if len(raw) > PATH_MAX or any(len(os.fsencode(part)) > NAME_MAX for part in parts):
        raise Refusal(400, "too-long", "This name or path is too long.")
    try:
        parts_of(path)
    except UnsafePath:
        raise Refusal(400, "bad-path", "This is not a path below the volume.") from None
    if parts and is_own(parts[0]):
        raise Refusal(403, "berth-own", "This folder is Berth's own.")
    return path


def item_of(given: str) -> str:
    """Like ``path_of`` for something in the volume, not the volume itself."""
    if path := path_of(given):
        return path
    raise Refusal(400, "bad-path", "Say which file or folder of the volume.")


def shown(path: str) -> str:
    """Return the path as it comes back in a request."""
    return quote_from_bytes(os.fsencode(path))


def readable(name: str) -> str:
    """Return a name for people: no control character, no change of direction survives."""
    text = os.fsencode(name).decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "�" for c in text)


def below(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def split(path: str) -> tuple[str, str]:
    """Return (folder, name)."""
    folder, _slash, name = path.rpartition("/")
    return folder, name


def numbered(name: str, number: int) -> str:
    """Return ``name (2).ext``, as short as a name must be."""
    stem, dot, end = name.rpartition(".")
    if not dot or not stem or len(end) > 12:  # noqa: PLR2004 - no file name extension
        stem, dot, end = name, "", ""
    tail = f" ({number}){dot}{end}"
    room = NAME_MAX - len(os.fsencode(tail))
    return os.fsdecode(os.fsencode(stem)[:room]) + tail
