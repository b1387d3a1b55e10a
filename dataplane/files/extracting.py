"""Unpacking an archive into a new folder beside it.

It is read once before anything is written: how many things, how much room, how much larger than
it was. Then all of it is written into a folder that nobody sees, and that gets its name in one
step. What is not an ordinary file or folder, or has a name that leads elsewhere, is left out and
named. A broken connection ends it and nothing is left.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dataplane.files import archives, names
from dataplane.files.archives import PART, Archive, Member
from dataplane.files.changing import take_down
from dataplane.files.memory import Share
from dataplane.files.names import FAILURES, Refusal
from dataplane.files.notes import UPLOADS
from dataplane.files.tree import Beat, Behind, Tree, land, open_file, require_room, write_all
from dataplane.safepath import Folder, UnsafePath, is_own, parts_of

MOST_DEEP = 100  # folders in one another
_BLOCK = 4096  # what the smallest file takes
_NAMED = 100  # of what was left out
_FAR = 2**36  # seconds: no file is of a later year


@dataclass
class _Tally:
    """``allowed`` is what the first reading found: the second one may not find more."""

    most: int
    entries: int = 0
    files: int = 0
    bytes: int = 0
    room: int = 0
    skipped: int = 0
    left_out: list[dict[str, str]] = field(default_factory=list)
    allowed: _Tally | None = None
    beat: Beat = field(default_factory=Beat)

    def add(self, member: Member) -> None:
        self.entries += 1
        if self.entries > self.most:
            raise archives.too_many()
        if not member.flaw and not member.is_folder:
            self.bytes += member.size
            self.files += 1
        self.room += _BLOCK + (0 if member.flaw else -(-member.size // _BLOCK) * _BLOCK)
        if self.allowed is not None and (
            self.entries > self.allowed.entries or self.bytes > self.allowed.bytes
        ):
            raise Refusal(409, "changed", "The archive was changed while it was unpacked.")

    def miss(self, member: Member, why: str) -> None:
        """Leave it out, after it was added."""
        if not member.flaw and not member.is_folder:
            self.bytes -= member.size
            self.files -= 1
        self.skipped += 1
        name = member.name
        if len(self.left_out) < _NAMED:
            self.left_out.append({"path": names.shown(name[:1000]), "code": why})

    def told(self) -> dict[str, int]:
        return {"files": self.files, "bytes": self.bytes}


def extract(tree: Tree, path: str, room: int | None) -> Iterator[dict[str, Any]]:
    """Unpack ``path`` into a new folder that is called after it."""
    with tree.writable() as top:
        fd, info = open_file(top, path)
        with os.fdopen(fd, "rb") as file, Share() as held:
            archive = archives.opened(file, held)
            found = _Tally(archive.most)
            for _member in _counted(top, archive, found, room):
                if found.beat():
                    yield {"progress": {"step": "reading", **found.told()}}
            archives.require_sane(found.bytes, info.st_size)
            yield from _unpacked(top, archive, path, found)


def _counted(
    top: Folder, archive: Archive, found: _Tally, room: int | None
) -> Iterator[Member | None]:
    for member in archive.members():
        if member is not None:
            found.add(member)
            require_room(top, found.room, room)
        yield member


def _unpacked(top: Folder, archive: Archive, path: str, found: _Tally) -> Iterator[dict[str, Any]]:
    """Write it where nobody looks, then give it its name."""
    with top.folder(UPLOADS, make=True) as hidden:
        temporary, done = f"{secrets.token_hex(16)}.unpack", _Tally(archive.most, allowed=found)
        os.mkdir(temporary, 0o777, dir_fd=hidden.fd)
        try:
            with hidden.folder(temporary) as target:
                for _part in _written(target, archive, done):
                    if done.beat():
                        with contextlib.suppress(OSError):  # somebody goes on with it
                            os.utime(temporary, dir_fd=hidden.fd, follow_symlinks=False)
                        yield {"progress": {"step": "writing", **done.told(), "of": found.bytes}}
            # the folder for an archive: its name without what says that it is one
            folder, name = names.split(path)
            for end in archives.ENDS:
                if name.lower().endswith(end):
                    name = name[: -len(end)]
                    break
            else:
                name = f"{name} unpacked"
            if name in {"", ".", ".."} or (not folder and is_own(name)):
                name = "archive"
            landed = land(top, f"{UPLOADS}/{temporary}", names.below(folder, name), "keep-both")
        except BaseException:
            # nobody reads any more, so nothing can be told; what stays is removed within a day
            with contextlib.suppress(*FAILURES):
                for _one_of_it in take_down(hidden, temporary):
                    pass
            raise
    yield {
        "done": {
            "path": names.shown(landed),
            "name": names.readable(names.split(landed)[1]),
            "names": archive.names,
            "left_out": done.left_out,
            "skipped": done.skipped,
            **done.told(),
        }
    }


def _written(target: Folder, archive: Archive, done: _Tally) -> Iterator[None]:
    """Yield after each part; a member that can't be is named, a damaged archive ends it."""
    for member in archive.members():
        if member is not None:
            done.add(member)
            name, flaw = _name_of(member)
            if flaw:
                done.miss(member, flaw)
            elif name:
                yield from _one(target, member, name, done)
        yield


def _name_of(member: Member) -> tuple[str, str]:
    """Return (the path below the new folder, "") or ("", why not); ("", "") is that folder."""
    if member.flaw:
        return "", member.flaw
    name = "/".join(part for part in member.name.split("/") if part not in {"", "."})
    try:
        parts = parts_of(name)
    except UnsafePath as unsafe:
        return "", "too-long" if unsafe.flaw == "long" else "bad-path"
    return (name, "") if len(parts) <= MOST_DEEP else ("", "too-long")


def _one(target: Folder, member: Member, name: str, done: _Tally) -> Iterator[None]:
    try:
        if member.is_folder:
            with target.folder(name, make=True):
                return
        above, last = names.split(name)
        with target.folder(above, make=True) as parent:
            mode = 0o777 if member.runs else 0o666
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            fd = parent.open(last, flags, mode)
    except (FileExistsError, NotADirectoryError):
        done.miss(member, "exists")
        return
    except UnsafePath:
        done.miss(member, "too-long")
        return
    try:
        yield from _filled(fd, member)
        if member.modified is not None and 0 <= member.modified < _FAR:
            os.utime(fd, (member.modified, member.modified))
    finally:
        os.close(fd)


def _filled(fd: int, member: Member) -> Iterator[None]:
    left = member.size
    if member.open is None:
        return
    behind = Behind(fd, 0)
    with archives.damage(), member.open() as source:
        while data := source.read(min(PART, left + 1)):
            left -= len(data)
            if left < 0:
                raise ValueError  # more than it said
            write_all(fd, data)
            behind.wrote(len(data))
            yield
        if left:
            raise EOFError
