"""One JSON object per line, both ways. Shared by the supervisor and its client."""

import json
from typing import Any

LINE_LIMIT = 8 * 1024 * 1024  # a request; answers may be longer
HEARTBEAT_S = 10.0


def encode(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    message = json.loads(line)
    if not isinstance(message, dict):
        raise TypeError("a message is one JSON object")
    return message


class Refused(Exception):  # noqa: N818 - it is an answer, carried over the wire by its kind
    """A request that can't be done; ``kind`` becomes the driver's exception."""

    def __init__(
        self, kind: str, message: str, *, reason: str = "", retry_in: float | None = None
    ) -> None:
        super().__init__(message)
        self.kind, self.reason, self.retry_in = kind, reason, retry_in

    def answer(self) -> dict[str, Any]:
        return {
            "error": self.kind,
            "message": str(self),
            "reason": self.reason,
            "retry_in": self.retry_in,
        }
