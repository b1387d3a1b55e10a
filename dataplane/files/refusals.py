"""What is refused, as a word for programs, a status and a short English sentence.

The gate puts the sentence into the reader's language by the word.
"""

from __future__ import annotations

import errno
from typing import Any

from dataplane.safepath import UnsafePath


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


def of_error(error: OSError | UnsafePath) -> Refusal:
    """Return what a failed call to the file system means; never a path of this machine."""
    if isinstance(error, UnsafePath):  # requests are checked before: what is made of them is long
        return Refusal(*_BY_ERRNO[errno.ENAMETOOLONG])
    status, code, detail = _BY_ERRNO.get(
        error.errno or 0, (503, "io", "The storage reports an error.")
    )
    return Refusal(status, code, detail)
