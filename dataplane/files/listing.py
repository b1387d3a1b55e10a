"""What is in a folder: sorted, in pages, with 100,000 entries as with ten.

A small folder is read and sorted at each request. A large one is read by one request at a time,
within a bound on memory and not only on entries: the tenant decides how long names are. Its order
is kept for some seconds in a compact form, so that the next page, and who waited for the same
folder, cost no second reading.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
import sys
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from dataplane.files import memory, names
from dataplane.files.memory import MIB, Share
from dataplane.files.names import Refusal
from dataplane.files.tree import entry_json
from dataplane.safepath import Folder, is_own

MOST_READ = 300_000  # entries of one folder; more are only found by search
MOST_BYTES = 72 * MIB  # for sorting them: 300,000 names of 60 letters
SMALL_BYTES = 1 * MIB  # some thousand names: read beside others, without a turn
MOST_PAGE = 1_000
NATURAL_UP_TO = 20_000  # "run 2" before "run 10"; beyond, plain order takes less time
KEPT, KEPT_BYTES, KEEP_S = 4, 24 * MIB, 15.0
SORTS = ("name", "size", "modified", "kind")
_LARGE_KNOWN = 256
_STEP = 1 * MIB
_KEY = 96  # letters of a name that decide where it stands; beyond, bytes do
_KEY_BYTES = 80 + 4 * _KEY
_VALUED = 100  # bytes for an entry that is sorted by a number
_ENTRY, _TARGET = 1300, 400  # bytes for an entry of a page; letters of where a link leads
_DIGITS = re.compile(r"0*([0-9]{1,18})")


@dataclass(frozen=True)
class _Order:
    """Names one after another, as bytes, and where each begins."""

    text: bytes
    starts: array[int]
    truncated: bool
    begun: float
    modified: int  # the folder, before it was read

    @classmethod
    def of(cls, found: _Names, every: Iterable[str]) -> _Order:
        text, starts = bytearray(), array("I")
        for name in every:
            starts.append(len(text))
            text += os.fsencode(name)
        return cls(bytes(text), starts, not found.whole, found.begun, found.modified)

    def __len__(self) -> int:
        return len(self.starts)

    def part(self, offset: int, limit: int) -> list[str]:
        edges = [*self.starts[offset : offset + limit + 1], len(self.text)]
        chosen = edges[: min(limit, max(0, len(self) - offset)) + 1]
        return [os.fsdecode(self.text[start:end]) for start, end in itertools.pairwise(chosen)]


@dataclass
class _Names:
    begun: float
    modified: int
    folders: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    whole: bool = True

    def __len__(self) -> int:
        return len(self.folders) + len(self.others)


class Listings:
    """The orders of the large folders that were looked at last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Any, ...], _Order] = OrderedDict()
        self._changed = threading.Condition()
        self._large: OrderedDict[tuple[Any, ...], None] = OrderedDict()
        self._reading = False  # one of them

    def page(
        self,
        top: Folder,
        path: str,
        held: Share,
        *,
        sort: str,
        descending: bool,
        offset: int,
        limit: int,
    ) -> dict[str, Any]:
        """Return a page of a folder; ``held`` is what it takes, until it was sent."""
        if sort not in SORTS:
            raise Refusal(400, "bad-sort", f"Sorted by one of: {', '.join(SORTS)}.")
        offset, limit = max(0, offset), max(1, min(limit, MOST_PAGE))
        with top.folder(path) as folder:
            order = self._order(folder, path, sort, descending=descending)
            total, truncated = len(order), order.truncated
            chosen = order.part(offset, limit)
            del order
            # what a page takes: each path three times as long, in three copies; each name too
            above = len(os.fsencode(path))
            sizes = (len(os.fsencode(name)) for name in chosen)
            held.need(sum(_ENTRY + 9 * (above + size) + 16 * size for size in sizes))
            entries = [one for name in chosen if (one := _entry(folder, path, name, held))]
        return {
            "path": names.shown(path),
            "parts": parts_json(path),
            "entries": entries,
            "offset": offset,
            "total": total,
            "truncated": truncated,
        }

    def _order(self, folder: Folder, path: str, sort: str, *, descending: bool) -> _Order:
        asked, info = time.monotonic(), os.fstat(folder.fd)
        here = (info.st_dev, info.st_ino)
        key = (*here, sort, descending)
        if kept := self._known(key, folder, asked):
            return kept
        if here not in self._large:
            with Share() as held:
                held.need(SMALL_BYTES)
                found = _names(folder, path, SMALL_BYTES)
                if found.whole or len(found) >= MOST_READ:
                    return _sorted(folder, found, sort, descending=descending)
                del found
            # who asks for it again need not begin to read it to know
            with self._changed:
                self._large[here] = None
                while len(self._large) > _LARGE_KNOWN:
                    self._large.popitem(last=False)
        if kept := self._turn(key, folder, asked):
            return kept
        try:
            made = self._read(folder, path, sort, descending=descending)
            if len(made) < NATURAL_UP_TO:  # it may have become small
                self._large.pop(here, None)
            with self._changed:
                self._kept[key] = made
                self._kept.move_to_end(key)
                while len(self._kept) > 1 and (
                    len(self._kept) > KEPT
                    or sum(len(o.text) for o in self._kept.values()) > KEPT_BYTES
                ):
                    self._kept.popitem(last=False)
        finally:
            with self._changed:
                self._reading = False
                self._changed.notify_all()
        return made

    def _turn(self, key: tuple[Any, ...], folder: Folder, asked: float) -> _Order | None:
        """Wait until it is our turn to read; or until somebody else has read the same."""
        with self._changed:
            kept: list[_Order | None] = [None]

            def ready() -> bool:
                kept[0] = self._known(key, folder, asked)
                return kept[0] is not None or not self._reading

            if not ready():
                with memory.LINE.place():
                    if not self._changed.wait_for(ready, memory.PATIENCE_S):
                        raise memory.busy()
            self._reading = self._reading or kept[0] is None
            return kept[0]

    def _read(self, folder: Folder, path: str, sort: str, *, descending: bool) -> _Order:
        with Share() as held:
            held.need(memory.LEAST_LARGE)
            found = _names(folder, path, MOST_BYTES, held)
            return _sorted(folder, found, sort, descending=descending)

    def _known(self, key: tuple[Any, ...], folder: Folder, asked: float) -> _Order | None:
        """Return an order that is as good as one that is read now."""
        with self._changed:
            for old in [k for k, o in self._kept.items() if o.begun < asked - KEEP_S]:
                del self._kept[old]
            kept = self._kept.get(key)
        if kept is None or kept.begun >= asked:
            return kept
        # What changes within one tick of the file system's clock does not show in its time.
        info = os.fstat(folder.fd)
        fresh = time.time() - info.st_mtime < 1
        return kept if kept.modified == info.st_mtime_ns and not fresh else None


