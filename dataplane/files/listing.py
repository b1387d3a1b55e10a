"""What is in a folder: sorted, in pages, with 100,000 entries as with ten.

Sorting by name reads names only; sizes and times are looked up for the page that is shown. The
order is kept for some seconds, so that the next page costs no second reading.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from dataplane.files import names
from dataplane.files.refusals import Refusal
from dataplane.files.tree import entry_json
from dataplane.own import is_own
from dataplane.safepath import Folder

MOST_READ = 300_000  # entries of one folder; more are only found by search
MOST_PAGE = 1_000
NATURAL_UP_TO = 20_000  # "run 2" before "run 10"; beyond, plain order costs less memory
KEPT, KEEP_S = 4, 15.0
SORTS = ("name", "size", "modified", "kind")
_DIGITS = re.compile(r"(\d{1,18})")


@dataclass(frozen=True)
class _Order:
    names: list[str]
    truncated: bool
    at: float


class Listings:
    """The orders of the folders that were looked at last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Any, ...], _Order] = OrderedDict()
        self._lock = threading.Lock()

    def page(
        self, top: Folder, path: str, *, sort: str, descending: bool, offset: int, limit: int
    ) -> dict[str, Any]:
        if sort not in SORTS:
            raise Refusal(400, "bad-sort", f"Sorted by one of: {', '.join(SORTS)}.")
        offset, limit = max(0, offset), max(1, min(limit, MOST_PAGE))
        with top.folder(path) as folder:
            order = self._order(folder, path, sort, descending=descending)
            chosen = order.names[offset : offset + limit]
            entries = [one for name in chosen if (one := _entry(folder, path, name))]
        return {
            "path": names.shown(path),
            "parts": parts_json(path),
            "entries": entries,
            "offset": offset,
            "total": len(order.names),
            "truncated": order.truncated,
        }

    def _order(self, folder: Folder, path: str, sort: str, *, descending: bool) -> _Order:
        info = os.fstat(folder.fd)
        key = (info.st_dev, info.st_ino, info.st_mtime_ns, sort, descending)
        with self._lock:
            kept = self._kept.get(key)
        # What changes within one tick of the file system's clock does not show in its time.
        fresh = time.time() - info.st_mtime < 1
        if kept is not None and time.monotonic() - kept.at < KEEP_S and not fresh:
            return kept
        made = _read(folder, path, sort, descending=descending)
        with self._lock:
            self._kept[key] = made
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return made


def parts_json(path: str) -> list[dict[str, str]]:
    """The way down to ``path``, for the line of folders above a list."""
    found, here = [], ""
    for part in path.split("/") if path else []:
        here = names.below(here, part)
        found.append({"name": names.readable(part), "path": names.shown(here)})
    return found


def _read(folder: Folder, path: str, sort: str, *, descending: bool) -> _Order:
    folders: list[tuple[Any, str]] = []
    others: list[tuple[Any, str]] = []
    truncated = False
    with os.scandir(folder.fd) as found:
        for count, entry in enumerate(found):
            if count >= MOST_READ:
                truncated = True
                break
            if not path and is_own(entry.name):
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            side = folders if is_folder else others
            side.append((_value(entry, sort), entry.name))
    for side in (folders, others):
        _sort(side, sort, descending=descending)
    first, then = (others, folders) if sort == "kind" and descending else (folders, others)
    return _Order([name for _value_, name in (*first, *then)], truncated, time.monotonic())


def _value(entry: os.DirEntry[str], sort: str) -> Any:
    if sort == "kind":
        return entry.name.rpartition(".")[2].casefold()
    if sort == "name":
        return ""
    with contextlib.suppress(OSError):
        info = entry.stat(follow_symlinks=False)
        return info.st_size if sort == "size" else info.st_mtime_ns
    return 0


def _sort(side: list[tuple[Any, str]], sort: str, *, descending: bool) -> None:
    """By name first, which stays the order among equals; then by the value."""
    backwards = descending and sort == "name"
    if len(side) <= NATURAL_UP_TO:
        side.sort(key=lambda one: _natural(one[1]), reverse=backwards)
    else:
        side.sort(key=lambda one: one[1].casefold(), reverse=backwards)
    if sort != "name":
        side.sort(key=lambda one: one[0], reverse=descending)


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Numbers by value: as tuples, so that a number and a word can be compared."""
    return [
        (0, int(part), part) if part.isdecimal() and part.isascii() else (1, 0, part.casefold())
        for part in _DIGITS.split(name)
        if part
    ]


def _entry(folder: Folder, path: str, name: str) -> dict[str, Any] | None:
    try:
        info = os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
    except OSError:
        return None  # it went away since
    target = ""
    if stat.S_ISLNK(info.st_mode):
        with contextlib.suppress(OSError):
            target = os.readlink(name, dir_fd=folder.fd)
    return entry_json(names.below(path, name), info, target=target)
