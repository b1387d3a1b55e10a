"""Signs what moves bodies from and to S3 (AWS Signature Version 4), as botocore does it.

By hand for one reason: 5 µs instead of 65 µs, where all of reading a small object takes 70. The
day's key and everything that repeats are kept. The tests compare it with botocore's.
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


class Signer:
    """Signs for one credential, region and host."""

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
        self._session_token = session_token
        self._clock = clock
        self._second = -1
        self._stamp = ""
        self._day = ""
        self._key = b""
        self._scope = ""

    def signed(
        self, path: str, headers: dict[str, str], method: str = "GET", payload: str = EMPTY
    ) -> dict[str, str]:
        """Return all headers of a question without a query. Their names are in small letters."""
        second = int(self._clock())
        if second != self._second:
            self._second = second
            self._stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
            if self._stamp[:8] != self._day:
                self._day = day = self._stamp[:8]
                self._key = self._secret
                for piece in (day, self._region, "s3", "aws4_request"):
                    self._key = hmac.digest(self._key, piece.encode(), "sha256")
                self._scope = f"{day}/{self._region}/s3/aws4_request"
        stamp = self._stamp
        fields = {**headers, "x-amz-content-sha256": payload, "x-amz-date": stamp}
        if self._session_token:
            fields["x-amz-security-token"] = self._session_token
        names = sorted(n for n in fields if n == "host" or n.startswith(("x-amz-", "content-md5")))
        listed = ";".join(names)
        lines = "".join([f"{name}:{fields[name].strip()}\n" for name in names])
        request = f"{method}\n{path}\n\n{lines}\n{listed}\n{payload}"
        to_sign = (
            f"AWS4-HMAC-SHA256\n{stamp}\n{self._scope}\n{_sha256(request.encode()).hexdigest()}"
        )
        signature = hmac.digest(self._key, to_sign.encode(), "sha256").hex()
        fields["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self._access_key}/{self._scope}, "
            f"SignedHeaders={listed}, Signature={signature}"
        )
        return fields
