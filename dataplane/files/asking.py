"""Questions that walk through the volume: what takes room, what is called so, how much is this.

All of them are bounded in time, tell how far they are while they run, and end when nobody reads
the answer any more. An answer that is not whole says so.
"""

from __future__ import annotations

import fnmatch
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dataplane.files import memory, names
from dataplane.files.memory import MIB, Share
from dataplane.files.names import Refusal
from dataplane.files.tree import Beat, Found, Tree, entry_json, kind_of, walk
from dataplane.safepath import Folder

LONGEST_S = 300.0
USUAL_S = 60.0
MOST_HITS = 1_000
MOST_CHILDREN = 5_000  # folders, and files, of a folder that are weighed one by one
MOST_LINES = 200
_MOST_TWICE = 1_000_000  # files with several names that are remembered
_TWICE_AT_ONCE, _TWICE = 1000, 110  # bytes for each, for so many at once
_CHILDREN = 14 * MIB  # for those that are weighed one by one
_BLOCK = 512


@dataclass(slots=True)
class Sum:
    files: int = 0
    folders: int = 0
    bytes: int = 0  # as long as the files are
    disk: int = 0  # what they take

    def add(self, info: os.stat_result, *, folder: bool) -> None:
        self.folders += folder
        self.files += not folder
        self.bytes += 0 if folder else info.st_size
        self.disk += info.st_blocks * _BLOCK

    def told(self) -> dict[str, int]:
        return {
            "files": self.files,
            "folders": self.folders,
            "bytes": self.bytes,
            "disk": self.disk,
        }


@dataclass
class _Seen:
    """Files with several names count once, as far as there is memory to know them again."""

    held: Share
    known: set[int] = field(default_factory=set)
    forgot: bool = False

    def __call__(self, info: os.stat_result) -> bool:
        if info.st_nlink < 2 or kind_of(info.st_mode) == "folder":  # noqa: PLR2004 - one name
            return False
        key = info.st_ino | info.st_dev << 64
        if key in self.known:
            return True
        if len(self.known) % _TWICE_AT_ONCE == 0 and not self.held.grow(_TWICE_AT_ONCE * _TWICE):
            self.forgot = True
        elif len(self.known) < _MOST_TWICE:
            self.known.add(key)
        return False


def count(tree: Tree, paths: Sequence[str], *, seconds: float) -> Iterator[dict[str, Any]]:
    """How much is in these things together: what a deletion would take."""
    total, beat, whole, missed = Sum(), Beat(), True, _Missed()
    ends = _ends(seconds)
    with Share() as held, tree.opened() as top:
        held.need(memory.LEAST_LARGE)
        seen = _Seen(held)
        for found in _everything(top, paths, missed):
            if found is not None and not seen(found.info):
                total.add(found.info, folder=found.kind == "folder")
            if beat():
                yield {"progress": total.told()}
                if time.monotonic() > ends:
                    whole = False
                    break
    whole = whole and not missed.any and not seen.forgot
    yield {"done": {**total.told(), "complete": whole}}


class _Children:
    """What lies directly in one folder: its folders and largest files by name, all in a sum.

    Bounded, however much lies there: what has no line of its own is counted in ``more``.
    """

    def __init__(self) -> None:
        self.total = Sum()
        self.more = 0
        self._folders: dict[str, Sum] = {}
        self._others: dict[str, tuple[str, Sum]] = {}  # with their kind

    def add(self, name: str, found: Found, *, direct: bool) -> None:
        """Count one thing: the child ``name`` itself, or what lies below it."""
        is_folder = found.kind == "folder"
        self.total.add(found.info, folder=is_folder)
        if not direct:
            if name in self._folders:
                self._folders[name].add(found.info, folder=is_folder)
        elif not is_folder:
            _kind, one = self._others[name] = (found.kind, Sum())
            one.add(found.info, folder=False)
            if len(self._others) > 2 * MOST_CHILDREN:
                self._thin_out()
        elif len(self._folders) < MOST_CHILDREN:
            one = self._folders[name] = Sum()
            one.add(found.info, folder=True)
        else:
            self.more += 1

    def _thin_out(self) -> None:
        largest = sorted(self._others.items(), key=lambda one: -one[1][1].disk)
        self.more += len(largest) - MOST_CHILDREN
        self._others = dict(largest[:MOST_CHILDREN])

    def lines(self) -> list[tuple[str, str, Sum]]:
        """Name, kind and sum of each, largest first."""
        found = [(name, "folder", one) for name, one in self._folders.items()]
        found += [(name, kind, one) for name, (kind, one) in self._others.items()]
        return sorted(found, key=lambda line: -line[2].disk)


