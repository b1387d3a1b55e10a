"""How the libraries of stores ask in a test: by the one way out, which remembers the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from common.outbound import Client
from dataplane.sending import Received

_OURS = frozenset({"host", "user-agent", "accept-encoding", "connection"})


class Asking:
    """Sends for a library; ``last`` is what came last."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.last = Received(0, {}, b"")

    def __call__(self, method: str, url: str, headers: Mapping[str, str], body: Any) -> Received:
        answer = self._client.request(
            method,
            url,
            headers={name: value for name, value in headers.items() if name.lower() not in _OURS},
            content=body,
            insecure=url.startswith("http://"),
        )
        self.last = Received(answer.status, answer.headers, answer.body)
        return self.last
