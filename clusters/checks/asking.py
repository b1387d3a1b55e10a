"""The driver's client as checks use it: a status is an answer, never an exception."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusters.checks.base import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

MANAGER = "berth-check"


class ClientAsker:
    """``method`` "APPLY" is a server-side apply."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Answer:
        from runtime.drivers.kubernetes import client as wire

        kind, asked = wire.JSON, dict(params or {})
        if method == "APPLY":
            method, kind = "PATCH", wire.APPLY
            asked |= {"fieldManager": MANAGER, "force": "true"}
        found = self._client.request(method, path, asked, body, kind)
        parsed = found.json()
        return Answer(
            status=found.status,
            body=parsed if isinstance(parsed, dict) else {"message": found.message},
            headers={name.lower(): value for name, value in found.headers.items()},
        )

    def close(self) -> None:
        self._client.close()
