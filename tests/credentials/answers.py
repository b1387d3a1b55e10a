"""What a store of the tests answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import Any

from botocore.awsrequest import AWSRequest

from dataplane.s3_client import Keys, _Signer
from tests.common.conftest import say
from tests.credentials import samples

BUCKETS = b"<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>"


def error(code: str, status: int = 403, **headers: str) -> Callable[..., None]:
    """A refusal as a store writes it: full of what must not be passed on."""
    body = (
        f"<Error><Code>{code}</Code><Message>{samples.COMPATIBLE_SECRET}</Message>"
        "<StringToSign>AWS4-HMAC-SHA256</StringToSign></Error>"
    )
    return say(body.encode(), status, **headers)


def by_secret(right: Any, wrong: Any) -> Callable[[BaseHTTPRequestHandler], None]:
    """A store that knows one pair: it computes the signature, as a real one does."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        host, at = handler.headers["Host"], handler.headers["x-amz-date"]
        request = AWSRequest("GET", f"http://{host}{handler.path}")
        when = datetime.strptime(at, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        keys = Keys("loader", samples.COMPATIBLE_SECRET, samples.TOKEN)
        _Signer(keys, "us-east-1", when.timestamp).sign(request)
        expected = request.headers["Authorization"]
        (right if handler.headers["Authorization"] == expected else wrong)(handler)

    return answer
