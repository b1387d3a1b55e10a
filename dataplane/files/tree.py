"""The volume as this server sees it: opened anew for each request, links never followed.

And how what is complete gets its name, and what arrives is written out while it arrives, so that
little of it waits in memory. What waits there counts as this server's: when its limit is full of
pages that are not on the disk yet, every thread that needs a page waits for the disk, and the flush
at the end of an upload would take as long as the upload.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataplane.files import memory, names
from dataplane.files.names import Refusal
from dataplane.safepath import Folder, UnsafePath, Waiting, is_own

_TRIES = 1000  # numbers tried for a name that is free
# Memory for folders that one walk has seen and not looked into: several walk at once, in 256 MiB.
MOST_WAITING = 32 * 1024 * 1024
Move = Callable[[str], None]
POLICIES = ("refuse", "replace", "keep-both")
STEP = 8 * 1024 * 1024  # of one file: two of these wait at most
_WAIT_BEFORE, _WRITE, _WAIT_AFTER = 1, 2, 4
_libc = ctypes.CDLL(None, use_errno=True)
_OFFSET = ctypes.c_int64
_CANNOT = frozenset({errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.EOPNOTSUPP, errno.ESPIPE})


@dataclass(frozen=True)
class Found:
    """One thing below a folder, with its path from the volume's top."""

    path: str
    info: os.stat_result

    @property
    def kind(self) -> str:
        return kind_of(self.info.st_mode)


def kind_of(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISREG(mode):
        return "file"
    return "link" if stat.S_ISLNK(mode) else "other"


@dataclass(frozen=True)
class Tree:
    """``root`` may be swapped while we run (a snapshot put back), so it is opened each time."""

    root: Path
    read_only: bool = False

    @contextlib.contextmanager
    def opened(self) -> Iterator[Folder]:
        with Folder.at(self.root) as top:
            yield top

    @contextlib.contextmanager
    def writable(self) -> Iterator[Folder]:
        if self.read_only:
            raise Refusal(403, "read-only", "You may read this volume, not change it.")
        with self.opened() as top:
            yield top


def open_file(top: Folder, path: str) -> tuple[int, os.stat_result]:
    """Open a regular file for reading. A pipe or a device is never opened, only looked at."""
    seen = top.open(path, os.O_PATH | os.O_NOFOLLOW)
    try:
        info = os.fstat(seen)
        require_file(info.st_mode)
        # The same file whatever happened to its name meanwhile.
        fd = os.open(f"/proc/self/fd/{seen}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    finally:
        os.close(seen)
    return fd, info


def require_file(mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise Refusal(409, "is-folder", "This is a folder.")
    if stat.S_ISLNK(mode):
        raise Refusal(403, "link", "This is a link; links are never followed.")
    raise Refusal(409, "special", "This is not an ordinary file; it is never opened.")


def entry_json(path: str, info: os.stat_result, *, target: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": names.readable(names.split(path)[1]),
        "path": names.shown(path),
        "kind": kind_of(info.st_mode),
        "size": info.st_size,
        "modified": info.st_mtime,
    }
    if target:
        found["target"] = names.readable(target)
    return found


def walk(top: Folder, path: str, missed: Callable[[str, str], None]) -> Iterator[Found | None]:
    """Yield everything below ``path``, and None now and then so that the caller may look up.

    What can't be read, or went away meanwhile, is told to ``missed`` with a word.
    """
    with contextlib.closing(Waiting(path, MOST_WAITING, memory.LARGE)) as waiting:
        while waiting:
            here = waiting.take()
            try:
                with top.folder(here) as folder, os.scandir(folder.fd) as entries:
                    for entry in entries:
                        below = names.below(here, entry.name)
                        if is_own(below):
                            continue
                        try:
                            info = entry.stat(follow_symlinks=False)
                        except OSError:
                            continue  # it went away
                        if stat.S_ISDIR(info.st_mode) and not waiting.put(below):
                            missed(below, "too-many")
                        yield Found(below, info)
            except UnsafePath:
                missed(here, "too-long")
            except OSError:
                missed(here, "denied")
            yield None


def place(path: str, conflict: str, move: Move) -> str:
    """Call ``move(name)`` until it lands; return where. ``conflict``: refuse or keep-both.

    ``move`` raises FileExistsError where the name is taken.
    """
    try:
        move(path)
    except FileExistsError:
        if conflict != "keep-both":
            raise Refusal(409, "exists", "Something of this name is there already.") from None
    else:
        return path
    folder, name = names.split(path)
    for number in range(2, _TRIES):
        other = names.below(folder, names.numbered(name, number))
        with contextlib.suppress(FileExistsError):
            move(other)
            return other
    raise Refusal(409, "exists", "Too many things of this name are there already.")


class Beat:
    """True at most every ``every_s``, so that progress is told often enough and not more."""

    def __init__(self, every_s: float = 0.5) -> None:
        self._every_s, self._at = every_s, time.monotonic() + every_s

    def __call__(self) -> bool:
        at = time.monotonic()
        if at < self._at:
            return False
        self._at = at + self._every_s
        return True


def land(top: Folder, temporary: str, path: str, conflict: str) -> str:
    """Move what is complete to its name; folders on the way are made. Return where it is."""
    folder, _name = names.split(path)
    with top.folder(folder, make=True):
        pass
    if conflict == "replace":
        with contextlib.suppress(FileNotFoundError):
            if kind_of(top.stat(path).st_mode) == "folder":
                raise Refusal(409, "is-folder", "A folder of this name is there.")
        top.rename(temporary, path)
        return path
    return place(path, conflict, lambda to: top.rename(temporary, to, replace=False))


def policy_of(said: dict[str, Any]) -> str:
    conflict = said.get("conflict", "refuse")
    if conflict not in POLICIES:
        raise Refusal(400, "bad-request", f"conflict is one of: {', '.join(POLICIES)}.")
    return str(conflict)


def require_room(top: Folder, needed: int, room: int | None) -> None:
    """Refuse what does not fit: into the file system, or into what the limit leaves."""
    about = os.fstatvfs(top.fd)
    free = about.f_bavail * about.f_frsize
    if room is not None and needed > room:
        raise Refusal(507, "quota", "The volume's limit leaves no room for this.", room=room)
    if needed > free:
        raise Refusal(507, "disk-full", "There is not enough room on the volume.", room=free)


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class Behind:
    """Told how much more was written; the writer waits for the disk here, and nobody else."""

    def __init__(self, fd: int, at: int) -> None:
        self._fd, self._begun, self._at = fd, at, at

    def wrote(self, count: int) -> None:
        self._at += count
        while self._at - self._begun >= STEP:
            _sync(self._fd, self._begun, STEP, _WRITE)
            # wait until it is written and let go of its pages: nobody reads them soon
            start = self._begun - STEP
            if start >= 0:
                _sync(self._fd, start, STEP, _WAIT_BEFORE | _WRITE | _WAIT_AFTER)
                os.posix_fadvise(self._fd, start, STEP, os.POSIX_FADV_DONTNEED)
            self._begun += STEP


def _sync(fd: int, start: int, count: int, how: int) -> None:
    """An error counts here: the flush at the end does not tell one again that was told.

    Where a file system, or a filter of calls, does not know this, the kernel writes when it likes.
    """
    if not _libc.sync_file_range(fd, _OFFSET(start), _OFFSET(count), ctypes.c_uint(how)):
        return
    number = ctypes.get_errno()
    if number not in _CANNOT:
        raise OSError(number, os.strerror(number))
