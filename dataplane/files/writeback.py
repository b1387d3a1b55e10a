"""Writing out what arrives while it arrives, so that little of it waits in memory.

What waits there counts as this server's memory. When its limit is full of pages that are not on
the disk yet, every thread that needs a page waits for the disk, one that lists a folder too; and
the flush at the end of an upload would take as long as the upload.
"""

from __future__ import annotations

import ctypes
import errno
import os

STEP = 8 * 1024 * 1024  # of one file: two of these wait at most
_WAIT_BEFORE, _WRITE, _WAIT_AFTER = 1, 2, 4
_libc = ctypes.CDLL(None, use_errno=True)
_OFFSET = ctypes.c_int64
_CANNOT = frozenset({errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.EOPNOTSUPP, errno.ESPIPE})


class Behind:
    """Told how much more was written; the writer waits for the disk here, and nobody else."""

    def __init__(self, fd: int, at: int) -> None:
        self._fd, self._begun, self._at = fd, at, at

    def wrote(self, count: int) -> None:
        self._at += count
        while self._at - self._begun >= STEP:
            _sync(self._fd, self._begun, STEP, _WRITE)
            self._finish(self._begun - STEP)
            self._begun += STEP

    def _finish(self, start: int) -> None:
        """Wait until it is written and let go of its pages: nobody reads them soon."""
        if start >= 0:
            _sync(self._fd, start, STEP, _WAIT_BEFORE | _WRITE | _WAIT_AFTER)
            os.posix_fadvise(self._fd, start, STEP, os.POSIX_FADV_DONTNEED)


def _sync(fd: int, start: int, count: int, how: int) -> None:
    """An error counts here: the flush at the end does not tell one again that was told.

    Where a file system, or a filter of calls, does not know this, the kernel writes when it likes.
    """
    if not _libc.sync_file_range(fd, _OFFSET(start), _OFFSET(count), ctypes.c_uint(how)):
        return
    number = ctypes.get_errno()
    if number not in _CANNOT:
        raise OSError(number, os.strerror(number))
