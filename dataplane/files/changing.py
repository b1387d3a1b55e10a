"""New folders, moving and copying within the volume."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dataplane.files import names
from dataplane.files.landing import land, require_room
from dataplane.files.notes import UPLOADS
from dataplane.files.refusals import FAILURES, Refusal, of_error
from dataplane.files.removing import remove
from dataplane.files.tree import Beat, Tree, entry_json, kind_of, open_file, place, walk
from dataplane.files.writeback import Behind
from dataplane.safepath import Folder

PART = 8 * 1024 * 1024
_NAMED = 100  # of what was left out


def make_folder(tree: Tree, path: str, *, parents: bool) -> dict[str, Any]:
    """Make a folder; with ``parents`` also those above, and one that is there is fine."""
    with tree.writable() as top:
        if parents:
            with top.folder(path, make=True):
                pass
        else:
            top.make(path)
        return {"done": entry_json(path, top.stat(path))}


def rename(tree: Tree, path: str, to: str, conflict: str) -> dict[str, Any]:
    """Give one thing another name or place."""
    with tree.writable() as top:
        _require_not_inside(path, to)
        landed = _moved(top, path, to, conflict)
        return {"done": entry_json(landed, top.stat(landed))}


def move(tree: Tree, paths: Sequence[str], folder: str, conflict: str) -> dict[str, Any]:
    """Move several things into a folder; what is refused is named, the others are moved."""
    moved, refused = [], []
    with tree.writable() as top:
        with top.folder(folder):
            pass  # it must be there
        for path in paths:
            to = names.below(folder, names.split(path)[1])
            try:
                _require_not_inside(path, to)
                moved.append(names.shown(_moved(top, path, to, conflict)))
            except Refusal as refusal:
                refused.append({"path": names.shown(path), **refusal.as_json()})
            except FAILURES as error:
                refused.append({"path": names.shown(path), **of_error(error).as_json()})
    return {"moved": moved, "refused": refused}


def _moved(top: Folder, path: str, to: str, conflict: str) -> str:
    if path == to:
        return to
    before = top.stat(path)
    if conflict == "replace" and kind_of(before.st_mode) != "folder":
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(before, top.stat(to)):
                return to  # a second name of the same file: rename would do nothing
        return land(top, path, to, "replace")
    return place(to, conflict, lambda at: top.rename(path, at, replace=False))


def _require_not_inside(path: str, to: str) -> None:
    if to.startswith(f"{path}/"):
        raise Refusal(409, "into-itself", "A folder can't be put into itself.")


# --- copying ----------------------------------------------------------------------------------


@dataclass
class _Copied:
    files: int = 0
    bytes: int = 0
    skipped: int = 0
    left_out: list[dict[str, str]] = field(default_factory=list)
    beat: Beat = field(default_factory=Beat)

    def miss(self, path: str, why: str) -> None:
        self.skipped += 1
        if len(self.left_out) < _NAMED:
            self.left_out.append({"path": names.shown(path), "code": why})

    def told(self) -> dict[str, int]:
        return {"files": self.files, "bytes": self.bytes}


def copy(
    tree: Tree, paths: Sequence[str], folder: str, conflict: str, room: int | None
) -> Iterator[dict[str, Any]]:
    """Copy things into a folder. Each appears under its name only when all of it is there."""
    copied, landed, refused = _Copied(), [], []
    with tree.writable() as top:
        with top.folder(folder):
            pass
        with top.folder(UPLOADS, make=True):
            pass
        for path in paths:
            to = names.below(folder, names.split(path)[1])
            temporary = f"{UPLOADS}/{secrets.token_hex(16)}.copy"
            try:
                _require_not_inside(path, to)
                for said in _copy_tree(top, path, temporary, copied, room):
                    _touch(top, temporary)
                    yield said
                landed.append(names.shown(land(top, temporary, to, conflict)))
            except Refusal as refusal:
                refused.append({"path": names.shown(path), **refusal.as_json()})
            except FAILURES as error:
                refused.append({"path": names.shown(path), **of_error(error).as_json()})
            except BaseException:  # nobody reads any more: nothing can be told, all of it goes
                for _said in _clean(tree, top, temporary):
                    pass
                raise
            yield from _clean(tree, top, temporary)
    left = {"left_out": copied.left_out, "skipped": copied.skipped}
    yield {"done": {"copied": landed, "refused": refused, **left, **copied.told()}}


def _touch(top: Folder, temporary: str) -> None:
    """Say that somebody goes on with it: what looks old is removed (``Uploads.clean``)."""
    folder, name = names.split(temporary)
    with contextlib.suppress(OSError), top.folder(folder) as here:
        os.utime(name, dir_fd=here.fd, follow_symlinks=False)


def _copy_tree(
    top: Folder, path: str, to: str, copied: _Copied, room: int | None
) -> Iterator[dict[str, Any]]:
    info = top.stat(path)
    if not stat.S_ISDIR(info.st_mode):
        yield from _copy_one(top, path, info, to, copied, room)
        return
    top.make(to)
    for found in walk(top, path, copied.miss):
        if found is not None:
            yield from _copy_one(
                top, found.path, found.info, to + found.path[len(path) :], copied, room
            )


def _copy_one(
    top: Folder, path: str, info: os.stat_result, to: str, copied: _Copied, room: int | None
) -> Iterator[dict[str, Any]]:
    kind = kind_of(info.st_mode)
    if kind == "folder":
        top.make(to)
    elif kind == "file":
        require_room(top, info.st_size, None if room is None else room - copied.bytes)
        yield from _copy_file(top, path, to, copied)
    else:
        copied.miss(path, kind)


def _copy_file(top: Folder, path: str, to: str, copied: _Copied) -> Iterator[dict[str, Any]]:
    try:
        source, info = open_file(top, path)
    except (*FAILURES, Refusal):
        copied.miss(path, "denied")
        return
    try:
        mode = stat.S_IMODE(info.st_mode) & 0o777
        target = top.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            behind = Behind(target, 0)
            while count := _some(source, target):
                behind.wrote(count)
                copied.bytes += count
                if copied.beat():
                    yield {"progress": copied.told()}
            os.utime(target, ns=(info.st_atime_ns, info.st_mtime_ns))
        finally:
            os.close(target)
    finally:
        os.close(source)
    copied.files += 1


def _some(source: int, target: int) -> int:
    """Copy a part inside the kernel (or the NFS server) where that is possible."""
    try:
        return os.copy_file_range(source, target, PART)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
            raise
    data = os.read(source, PART)
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]
    return len(data)


def _clean(tree: Tree, top: Folder, temporary: str) -> Iterator[dict[str, Any]]:
    """Remove what did not land, all of it, also when nobody reads any more how far that is."""
    with contextlib.suppress(OSError):
        top.stat(temporary)
        try:
            for said in remove(tree, [temporary]):
                if "progress" in said:
                    yield said
        except GeneratorExit:
            for _said in remove(tree, [temporary]):
                pass
            raise
