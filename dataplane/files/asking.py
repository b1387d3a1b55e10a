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

from dataplane.files import names
from dataplane.files.refusals import Refusal
from dataplane.files.tree import Beat, Found, Tree, entry_json, kind_of, walk
from dataplane.safepath import Folder

LONGEST_S = 300.0
USUAL_S = 60.0
MOST_HITS = 1_000
MOST_CHILDREN = 5_000  # of a folder whose room is shown one by one
_MOST_TWICE = 1_000_000  # files with several names that are remembered
_BLOCK = 512


@dataclass
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
        return vars(self).copy()


@dataclass
class _Seen:
    """Files with several names count once."""

    known: set[tuple[int, int]] = field(default_factory=set)

    def __call__(self, info: os.stat_result) -> bool:
        if info.st_nlink < 2 or kind_of(info.st_mode) == "folder":  # noqa: PLR2004 - one name
            return False
        key = (info.st_dev, info.st_ino)
        if key in self.known:
            return True
        if len(self.known) < _MOST_TWICE:
            self.known.add(key)
        return False


def count(tree: Tree, paths: Sequence[str], *, seconds: float) -> Iterator[dict[str, Any]]:
    """How much is in these things together: what a deletion would take."""
    total, seen, beat, whole = Sum(), _Seen(), Beat(), True
    ends = _ends(seconds)
    with tree.opened() as top:
        for found in _everything(top, paths):
            if found is not None and not seen(found.info):
                total.add(found.info, folder=found.kind == "folder")
            if beat():
                yield {"progress": total.told()}
                if time.monotonic() > ends:
                    whole = False
                    break
    yield {"done": {**total.told(), "complete": whole}}


def usage(tree: Tree, path: str, *, seconds: float) -> Iterator[dict[str, Any]]:
    """What each thing in a folder takes, growing while it is found out, largest first."""
    sums: dict[str, Sum] = {}
    kinds: dict[str, str] = {}
    seen, beat, own, whole = _Seen(), Beat(1.0), Sum(), True
    ends, start = _ends(seconds), len(path) + 1 if path else 0
    with tree.opened() as top:
        for found in walk(top, path, _unheard):
            if found is not None:
                child, _slash, deeper = found.path[start:].partition("/")
                if not deeper:
                    kinds[child] = found.kind
                if not seen(found.info):
                    is_folder = found.kind == "folder"
                    known = sums.get(child) or (
                        sums.setdefault(child, Sum()) if len(sums) < MOST_CHILDREN else own
                    )
                    known.add(found.info, folder=is_folder)
            if beat():
                yield {"progress": _usage_json(path, sums, kinds, own)}
                if time.monotonic() > ends:
                    whole = False
                    break
        about = os.fstatvfs(top.fd)
    free = about.f_bavail * about.f_frsize
    yield {"done": {**_usage_json(path, sums, kinds, own), "complete": whole, "free": free}}


def _usage_json(path: str, sums: dict[str, Sum], kinds: dict[str, str], own: Sum) -> dict[str, Any]:
    largest = sorted(sums.items(), key=lambda one: -one[1].disk)[:200]
    total = Sum(*(sum(getattr(s, f) for s in (*sums.values(), own)) for f in vars(own)))
    return {
        "path": names.shown(path),
        "total": total.told(),
        "entries": [
            {
                "name": names.readable(name),
                "path": names.shown(names.below(path, name)),
                "kind": kinds.get(name, "folder"),
                **one.told(),
            }
            for name, one in largest
        ],
        "more": len(sums) - len(largest),
    }


def search(tree: Tree, path: str, words: str, *, seconds: float) -> Iterator[dict[str, Any]]:
    """Names that hold ``words`` (or fit a pattern with ``*`` or ``?``), letters of either case."""
    fits = _fits(words)
    beat, hits, looked, waiting = Beat(), 0, 0, []
    ends, whole = _ends(seconds), True
    with tree.opened() as top:
        for found in walk(top, path, _unheard):
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
    done = {"looked": looked, "hits": hits, "complete": whole}
    yield {"done": done, "entries": waiting}


def _fits(words: str) -> Callable[[str], bool]:
    wanted = words.strip().casefold()
    if not wanted or len(wanted) > 200:  # noqa: PLR2004 - of a name
        raise Refusal(400, "bad-request", "Say what to look for.")
    if any(c in wanted for c in "*?"):
        return lambda name: fnmatch.fnmatchcase(name.casefold(), wanted)
    return lambda name: wanted in name.casefold()


def _everything(top: Folder, paths: Sequence[str]) -> Iterator[Found | None]:
    for path in paths:
        info = top.stat(path)
        yield Found(path, info)
        if kind_of(info.st_mode) == "folder":
            yield from walk(top, path, _unheard)


def _ends(seconds: float) -> float:
    return time.monotonic() + max(1.0, min(seconds, LONGEST_S))


def _unheard(path: str, why: str) -> None:
    """What can't be read has no size that we know."""
    del path, why
