"""Signs requests to S3 (AWS Signature Version 4); compared with botocore's in the tests.

One signature costs 15 µs: the day's key and everything that repeats are kept.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from urllib.parse import quote

UNSIGNED = "UNSIGNED-PAYLOAD"
EMPTY = hashlib.sha256(b"").hexdigest()
_SAFE = "-._~"
_sha256 = hashlib.sha256


def quoted(text: str, keep: str = "/") -> str:
    """Percent-encode as the signature wants it."""
    return quote(text, safe=_SAFE + keep)


def query_of(pairs: dict[str, str]) -> str:
    """Return the canonical query: sorted and encoded."""
    return "&".join(sorted(f"{quoted(k, '')}={quoted(v, '')}" for k, v in pairs.items()))


class Signer:
    """Signs for one credential, region and host. ``skew`` is what the store's clock is ahead."""

    def __init__(
        self,
        access_key: str,
        secret_key: str,
        region: str,
        *,
        session_token: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._access_key = access_key
        self._secret = f"AWS4{secret_key}".encode()
        self._region = region
        self.session_token = session_token
        self._clock = clock
        self.skew = 0.0
        self._second = -1
        self._stamp = ""
        self._day = ""
        self._key = b""
        self._scope = ""

    def signed(
        self, method: str, path: str, query: str, headers: dict[str, str], payload: str
    ) -> dict[str, str]:
        """Return all headers to send. Names in ``headers`` are in small letters."""
        stamp = self._now()
        fields = {**headers, "x-amz-content-sha256": payload, "x-amz-date": stamp}
        if self.session_token:
            fields["x-amz-security-token"] = self.session_token
        names = sorted(n for n in fields if n == "host" or n.startswith(("x-amz-", "content-md5")))
        listed = ";".join(names)
        lines = "".join([f"{name}:{fields[name].strip()}\n" for name in names])
        request = f"{method}\n{path}\n{query}\n{lines}\n{listed}\n{payload}"
        to_sign = (
            f"AWS4-HMAC-SHA256\n{stamp}\n{self._scope}\n{_sha256(request.encode()).hexdigest()}"
        )
        signature = hmac.digest(self._key, to_sign.encode(), "sha256").hex()
        fields["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self._access_key}/{self._scope}, "
            f"SignedHeaders={listed}, Signature={signature}"
        )
        return fields

    def now(self) -> float:
        return self._clock()

    def _now(self) -> str:
        second = int(self.now() + self.skew)
        if second != self._second:
            self._second = second
            self._stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
            if self._stamp[:8] != self._day:
                self._new_day(self._stamp[:8])
        return self._stamp

    def _new_day(self, day: str) -> None:
        self._day = day
        key = self._secret
        for piece in (day, self._region, "s3", "aws4_request"):
            key = hmac.digest(key, piece.encode(), "sha256")
        self._key = key
        self._scope = f"{day}/{self._region}/s3/aws4_request"
