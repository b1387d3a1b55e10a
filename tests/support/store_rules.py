"""What goes wrong between a load and a real store, as rules of a front (``store.front(rules=…)``).

What no real server can be brought to do (hostile keys, listings without end) is in
``hostile_store``.
"""

from __future__ import annotations

import datetime as dt
import itertools
from email.utils import format_datetime
from xml.sax.saxutils import escape

from tests.support.store_front import Answer, Request, Rule, Spoil

XML = {"content-type": "application/xml"}
SKEW_ALLOWED_S = 900  # S3's own


def s3_error(status: int, code: str, message: str = "") -> Answer:
    text = f"<Code>{code}</Code><Message>{escape(message or code)}</Message>"
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{text}<RequestId>1</RequestId></Error>'
    return Answer(status, body.encode(), XML)


def wrong_clock(offset_s: float) -> Rule:
    """The store's clock, as seen from here: it refuses signatures that look too old or too new."""

    def rule(request: Request) -> Answer | Spoil:
        now = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=offset_s)
        date = {"date": format_datetime(now, usegmt=True)}
        signed = request.headers.get("x-amz-date")
        if signed is None:
            return Spoil(headers=date)
        at = dt.datetime.strptime(signed, "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)
        if abs((at - now).total_seconds()) <= SKEW_ALLOWED_S:
            return Spoil(headers=date)
        message = "The difference between the request time and the current time is too large."
        told = s3_error(403, "RequestTimeTooSkewed", message)
        return Answer(told.status, told.body, {**told.headers, **date})

    return rule


def every_nth(n: int, told: Answer | Spoil) -> Rule:
    """A store that has bad moments: of all requests, listings too."""
    seen = itertools.count(1)
    return lambda request: told if next(seen) % n == 0 else None


def changed_bytes(key: str) -> Rule:
    """The first byte of each block of this object arrives as another one."""

    def change(block: bytes) -> bytes:
        return bytes([block[0] ^ 1]) + block[1:]

    def rule(request: Request) -> Spoil | None:
        is_described = "/storage/v1/" in request.path and request.query.get("alt") != "media"
        is_body = request.path.endswith(key) and not is_described
        return Spoil(change=change) if is_body else None

    return rule
