"""What can go wrong: with one file, or with the whole run. Texts hold nothing secret."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from enum import StrEnum

_PRIMARY = 0xFF  # SQLite says more in the bits above


class Code(StrEnum):
    """What is wrong with one file."""

    BAD_KEY = "bad-key"
    NAME_CLASH = "name-clash"
    CHECKSUM = "checksum"
    LENGTH = "length"
    DENIED = "denied"
    GONE = "gone"
    UNREADABLE = "unreadable"  # out: the file is there, but may not be read
    TOO_LARGE = "too-large"
    IO = "io"
    CHANGED = "changed"
    UNREACHABLE = "unreachable"
    MISSING = "missing"  # verify: the manifest has it, the volume doesn't


class Final(StrEnum):
    """How a run ended."""

    DONE = "done"
    PARTIAL = "partial"
    DENIED = "denied"
    NO_BUCKET = "no-bucket"
    DISK_FULL = "disk-full"
    QUOTA = "quota"
    UNREACHABLE = "unreachable"
    REFUSED_ADDRESS = "refused-address"
    CLOSED_NETWORK = "closed-network"
    BAD_PLAN = "bad-plan"
    STOPPED = "stopped"
    ENDLESS_LISTING = "endless-listing"
    CLOCK_SKEW = "clock-skew"
    INTERNAL = "internal"


EXITS = {Final.DONE: 0, Final.PARTIAL: 3, Final.STOPPED: 5}
EXIT_FAILED = 4


def exit_of(final: Final) -> int:
    return EXITS.get(final, EXIT_FAILED)


class Stop(Exception):  # noqa: N818 - an order, not a fault of the program
    """Ends the whole run; what is done stays done."""

    def __init__(self, final: Final, message: str) -> None:
        super().__init__(message)
        self.final = final
        self.message = message
        self.uploads = 0  # that the store still holds of files that are gone here
        self.files: list[tuple[str, int]] = []  # path and size of what was copied, if it is told


def stopped() -> Stop:
    return Stop(Final.STOPPED, "Stopped. What is done is kept; a later run goes on from there.")


class Trouble(Exception):  # noqa: N818 - it is reported, not shown as a stack
    """Something is wrong with one file or one call. ``again`` says whether a retry may help."""

    def __init__(
        self, code: Code, message: str, *, again: bool = False, slow: bool = False
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.again = again
        self.slow = slow  # the store asks for fewer calls


class Denied(Trouble):
    """The store refuses a call; whether the credential or this object is meant isn't known."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.DENIED, message)


class Unknown(Trouble):
    """The store does not accept who we say we are; a fresh token may be accepted."""

    def __init__(self) -> None:
        super().__init__(Code.DENIED, "The store does not accept this credential.", again=True)


class Skewed(Trouble):
    """The store finds our clock wrong; ``at`` is its own time, if it said it."""

    def __init__(self, at: float | None) -> None:
        super().__init__(Code.IO, "The store finds this machine's clock wrong.", again=True)
        self.at = at


_ENDS = {
    errno.ENOSPC: (Final.DISK_FULL, "The volume is full."),
    errno.EDQUOT: (Final.QUOTA, "The volume's quota is reached."),
    errno.EROFS: (Final.BAD_PLAN, "The volume is mounted read-only."),
}
_CLASH = "A folder and a file would have the same name."
_NAME = "The volume's file system does not take this name."
_FILES = {
    errno.EISDIR: (Code.NAME_CLASH, _CLASH),
    errno.ENOTDIR: (Code.NAME_CLASH, _CLASH),
    errno.EEXIST: (Code.NAME_CLASH, _CLASH),
    errno.ENOTEMPTY: (Code.NAME_CLASH, _CLASH),
    errno.ELOOP: (Code.NAME_CLASH, "A link in the volume stands where a folder would be."),
    errno.ENAMETOOLONG: (Code.BAD_KEY, _NAME),
    errno.EILSEQ: (Code.BAD_KEY, _NAME),
    errno.EINVAL: (Code.BAD_KEY, _NAME),
}


def of_os(error: OSError) -> Stop | Trouble:
    """Return what an error of the file system means: a full disk ends the run."""
    number = error.errno or 0
    if number in _ENDS:
        return Stop(*_ENDS[number])
    if number in _FILES:
        return Trouble(*_FILES[number])
    return Trouble(Code.IO, f"The volume says: {error.strerror or 'input/output error'}.")


def stop_of(error: OSError) -> Stop:
    """Return how a run ends by an error of the file system."""
    meant = of_os(error)
    return meant if isinstance(meant, Stop) else Stop(Final.INTERNAL, meant.message)


def of_opening(error: OSError) -> Stop | Trouble:
    """Return why a file of the volume that was found can't be read."""
    if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ESTALE}:
        return Trouble(Code.GONE, "The file is not there any more.")
    if error.errno in {errno.EACCES, errno.EPERM}:
        return Trouble(Code.UNREADABLE, "The file may not be read.")
    return of_os(error)


def trouble_of(error: OSError, means: Callable[[OSError], Stop | Trouble] = of_os) -> Trouble:
    """Return what is wrong with one file; raise where the error ends the run."""
    meant = means(error)
    if isinstance(meant, Stop):
        raise meant from None
    return meant


def of_journal(error: sqlite3.Error, write: Callable[[], None]) -> Stop:
    """Return what an error of the journal means.

    SQLite says "disk I/O error" of a full disk, a quota and a broken disk alike: what is meant
    is found out by writing something beside it.
    """
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    if code == sqlite3.SQLITE_FULL:
        return Stop(*_ENDS[errno.ENOSPC])
    if code != sqlite3.SQLITE_IOERR:
        return Stop(Final.INTERNAL, "The journal of this load can't be written.")
    try:
        write()
    except OSError as trouble:
        return stop_of(trouble)
    return Stop(Final.INTERNAL, f"The volume failed at the journal of this load ({error}).")


def shown(key: str | bytes, limit: int = 1024) -> str:
    """Return a key as it can be shown: what is not printable is escaped."""
    text = key.decode("utf-8", "backslashreplace") if isinstance(key, bytes) else key
    if not text.isprintable():
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= limit else text[:limit] + "…"
