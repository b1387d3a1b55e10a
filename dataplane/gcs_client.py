"""google-cloud-storage's client, by one kind of credential and one address for its tokens.

A key file is the tenant's: what it says of addresses, other kinds of identity, commands and files
is not believed, so it is never handed to the library: only the three values that are needed.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode

import requests
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from google.auth import jwt
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.crypt import RSASigner
from google.cloud.storage import Client
from requests.adapters import BaseAdapter

from dataplane.sending import Received, Send

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
SCOPE = "https://www.googleapis.com/auth/devstorage."
_LIVES_S = 3600
_SKEW_LEAST_S = 60.0  # less is no reason to refuse
_TOKEN_MAX = 8 * 1024
_OK = 200


class NoToken(Exception):  # noqa: N818 - what happened
    """Google gave no token; ``said`` is its answer."""

    def __init__(self, said: Received) -> None:
        super().__init__(f"no token: {said.status}")
        self.said = said


def signer_of(private_key: str, key_id: str) -> RSASigner:
    """Raise ValueError where the key is none of RSA."""
    try:
        key = load_pem_private_key(private_key.encode(), None)
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError from error
    if not isinstance(key, RSAPrivateKey):
        raise ValueError  # noqa: TRY004 - one error for all that is wrong with it
    return RSASigner(key, key_id)


class ServiceAccount(Credentials):
    """Tokens for a service account; nothing but ``token_uri`` is asked for them."""

    def __init__(
        self,
        email: str,
        signer: RSASigner,
        *,
        token_uri: str,
        scope: str,
        send: Send,
        clock: Callable[[], float] = time.time,
        corrects: bool = True,
    ) -> None:
        """``corrects``: take Google's clock where ours errs."""
        super().__init__()
        self._signer = signer
        self._email = email
        self._token_uri = token_uri
        self._scope = SCOPE + scope
        self._send = send
        self._clock = clock
        self._skew = None if corrects else 0.0  # None: not corrected yet

    def forget(self) -> None:
        self.token = None

    def refresh(self, request: Any = None) -> None:
        """Ask for a token; NoToken where that is refused, even by Google's own clock."""
        del request  # google-auth's way out
        said = self._asked()
        if said.status != _OK and self._corrected(said):
            said = self._asked()
        token, lives = _token_of(said)
        if not token:
            raise NoToken(said)
        self.token = token
        now = datetime.now(UTC).replace(tzinfo=None)  # as google-auth counts
        self.expiry = now + timedelta(seconds=lives)

    def _asked(self) -> Received:
        at = int(self._clock() + (self._skew or 0))
        claims = {
            "iss": self._email,
            "scope": self._scope,
            "aud": self._token_uri,
            "iat": at,
            "exp": at + _LIVES_S,
        }
        form = {"grant_type": GRANT, "assertion": jwt.encode(self._signer, claims).decode()}
        return self._send(
            "POST",
            self._token_uri,
            {"content-type": "application/x-www-form-urlencoded"},
            urlencode(form).encode(),
        )

    def _corrected(self, said: Received) -> bool:
        """Take Google's time for ours, once."""
        if self._skew is not None or b"invalid_grant" not in said.body:
            return False
        try:
            theirs = parsedate_to_datetime(said.headers["date"]).timestamp()
        except (KeyError, ValueError, TypeError):
            return False
        self._skew = theirs - self._clock()
        return abs(self._skew) > _SKEW_LEAST_S


def gcs_client(
    account: ServiceAccount | None, send: Send, *, endpoint: str, project: str
) -> Client:
    """Return a client that asks once and follows no redirect; None: anonymous."""
    client = Client(
        project=project,
        credentials=account or AnonymousCredentials(),
        client_options={"api_endpoint": endpoint},
        _http=_Session(account, send),
    )
    client._bucket_metadata_cache = None  # noqa: SLF001 - asks for the bucket, unasked and beside
    return client


class _Session(requests.Session):
    """Cut off from the environment and from the network.

    google-auth's own looks for certificates of the machine, and its way to tokens redirects.
    """

    def __init__(self, account: ServiceAccount | None, send: Send) -> None:
        super().__init__()
        self._account = account
        self.trust_env = False
        for scheme in ("https://", "http://"):
            self.mount(scheme, _Adapter(send))

    def request(  # type: ignore[override]
        self, method: str, url: str, *, headers: Any = None, **more: Any
    ) -> requests.Response:
        fields = dict(headers or {})
        if self._account is not None:
            if not self._account.valid:
                self._account.refresh()
            self._account.apply(fields)
        return super().request(method, url, headers=fields, **more)

    def get_redirect_target(self, resp: requests.Response) -> None:
        del resp


class _Adapter(BaseAdapter):
    def __init__(self, send: Send) -> None:
        super().__init__()
        self._send = send

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        headers = {
            name: value.decode() if isinstance(value, bytes) else str(value)
            for name, value in request.headers.items()
        }
        got = self._send(str(request.method), str(request.url), headers, request.body)
        response = requests.Response()
        response.status_code, response.url, response.request = got.status, str(request.url), request
        response.headers.update(got.headers)
        response.raw = io.BytesIO(got.body)
        return response

    def close(self) -> None:
        return


def _token_of(said: Received) -> tuple[str, float]:
    """Return the token and for how long it is good; "" where it is none."""
    try:
        data = json.loads(said.body) if said.status == _OK else {}
        token, lives = data["access_token"], float(data.get("expires_in", _LIVES_S))
        fits = len(token) <= _TOKEN_MAX and token.isascii() and token.isprintable()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "", 0.0
    return (token, lives) if fits and " " not in token else ("", 0.0)
