"""New folders, moving, copying and deleting within the volume.

What is deleted is moved to ``.berth/trash/<id>`` in one step, however large it is, together with a
note of where it was; it is gone for good some minutes later, or brought back. It still takes room
there until it is purged.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from dataplane.files import names
from dataplane.files.names import FAILURES, Refusal
from dataplane.files.notes import UPLOADS
from dataplane.files.tree import (
    Beat,
    Behind,
    Tree,
    entry_json,
    kind_of,
    land,
    open_file,
    place,
    require_room,
    walk,
    write_all,
)
from dataplane.safepath import FOLDER_FLAGS, OWN, Folder

TRASH = f"{OWN}/trash"
KEPT_S = 300.0
MOST_PURGED = 20_000  # at once: the tenant can put things there
_DEEP = 64  # folders that are held open at once while a tree is taken down
_ID = re.compile(r"[0-9a-f]{32}")
_NOTE = "note.json"
PART = 8 * 1024 * 1024
_NAMED = 100  # of what was left out


def set_aside(tree: Tree, paths: Sequence[str]) -> dict[str, Any]:
    """Take things away so that they can be brought back; return the id for that."""
    with tree.writable() as top:
        made = secrets.token_hex(16)
        with top.folder(f"{TRASH}/{made}", make=True):
            pass
        _note(top, made, paths)  # before anything moves: what is here can be brought back
        refused = []
        for number, path in enumerate(paths):
            try:
                top.rename(path, f"{TRASH}/{made}/{number}", replace=False)
            except FAILURES as error:
                refused.append(names.refused(path, error))
        if len(refused) == len(paths):
            _forget(top, made)
            raise Refusal(409, refused[0]["code"], refused[0]["detail"])
    return {"id": made, "deleted": len(paths) - len(refused), "refused": refused, "undo_s": KEPT_S}


def bring_back(tree: Tree, trash_id: str) -> dict[str, Any]:
    """Put things back where they were; beside what took their names meanwhile."""
    if not _ID.fullmatch(trash_id):
        raise _gone()
    with tree.writable() as top:
        back = []
        for number, path in enumerate(_noted(top, trash_id)):
            source = f"{TRASH}/{trash_id}/{number}"
            with contextlib.suppress(FileNotFoundError):
                top.stat(source)
                with top.folder(names.split(path)[0], make=True):
                    pass
                back.append(place(path, "keep-both", partial(top.rename, source, replace=False)))
        _forget(top, trash_id)
    return {"restored": [names.shown(path) for path in back]}


def remove(tree: Tree, paths: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Delete for good; yields how far it is. What is refused by the file system is named."""
    with tree.writable() as top:
        beat, files, refused = Beat(), 0, []
        for path in paths:
            folder, name = names.split(path)
            try:
                with top.folder(folder) as parent:
                    for _one in take_down(parent, name):
                        files += 1
                        if beat():
                            yield {"progress": {"files": files}}
            except FAILURES as error:
                refused.append(names.refused(path, error))
        yield {"done": {"files": files, "refused": refused}}


def purge(tree: Tree) -> int:
    """Remove what was set aside long enough ago; return how many things went."""
    if tree.read_only:
        return 0
    gone, limit = 0, time.time() - KEPT_S
    with contextlib.suppress(OSError, Refusal), tree.writable() as top:
        for name in [entry.name for entry in islice(top.entries(TRASH), MOST_PURGED)]:
            with contextlib.suppress(OSError):
                if top.stat(f"{TRASH}/{name}").st_mtime < limit:
                    with top.folder(TRASH) as parent:
                        gone += sum(1 for _one in take_down(parent, name))
    return gone


def take_down(parent: Folder, name: str) -> Iterator[str]:
    """Remove a tree of any size and depth, holding few folders open.

    A folder that lies too deep is first moved up, so the depth that a tenant made costs nothing.
    """
    waiting = [name]
    while waiting:
        yield from _one_tree(parent, waiting.pop(), waiting)


def _one_tree(parent: Folder, name: str, waiting: list[str]) -> Iterator[str]:
    info = os.stat(name, dir_fd=parent.fd, follow_symlinks=False)
    if not stat.S_ISDIR(info.st_mode):
        os.unlink(name, dir_fd=parent.fd)
        yield name
        return
    stack = [(parent.fd, name, -1)]  # (folder above, its name there, opened as)
    try:
        while stack:
            above, here, fd = stack[-1]
            if fd < 0:
                fd = os.open(here, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=above)
                stack[-1] = (above, here, fd)
            below = yield from _empty(fd)
            if not below:
                stack.pop()
                os.close(fd)
                os.rmdir(here, dir_fd=above)
                yield here
            elif len(stack) < _DEEP:
                stack.append((fd, below, -1))
            else:
                moved = f".berth-deep-{secrets.token_hex(8)}"
                os.rename(below, moved, src_dir_fd=fd, dst_dir_fd=parent.fd)
                waiting.append(moved)
    finally:
        for _above, _here, fd in stack:
            if fd >= 0:
                os.close(fd)


def _empty(fd: int) -> Generator[str, None, str]:
    """Remove the files of an open folder; return the name of one folder in it, or ''."""
    with os.scandir(fd) as found:
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                return entry.name
            os.unlink(entry.name, dir_fd=fd)
            yield entry.name
    return ""


def _note(top: Folder, made: str, paths: Sequence[str]) -> None:
    fd = top.open(f"{TRASH}/{made}/{_NOTE}", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(fd, "w") as file:
        json.dump([names.shown(path) for path in paths], file)


def _noted(top: Folder, trash_id: str) -> list[str]:
    """Where things were. The note lies where the tenant can write: its paths are checked."""
    try:
        fd, _info = top.open_file(f"{TRASH}/{trash_id}/{_NOTE}")
    except OSError:
        raise _gone() from None
    with os.fdopen(fd, "rb") as file:
        try:
            said = json.loads(file.read(4 * 1024 * 1024))
            return [names.item_of(str(path)) for path in said]
        except (ValueError, TypeError, RecursionError):
            raise _gone() from None


def _forget(top: Folder, trash_id: str) -> None:
    """Let go of an empty place; what could not be put back stays until it is purged."""
    with contextlib.suppress(OSError):
        left = [e.name for e in islice(top.entries(f"{TRASH}/{trash_id}"), 2)]
        if left in ([], [_NOTE]):
            top.unlink(f"{TRASH}/{trash_id}/{_NOTE}")
            top.rmdir(f"{TRASH}/{trash_id}")


def _gone() -> Refusal:
    return Refusal(404, "no-undo", "This was deleted for good already.")


__all__ = ["bring_back", "purge", "remove", "set_aside", "take_down"]


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
            except (Refusal, *FAILURES) as error:
                refused.append(names.refused(path, error))
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
            except (Refusal, *FAILURES) as error:
                refused.append(names.refused(path, error))
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
            while count := _copied_part(source, target):
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


def _copied_part(source: int, target: int) -> int:
    """Copy a part inside the kernel (or the NFS server) where that is possible."""
    try:
        return os.copy_file_range(source, target, PART)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
            raise
    data = os.read(source, PART)
    write_all(target, data)
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
