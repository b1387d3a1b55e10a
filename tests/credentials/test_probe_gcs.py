"""“Test it” for a key of Google: a token is asked for, then one listing."""

from __future__ import annotations

import base64
import json
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.common.conftest import say
from tests.credentials import samples

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def in_the_gate(settings: Any) -> None:
    settings.BERTH_CLUSTER_PRIVATE_KEY = ["x"]


class Google:
    """Hands out tokens for what is signed by the sample's key, and lists as told."""

    def __init__(self) -> None:
        self.token: Any = None
        self.list: Any = say(b'{"items": []}', Content_Type="application/json")
        self.assertion: dict[str, Any] = {}

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/token":
            length = int(handler.headers["Content-Length"])
            form = parse_qs(handler.rfile.read(length).decode())
            self.assertion = _verified(form["assertion"][0])
            good = say(b'{"access_token": "ya29.token-of-google", "expires_in": 3600}')
            (self.token or good)(handler)
        else:
            assert handler.headers["Authorization"] == "Bearer ya29.token-of-google"
            self.list(handler)


def _verified(assertion: str) -> dict[str, Any]:
    from cryptography.hazmat.primitives.asymmetric import padding
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    head, claims, signature = assertion.split(".")
    key: Any = load_pem_private_key(samples.rsa_pem().encode(), None)
    raw = base64.urlsafe_b64decode(signature + "==")
    key.public_key().verify(raw, f"{head}.{claims}".encode(), padding.PKCS1v15(), SHA256())
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(claims + "=="))
    return found


@pytest.fixture
def google(serve: Any, settings: Any) -> Google:
    made = Google()
    server = serve(made.answer, host="127.0.0.1")
    settings.BERTH_GCS_ENDPOINT = f"http://127.0.0.1:{server.port}"
    settings.BERTH_GCS_TOKEN_URI = f"http://127.0.0.1:{server.port}/token"
    made.server = server  # type: ignore[attr-defined]
    return made


def test_google_is_asked_for_a_token_and_one_listing(google: Google, keep: Any, ask: Any) -> None:
    ok, text = ask(keep("gcs"))
    assert (ok, "accepts" in text) == (True, True)
    assert google.assertion["iss"] == samples.service_account()["client_email"]
    assert google.assertion["aud"].endswith("/token")
    assert google.assertion["exp"] - google.assertion["iat"] <= 3600
    assert [path for _verb, path, _headers in google.server.asked] == [  # type: ignore[attr-defined]
        "/token",
        "/storage/v1/b?maxResults=1&project=tests-1234&projection=noAcl&prettyPrint=false",
    ]


@pytest.mark.parametrize(
    ("status", "body", "ok", "word"),
    [
        (400, {"error": "invalid_grant", "error_description": "Invalid JWT"}, False, "deleted"),
        (401, {"error": "invalid_client"}, False, "does not let it in"),
        (503, {}, None, "busy"),
        (200, {"access_token": 7}, False, "not where Google"),
        (200, {"access_token": "a\nb"}, False, "not where Google"),
        (404, {}, False, "not where Google"),
    ],
)
def test_google_says_no_for_reasons(
    google: Google, keep: Any, ask: Any, status: int, body: Any, *, ok: bool | None, word: str
) -> None:
    google.token = say(json.dumps(body).encode(), status)
    found, text = ask(keep("gcs"))
    assert (found, word in text) == (ok, True), text


@pytest.mark.parametrize(
    ("status", "bucket", "ok", "word"),
    [
        (200, "data", True, "data"),
        (403, "", True, "may not list buckets"),
        (403, "data", False, "may not list"),
        (404, "data", False, "no bucket"),
        (401, "", False, "does not accept it for storage"),
        (500, "", None, "as it should"),
    ],
)
def test_google_says_what_the_key_may(
    google: Google, keep: Any, ask: Any, status: int, bucket: str, *, ok: bool | None, word: str
) -> None:
    google.list = say(b"{}", status)
    found, text = ask(keep("gcs", bucket=bucket))
    assert (found, word in text) == (ok, True), text
