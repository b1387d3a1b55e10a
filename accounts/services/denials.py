"""Refusals are events too, but nobody may flood the log by being refused."""

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any
from uuid import UUID

import structlog

from accounts.principal import Principal
from common.clock import now
from events import services as events

_log = structlog.get_logger(__name__)
_PER_SOURCE = 10  # events a minute, process, verb and source
_ALL_SOURCES = 120  # events a minute and process
_MAX_SOURCES = 4096


@dataclass(frozen=True)
class _Nobody:
    uid: UUID | None = None
    username: str = ""


@dataclass(frozen=True)
class Visitor:
    """An actor who did not sign in: only his address is known."""

    ip: str
    user: _Nobody = _Nobody()
    token: None = None


class _Minute:
    """Counts of the running minute, in memory; bounded."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._minute = 0
        self._total = 0
        self._sources: OrderedDict[tuple[str, str], int] = OrderedDict()

    def admit(self, verb: str, source: str) -> bool:
        minute = int(now().timestamp() // 60)
        with self._lock:
            if minute != self._minute:
                self._minute, self._total = minute, 0
                self._sources.clear()
            key = (verb, source)
            count = self._sources.get(key, 0)
            if count >= _PER_SOURCE or self._total >= _ALL_SOURCES:
                return False
            if len(self._sources) >= _MAX_SOURCES:
                self._sources.popitem(last=False)
            self._sources[key] = count + 1
            self._total += 1
            return True


_minute = _Minute()


def record_denied(
    *,
    verb: str,
    ip: str,
    who: Principal | None = None,
    message: str = "",
    name: str = "",
    project_uid: UUID | None = None,
    data: dict[str, Any] | None = None,
) -> bool:
    """Record a refusal unless this source was refused often in this minute already.

    ``name`` is what a stranger typed: it is cut and stripped of control characters.
    """
    source = str(who.user.pk) if who else ip
    if not _minute.admit(verb, source):
        return False
    shown = "".join(c if c.isprintable() else "?" for c in name[:80])
    _log.warning("denied", verb=verb, ip=ip, name=shown, reason=message[:200])
    events.record(
        actor=who or Visitor(ip=ip),
        verb=verb,
        target_kind="user" if name else "",
        target_name=shown,
        message=message,
        outcome="denied",
        project_uid=project_uid,
        data=data,
    )
    return True
