"""What can go wrong on the way out; the text is for people and holds nothing secret."""

from collections.abc import Mapping
from enum import StrEnum


class Trouble(StrEnum):
    ADDRESS = "address"  # not an address at all, or one that is written to confuse
    REFUSED = "refused"  # leads where Berth does not go
    UNKNOWN_HOST = "unknown-host"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TLS = "tls"
    TOO_LARGE = "too-large"
    PROTOCOL = "protocol"  # the other side does not speak HTTP properly


class OutboundError(Exception):
    """One answer for every way in which a request did not come to an answer."""

    def __init__(
        self, trouble: Trouble, text: str, values: Mapping[str, str | int] | None = None
    ) -> None:
        """``text`` with places for ``values``: who keeps it can say it in another language."""
        self.text, self.values = text, dict(values or {})
        self.message = text % self.values if self.values else text
        super().__init__(self.message)
        self.trouble = trouble