def parts_json(path: str) -> list[dict[str, str]]:
    """The way down to ``path``, for the line of folders above a list."""
    found, here = [], ""
    for part in path.split("/") if path else []:
        here = names.below(here, part)
        found.append({"name": names.readable(part), "path": names.shown(here)})
    return found


def _names(folder: Folder, path: str, most: int, held: Share | None = None) -> _Names:
    """Read names until sorting them would take ``most``; ``held`` grows with them."""
    found, size = _Names(time.monotonic(), os.fstat(folder.fd).st_mtime_ns), 0
    with os.scandir(folder.fd) as entries:
        for entry in entries:
            if not path and is_own(entry.name):
                continue
            size += _weight(entry.name)
            if len(found) >= MOST_READ or size > most:
                found.whole = False
                break
            if held is not None and size > held.size and not held.grow(_STEP):
                raise memory.busy()
            is_folder = entry.is_dir(follow_symlinks=False)
            (found.folders if is_folder else found.others).append(entry.name)
    return found


def _weight(name: str) -> int:
    """Return what it takes to sort a name: itself, and its key or its value."""
    size = sys.getsizeof(name)
    return size + max(min(size, _KEY_BYTES) + 24, _VALUED)


def _sorted(folder: Folder, found: _Names, sort: str, *, descending: bool) -> _Order:
    sides = [found.folders, found.others]
    for number, side in enumerate(sides):
        sides[number] = _in_order(folder, side, sort, descending=descending)
    if sort == "kind" and descending:
        sides.reverse()
    return _Order.of(found, (name for side in sides for name in side))


def _in_order(folder: Folder, side: list[str], sort: str, *, descending: bool) -> list[str]:
    """By name first, which stays the order among equals; then by the value."""
    backwards = descending and sort == "name"
    key = _natural if len(side) <= NATURAL_UP_TO else _plain
    side.sort(reverse=backwards)
    side.sort(key=key, reverse=backwards)
    if sort == "name":
        return side
    if sort == "kind":
        side.sort(key=_ending, reverse=descending)
        return side
    values = array("q", (_value(folder, name, sort) for name in side))
    order = sorted(range(len(side)), key=values.__getitem__, reverse=descending)
    return [side[number] for number in order]


def _value(folder: Folder, name: str, sort: str) -> int:
    with contextlib.suppress(OSError):
        info = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
        return info.st_size if sort == "size" else info.st_mtime_ns
    return 0


def _ending(name: str) -> str:
    return name.rpartition(".")[2][:_KEY].casefold()[:_KEY]


def _plain(name: str) -> str:
    return name[:_KEY].casefold()[:_KEY]


def _natural(name: str) -> str:
    """Numbers by value and before words: as long as they are, then digit by digit."""
    return _DIGITS.sub(lambda one: f"\0{chr(len(one[1]))}{one[1]}", _plain(name))[:_KEY]


def _entry(folder: Folder, path: str, name: str, held: Share) -> dict[str, Any] | None:
    try:
        info = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
    except OSError:
        return None  # it went away since
    target = ""
    if stat.S_ISLNK(info.st_mode) and held.grow(16 * _TARGET):
        with contextlib.suppress(OSError):
            target = os.readlink(name, dir_fd=folder.fd)
            target = target if len(target) <= _TARGET else f"{target[:_TARGET]}…"
    return entry_json(names.below(path, name), info, target=target)
