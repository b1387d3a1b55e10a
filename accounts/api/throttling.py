"""The API's limits; the counting is in ``accounts.fair_use``."""

from typing import Any

from rest_framework.throttling import BaseThrottle

from accounts import fair_use
from common.middleware import client_ip


class FairUseThrottle(BaseThrottle):
    """Keyed on the person, else on the peer's address; never on a header."""

    def __init__(self) -> None:
        self._wait = 0.0

    def allow_request(self, request: Any, view: Any) -> bool:  # noqa: ARG002
        plain = request._request  # noqa: SLF001 - the counter must be released on the real one
        who = getattr(plain, "principal", None)
        key = f"user:{who.user.pk}" if who is not None else f"ip:{client_ip(plain)}"
        self._wait = fair_use.enter(plain, key)
        return self._wait == 0.0

    def wait(self) -> float:
        return self._wait
