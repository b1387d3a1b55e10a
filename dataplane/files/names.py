"""Paths as they travel, names as people see them, and what is refused.

A path is percent-encoded bytes relative to the volume, because a name may hold anything but NUL
and ``/``. Inside it is a ``str`` as ``os.fsdecode`` makes it. A refusal is a word for programs, a
status and a short English sentence; the gate puts it into the reader's language by the word.
"""

from __future__ import annotations

import errno
import os
from typing import Any
from urllib.parse import quote_from_bytes, unquote_to_bytes

from dataplane.safepath import NAME_MAX, PATH_MAX, UnsafePath, is_own, parts_of


class Refusal(Exception):  # noqa: N818 - raised as an answer
    def __init__(self, status: int, code: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.more = status, code, detail, more

    def as_json(self) -> dict[str, Any]:
        return {"code": self.code, "detail": self.detail, **self.more}


_BY_ERRNO: dict[int, tuple[int, str, str]] = {
    errno.ENOENT: (404, "missing", "There is nothing of this name."),
    errno.ENOTDIR: (409, "not-folder", "This is not a folder."),
    errno.EISDIR: (409, "is-folder", "This is a folder."),
    errno.ELOOP: (403, "link", "This leads through a link; links are never followed."),
    errno.EXDEV: (403, "link", "This leads out of the volume."),
    errno.EACCES: (403, "denied", "The file system does not allow this."),
    errno.EPERM: (403, "denied", "The file system does not allow this."),
    errno.EROFS: (403, "read-only", "The volume is read-only here."),
    errno.EEXIST: (409, "exists", "Something of this name is there already."),
    errno.ENOTEMPTY: (409, "exists", "Something of this name is there already."),
    errno.ENAMETOOLONG: (400, "too-long", "This name or path is too long."),
    errno.ENOSPC: (507, "disk-full", "The volume is full; nothing was changed."),
    errno.EDQUOT: (507, "quota", "The volume's limit is reached; nothing was changed."),
    errno.EFBIG: (413, "too-large", "The file system can't hold a file of this size."),
    errno.EINVAL: (409, "not-possible", "The file system can't do this here."),
    errno.ETXTBSY: (409, "in-use", "This is in use."),
    errno.EBUSY: (409, "in-use", "This is in use."),
    errno.EIO: (503, "io", "The storage reports an error."),
    errno.ESTALE: (503, "io", "The storage lost sight of this; try again."),
    errno.ETIMEDOUT: (503, "io", "The storage does not answer."),
}


# What the file system, or the way to it, refuses.
FAILURES = (OSError, UnsafePath)


def of_error(error: Refusal | OSError | UnsafePath) -> Refusal:
    """Return what a failed call to the file system means; never a path of this machine."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, UnsafePath):  # requests are checked before: what is made of them is long
        return Refusal(*_BY_ERRNO[errno.ENAMETOOLONG])
    status, code, detail = _BY_ERRNO.get(
        error.errno or 0, (503, "io", "The storage reports an error.")
    )
    return Refusal(status, code, detail)


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


def refused(path: str, error: Refusal | OSError | UnsafePath) -> dict[str, Any]:
    """Return what is told of one thing among several that it was refused for."""
    return {"path": shown(path), **of_error(error).as_json()}


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