def usage(tree: Tree, path: str, *, seconds: float) -> Iterator[dict[str, Any]]:
    """What each thing in a folder takes, growing while it is found out, largest first."""
    children, beat, whole, missed = _Children(), Beat(1.0), True, _Missed()
    ends, start = _ends(seconds), len(path) + 1 if path else 0
    with Share() as held, tree.opened() as top:
        held.need(_CHILDREN)
        seen = _Seen(held)
        for found in walk(top, path, missed):
            if found is not None and not seen(found.info):
                child, _slash, deeper = found.path[start:].partition("/")
                children.add(child, found, direct=not deeper)
            if beat():
                yield {"progress": _usage_json(path, children)}
                if time.monotonic() > ends:
                    whole = False
                    break
        about = os.fstatvfs(top.fd)
    free = about.f_bavail * about.f_frsize
    whole = whole and not missed.any and not seen.forgot
    yield {"done": {**_usage_json(path, children), "complete": whole, "free": free}}


def _usage_json(path: str, children: _Children) -> dict[str, Any]:
    lines = children.lines()
    return {
        "path": names.shown(path),
        "total": children.total.told(),
        "entries": [
            {
                "name": names.readable(name),
                "path": names.shown(names.below(path, name)),
                "kind": kind,
                **one.told(),
            }
            for name, kind, one in lines[:MOST_LINES]
        ],
        "more": children.more + len(lines[MOST_LINES:]),
    }


def search(tree: Tree, path: str, words: str, *, seconds: float) -> Iterator[dict[str, Any]]:
    """Names that hold ``words`` (or fit a pattern with ``*`` or ``?``), letters of either case."""
    fits = _fits(words)
    beat, hits, looked, waiting = Beat(), 0, 0, []
    ends, whole, missed = _ends(seconds), True, _Missed()
    with tree.opened() as top:
        for found in walk(top, path, missed):
            if found is not None:
                looked += 1
                if fits(names.split(found.path)[1]):
                    hits += 1
                    waiting.append(entry_json(found.path, found.info))
            if beat() or len(waiting) >= 100:  # noqa: PLR2004 - told in parts
                yield {"progress": {"looked": looked}, "entries": waiting}
                waiting = []
                if time.monotonic() > ends:
                    whole = False
                    break
            if hits >= MOST_HITS:
                whole = False
                break
    done = {"looked": looked, "hits": hits, "complete": whole and not missed.any}
    yield {"done": done, "entries": waiting}


def _fits(words: str) -> Callable[[str], bool]:
    wanted = words.strip().casefold()
    if not wanted or len(wanted) > 200:  # noqa: PLR2004 - of a name
        raise Refusal(400, "bad-request", "Say what to look for.")
    if any(c in wanted for c in "*?"):
        return lambda name: fnmatch.fnmatchcase(name.casefold(), wanted)
    return lambda name: wanted in name.casefold()


def _everything(
    top: Folder, paths: Sequence[str], missed: Callable[[str, str], None]
) -> Iterator[Found | None]:
    for path in paths:
        info = top.stat(path)
        yield Found(path, info)
        if kind_of(info.st_mode) == "folder":
            yield from walk(top, path, missed)


def _ends(seconds: float) -> float:
    return time.monotonic() + max(1.0, min(seconds, LONGEST_S))


class _Missed:
    """What can't be read has no size that we know; what there was no memory for is missing."""

    def __init__(self) -> None:
        self.any = False

    def __call__(self, path: str, why: str) -> None:
        del path
        self.any = self.any or why == "too-many"
