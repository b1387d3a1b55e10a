"""boto3's client of S3, with nothing that it was not given: no environment, files or metadata."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import boto3
from botocore import UNSIGNED
from botocore.auth import SIGV4_TIMESTAMP, S3SigV4Auth
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.configprovider import BOTOCORE_DEFAUT_SESSION_VARIABLES
from botocore.credentials import Credentials
from botocore.loaders import Loader
from botocore.session import Session

from dataplane.sending import Send

_FILES = frozenset({"config_file", "credentials_file"})
_NO_KEY = "-"  # of a client that signs nothing itself: else it would look for one


@dataclass(frozen=True)
class Keys:
    access: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)


def s3_client(
    keys: Keys | None,
    send: Send,
    *,
    endpoint: str,
    region: str,
    path_style: bool,
    clock: Callable[[], float] = time.time,
) -> Any:
    """Return a client that asks once, follows nothing, and signs by ``clock``; None: anonymous."""
    # a session of defaults only: each variable is cut off from where it would be read
    session = Session(
        session_vars={
            name: (None, None, None if name in _FILES else default, convert)
            for name, (_, _, default, convert) in BOTOCORE_DEFAUT_SESSION_VARIABLES.items()
        }
    )
    own = _Models(extra_search_paths=[Loader.BUILTIN_DATA_PATH], include_default_search_paths=False)
    session.register_component("data_loader", own)
    client = boto3.Session(botocore_session=session).client(
        "s3",
        region_name=region,
        endpoint_url=endpoint,
        aws_access_key_id=_NO_KEY,
        aws_secret_access_key=_NO_KEY,
        config=Config(
            signature_version=UNSIGNED,
            user_agent="berth/1",
            retries={"total_max_attempts": 1, "mode": "standard"},
            ignore_configured_endpoint_urls=True,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            s3={
                "addressing_style": "path" if path_style else "virtual",
                # TLS protects a body; where there is none, the signature does
                "payload_signing_enabled": not endpoint.startswith("https:"),
            },
        ),
    )
    events = client.meta.events
    if keys is not None:
        events.register("request-created.s3", _Signer(keys, region, clock).sign)
    events.register("before-call.s3", _stay)
    events.register("before-send.s3", partial(_sent, send))
    return client


class _Models(Loader):
    """The library's own model of S3, which leaves two texts of a listing as the store wrote them.

    A size that is no number would cost a whole page; reading times takes two thirds of its time.
    """

    def load_service_model(
        self, service_name: str, type_name: str, api_version: str | None = None
    ) -> Any:
        model = super().load_service_model(service_name, type_name, api_version)
        if (service_name, type_name) == ("s3", "service-2"):
            for name in ("Size", "LastModified"):
                model["shapes"][name] = {"type": "string"}
        return model


class _Signer(S3SigV4Auth):
    """botocore's signature, with a clock that can be set by the store's."""

    def __init__(self, keys: Keys, region: str, clock: Callable[[], float]) -> None:
        super().__init__(Credentials(keys.access, keys.secret, keys.token or None), "s3", region)
        self._clock = clock

    def sign(self, request: Any, **_event: Any) -> None:
        request.context["timestamp"] = time.strftime(SIGV4_TIMESTAMP, time.gmtime(self._clock()))
        self._modify_request_before_signing(request)
        text = self.string_to_sign(request, self.canonical_request(request))
        self._inject_signature_to_request(request, self.signature(text, request))


def _stay(context: dict[str, Any], **_event: Any) -> None:
    """Let the library believe that it followed to another region already."""
    context.setdefault("s3_redirect", {})["redirected"] = True


def _sent(send: Send, request: Any, **_event: Any) -> AWSResponse:
    """Send what the library prepared; that it gets an answer here keeps it from sending itself."""
    headers = {
        name: value.decode() if isinstance(value, bytes) else str(value)
        for name, value in request.headers.items()
        if name.lower() != "expect"
    }
    got = send(request.method, request.url, headers, request.body)
    return AWSResponse(request.url, got.status, got.headers, _Raw(got.body))


class _Raw(io.BytesIO):
    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self.read()
