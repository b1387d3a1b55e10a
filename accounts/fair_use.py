"""No caller takes a whole web process: requests per minute and at one time.

The key is the person (all his tokens and sessions together) or, for visitors, the peer's
address; nothing the caller writes into a header changes it. Counted in memory, per process:
a shared counter would cost every request a write.
"""

import time
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from rest_framework.throttling import BaseThrottle

from common.middleware import client_ip

_MOST = 20_000
_ATTRIBUTE = "_berth_fair_use"


@dataclass
class _Caller:
    tokens: float
    at: float
    running: int = 0


_callers: OrderedDict[str, _Caller] = OrderedDict()
_lock = Lock()


def enter(request: HttpRequest, key: str) -> float:
    """Count a request of ``key``; return 0, or the seconds after which to try again."""
    if getattr(request, _ATTRIBUTE, None):
        return 0.0
    rate = settings.BERTH_API_RATE / 60
    at = time.monotonic()
    with _lock:
        caller = _callers.get(key)
        if caller is None:
            caller = _callers[key] = _Caller(tokens=float(settings.BERTH_API_RATE), at=at)
            for old in list(_callers)[: max(0, len(_callers) - _MOST)]:
                if _callers[old].running == 0:
                    del _callers[old]
        _callers.move_to_end(key)
        caller.tokens = min(settings.BERTH_API_RATE, caller.tokens + (at - caller.at) * rate)
        caller.at = at
        if caller.running >= settings.BERTH_API_CONCURRENCY:
            return 1.0
        if caller.tokens < 1:
            return max(1.0, (1 - caller.tokens) / rate)
        caller.tokens -= 1
        caller.running += 1
    setattr(request, _ATTRIBUTE, key)
    return 0.0


def leave(request: HttpRequest) -> None:
    key = getattr(request, _ATTRIBUTE, None)
    if key is None:
        return
    with _lock:
        caller = _callers.get(key)
        if caller is not None and caller.running > 0:
            caller.running -= 1
    setattr(request, _ATTRIBUTE, None)


def forget() -> None:
    """For tests."""
    with _lock:
        _callers.clear()


class FairUseThrottle(BaseThrottle):
    """Keyed on the person, else on the peer's address; never on a header."""

    def __init__(self) -> None:
        self._wait = 0.0

    def allow_request(self, request: Any, view: Any) -> bool:  # noqa: ARG002
        plain = request._request  # noqa: SLF001 - the counter must be released on the real one
        who = getattr(plain, "principal", None)
        key = f"user:{who.user.pk}" if who is not None else f"ip:{client_ip(plain)}"
        self._wait = enter(plain, key)
        return self._wait == 0.0

    def wait(self) -> float:
        return self._wait
