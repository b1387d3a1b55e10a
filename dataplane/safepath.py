"""Files below one folder, and never anywhere else, whatever the names say and whoever moves them.

A tenant may swap a folder for a link while a program walks through it, so a path that was checked
is worth nothing. Here the kernel resolves: ``openat2`` with ``RESOLVE_BENEATH``, no links and no
magic links; where a kernel (or its filter) has no ``openat2``, component by component with
``O_NOFOLLOW``. Everything else is done relative to a folder that was opened in this way, and never
follows a link in the last component.

Names are ``str`` as ``os.fsdecode`` makes them: bytes that are no UTF-8 are kept as surrogates.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

NAME_MAX = 255  # bytes of one component
PATH_MAX = 4095
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_OPENAT2 = 437  # the same number on every architecture
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_NOREPLACE = 1
_RETRIES = 32  # openat2 answers EAGAIN while something is renamed beside it
_libc = ctypes.CDLL(None, use_errno=True)
OWN = ".berth"
MOST_BYTES = 128 * 1024 * 1024  # a million folders with paths of 70 letters
_PLACE = 16  # what a list takes for one entry, with what it keeps free


class Flaw(StrEnum):
    """Why a relative path can't be used."""

    EMPTY = "empty"
    ABSOLUTE = "absolute"
    DOTS = "dots"
    NUL = "nul"
    LONG = "long"


class UnsafePath(ValueError):  # noqa: N818 - reads as a sentence where it is raised
    def __init__(self, flaw: Flaw) -> None:
        super().__init__(f"not a relative path below the folder ({flaw})")
        self.flaw = flaw


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def parts_of(relative: str) -> tuple[str, ...]:
    """Return the components of ``a/b/c``; raise where it is not plainly below. "" has none."""
    if not relative:
        return ()
    if "\0" in relative:
        raise UnsafePath(Flaw.NUL)
    if relative.startswith("/"):
        raise UnsafePath(Flaw.ABSOLUTE)
    parts = tuple(relative.split("/"))
    for part in parts:
        if not part:
            raise UnsafePath(Flaw.EMPTY)
        if part in {".", ".."}:
            raise UnsafePath(Flaw.DOTS)
        if len(part) > NAME_MAX // 4 and len(os.fsencode(part)) > NAME_MAX:
            raise UnsafePath(Flaw.LONG)
    if len(relative) > PATH_MAX // 4 and len(os.fsencode(relative)) > PATH_MAX:
        raise UnsafePath(Flaw.LONG)
    return parts


