"""Reading what a workload wrote: bounded parts by offset, through the driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.utils.translation import gettext as _

from clusters.registry import driver_for
from common.errors import Conflict, Unavailable
from runtime.capabilities import SupportsLogs
from runtime.protocol import DriverError, Unreachable

PART = 64 * 1024
TAIL = 256 * 1024
MAX_DOWNLOAD = 64 * 1024 * 1024
_SCAN = 256 * 1024


@dataclass(frozen=True)
class LogPart:
    """``next_offset`` is where to go on; the same as the offset asked: nothing new yet."""

    data: bytes
    offset: int
    next_offset: int

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")


Read = Callable[..., LogPart]  # by ``offset`` and ``limit``


def log_read(
    cluster_key: str, uid: str, *, offset: int = 0, limit: int = PART, replica: int = 0
) -> LogPart:
    """Return one part of the log. Takes plain values: a stream holds no row."""
    try:
        driver = driver_for(cluster_key)
        if not isinstance(driver, SupportsLogs):
            raise Conflict(_("This cluster keeps no logs."), code="no-logs")
        data, following = driver.read_log(uid, offset=offset, limit=limit, replica=replica)
    except Unreachable as error:
        raise Unavailable(_("What it runs on does not answer; its logs are kept there.")) from error
    except DriverError as error:
        raise Unavailable(str(error)) from error
    return LogPart(data, offset, following)


def log_tail(read: Read, *, limit: int = TAIL) -> LogPart:
    """Return the end of the log, at most ``limit`` bytes of it."""
    offset, kept = 0, b""
    while True:
        part = read(offset=offset, limit=_SCAN)
        kept = (kept + part.data)[-limit:]
        if part.next_offset == offset or not part.data:
            return LogPart(kept, max(0, part.next_offset - len(kept)), part.next_offset)
        offset = part.next_offset
