"""When and from where a session was last seen: at most one write a minute and session."""

import time
from collections import OrderedDict
from ipaddress import ip_address
from threading import Lock

from allauth.usersessions.models import UserSession
from django.http import HttpRequest

from common.clock import now
from common.middleware import client_ip

_EVERY = 60.0
_MOST = 20_000  # sessions remembered by this process
_seen: OrderedDict[str, float] = OrderedDict()
_lock = Lock()


def note(request: HttpRequest) -> None:
    """Write the session down if this process has not done so within the last minute."""
    key = request.session.session_key
    if not key or not _is_due(key):
        return
    changed = UserSession.objects.filter(session_key=key).update(
        last_seen_at=now(), ip=stored_ip(request)
    )
    if not changed:
        UserSession.objects.create_from_request(request)


def stored_ip(request: HttpRequest) -> str:
    """Return an address that the column takes; a Unix socket or nonsense is 0.0.0.0."""
    ip = client_ip(request).partition("%")[0]
    try:
        return str(ip_address(ip))
    except ValueError:
        return "0.0.0.0"  # noqa: S104 - stands for "unknown", nothing listens


def forget() -> None:
    """For tests."""
    with _lock:
        _seen.clear()


def _is_due(key: str) -> bool:
    at = time.monotonic()
    with _lock:
        if at - _seen.get(key, -_EVERY) < _EVERY:
            return False
        _seen[key] = at
        _seen.move_to_end(key)
        if len(_seen) > _MOST:
            _seen.popitem(last=False)
        return True