def open_beneath(folder: int, relative: str, flags: int, mode: int = 0o666) -> int:
    """Open ``relative`` below the open ``folder``; a link anywhere in it is an ``OSError``."""
    parts = parts_of(relative)
    if not parts:
        return os.open(".", flags, mode, dir_fd=folder)
    if _has_openat2():
        return _openat2(folder, relative, flags, mode)
    here = os.dup(folder)
    try:
        for part in parts[:-1]:
            below = os.open(part, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = below
        return os.open(parts[-1], flags | os.O_NOFOLLOW, mode, dir_fd=here)
    finally:
        os.close(here)


@dataclass
class Folder:
    """An open folder; every path given to it is relative and stays below. A context manager."""

    fd: int

    @classmethod
    def at(cls, path: str | Path) -> Self:
        """Open a folder by a path that the caller vouches for (links in it are followed)."""
        return cls(os.open(path, FOLDER_FLAGS))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def open(self, relative: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
        """Return a file descriptor. The caller checks its kind: it may be a device or a pipe."""
        return open_beneath(self.fd, relative, flags | os.O_CLOEXEC, mode)

    def open_file(self, relative: str) -> tuple[int, os.stat_result]:
        """Open a regular file for reading without waiting on a pipe; else ``OSError``."""
        fd = self.open(relative, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "not a regular file", relative)
        return fd, seen

    def folder(self, relative: str = "", *, make: bool = False, mode: int = 0o777) -> Folder:
        """Open a folder below; ``make`` makes it and what is missing above it."""
        try:
            return Folder(open_beneath(self.fd, relative, FOLDER_FLAGS))
        except FileNotFoundError:
            if not make:
                raise
        here = Folder(os.open(".", FOLDER_FLAGS, dir_fd=self.fd))
        for part in parts_of(relative):
            with here:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, mode, dir_fd=here.fd)
                here = Folder(open_beneath(here.fd, part, FOLDER_FLAGS))
        return here

    def stat(self, relative: str) -> os.stat_result:
        """Say what is there itself: a link is a link."""
        parent, name = self._parent(relative)
        with parent:
            return os.stat(name, dir_fd=parent.fd, follow_symlinks=False)

    def entries(self, relative: str = "") -> Iterator[os.DirEntry[str]]:
        """Yield what is in a folder, in no order; ask entries with ``follow_symlinks=False``."""
        with self.folder(relative) as folder, os.scandir(folder.fd) as found:
            yield from found

    def make(self, relative: str, mode: int = 0o777) -> None:
        """Make one folder; ``FileExistsError`` when something is there."""
        parent, name = self._parent(relative)
        with parent:
            os.mkdir(name, mode, dir_fd=parent.fd)

    def rename(self, old: str, new: str, *, replace: bool = True) -> None:
        """Move within the folder, atomically; without ``replace`` nothing is written over."""
        before, old_name = self._parent(old)
        with before:
            after, new_name = self._parent(new)
            with after:
                if replace:
                    os.rename(old_name, new_name, src_dir_fd=before.fd, dst_dir_fd=after.fd)
                else:
                    rename_new(before.fd, old_name, after.fd, new_name)

    def unlink(self, relative: str) -> None:
        parent, name = self._parent(relative)
        with parent:
            os.unlink(name, dir_fd=parent.fd)

    def rmdir(self, relative: str) -> None:
        parent, name = self._parent(relative)
        with parent:
            os.rmdir(name, dir_fd=parent.fd)

    def _parent(self, relative: str) -> tuple[Folder, str]:
        parts = parts_of(relative)
        if not parts:
            raise UnsafePath(Flaw.EMPTY)
        return self.folder("/".join(parts[:-1])), parts[-1]


def rename_new(old_folder: int, old: str, new_folder: int, new: str) -> None:
    """Move to a name that is free, or raise ``FileExistsError``.

    A file system that can't promise it (NFS) is asked whether the name is free just before.
    """
    wrong = _libc.renameat2(old_folder, os.fsencode(old), new_folder, os.fsencode(new), _NOREPLACE)
    number = ctypes.get_errno() if wrong else 0
    if number in {errno.EINVAL, errno.ENOSYS, errno.EPERM}:
        try:
            os.stat(new, dir_fd=new_folder, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(old, new, src_dir_fd=old_folder, dst_dir_fd=new_folder)
            return
        number = errno.EEXIST
    if number:
        raise OSError(number, os.strerror(number), old, None, new)


def _openat2(folder: int, relative: str, flags: int, mode: int) -> int:
    how = _How(
        flags,
        mode if flags & (os.O_CREAT | _O_TMPFILE) else 0,
        _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS,
    )
    path = os.fsencode(relative)
    number = 0
    for _ in range(_RETRIES):
        fd = int(_libc.syscall(_OPENAT2, folder, path, ctypes.byref(how), ctypes.sizeof(how)))
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number not in {errno.EAGAIN, errno.EINTR}:
            break
    raise OSError(number, os.strerror(number), relative)


_O_TMPFILE = os.O_TMPFILE & ~os.O_DIRECTORY


@functools.cache
def _has_openat2() -> bool:
    here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(_openat2(here, ".", os.O_PATH | os.O_CLOEXEC, 0))
    except OSError as error:
        # A filter of an older container engine says EPERM for a call that it does not know.
        if error.errno not in {errno.ENOSYS, errno.EPERM, errno.EINVAL}:
            raise
        return False
    finally:
        os.close(here)
    return True


def is_own(name: str) -> bool:
    """Whether a name at the top of a volume is that folder: there are volumes that fold case."""
    return name.casefold() == OWN


class Room(Protocol):
    """Bytes that several share."""

    def take(self, size: int) -> bool: ...
    def give(self, size: int) -> None: ...


class Waiting:
    """The last one that was put in comes out first, so that few wait."""

    def __init__(self, first: str, most: int = MOST_BYTES, room: Room | None = None) -> None:
        self._paths = [first]
        self._most, self._room = most, room
        self._bytes = 0  # the first one is whoever's that asks

    def __bool__(self) -> bool:
        return bool(self._paths)

    def take(self) -> str:
        path = self._paths.pop()
        if self._bytes:
            self._give(_path_size(path))
        return path

    def put(self, path: str) -> bool:
        """False when there is no room for it: what lies below it is not looked at."""
        size = _path_size(path)
        if self._bytes + size > self._most:
            return False
        if self._room is not None and not self._room.take(size):
            return False
        self._bytes += size
        self._paths.append(path)
        return True

    def close(self) -> None:
        self._give(self._bytes)

    def _give(self, size: int) -> None:
        self._bytes -= size
        if self._room is not None:
            self._room.give(size)


def _path_size(path: str) -> int:
    """A letter takes one to four bytes, by the rarest one of the path."""
    return sys.getsizeof(path) + _PLACE
