"""Counts what a gateway carried, by minute, row and caller, from HAProxy's line of each request."""

from __future__ import annotations

from dataclasses import dataclass, field

from serving.latency import bucket_of, merged

SUMS = (
    *("requests", "refused", "client_errors", "server_errors"),
    *("seconds", "bytes_in", "bytes_out"),
)
REFUSED, CLIENT_ERROR, SERVER_ERROR = 429, 400, 500


@dataclass(frozen=True)
class Slice:
    minute: int  # seconds since 1970, of its begin
    endpoint: str
    row: str  # empty: it came to none
    word: str


@dataclass
class Sums:
    """What is added up of requests: ``SUMS`` and, beside them, how long they took."""

    requests: int = 0
    refused: int = 0
    client_errors: int = 0
    server_errors: int = 0
    seconds: float = 0.0
    bytes_in: int = 0
    bytes_out: int = 0
    histogram: dict[int, int] = field(default_factory=dict)

    def join(self, other: Sums) -> None:
        for name in SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.histogram = merged((self.histogram, other.histogram))


@dataclass
class Count(Sums):
    latest: float = 0.0  # when the last of them ended


class Counts:
    """Adds up lines until somebody takes them."""

    def __init__(self) -> None:
        self._by_slice: dict[Slice, Count] = {}

    def add(self, line: str, now: float, times: int = 1) -> None:
        """Count requests that had this line; one of nobody (no key, no such endpoint) has none."""
        try:
            word, endpoint, row, status, took_ms, bytes_in, bytes_out, ended = line.split()
            code, seconds = int(status), max(0, int(took_ms)) / 1000
            received, sent = int(bytes_in), int(bytes_out)
        except ValueError:
            return
        if word == "-" or endpoint == "-":
            return
        part = Slice(int(now // 60 * 60), endpoint, "" if row == "-" else row, word)
        count = self._by_slice.setdefault(part, Count())
        count.latest = max(count.latest, now)
        count.bytes_in += times * received
        count.bytes_out += times * sent
        if code == REFUSED and row == "-":
            count.refused += times
            return
        count.requests += times
        count.seconds += times * seconds
        bucket = bucket_of(seconds)
        count.histogram[bucket] = count.histogram.get(bucket, 0) + times
        if code >= SERVER_ERROR or (ended[0] in "Ss" and row != "-"):
            count.server_errors += times
        elif code >= CLIENT_ERROR:
            count.client_errors += times

    def take(self) -> dict[Slice, Count]:
        taken, self._by_slice = self._by_slice, {}
        return taken
