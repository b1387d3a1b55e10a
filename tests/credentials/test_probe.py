"""“Test it”: honest answers, only with what is stored, and nothing secret in a sentence."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

import pytest

from credentials.models import Credential
from credentials.probe import credential_test, s3
from credentials.probe.s3 import Keys, signed
from events.models import Event
from tests.common.conftest import Server, say
from tests.credentials import samples

pytestmark = pytest.mark.django_db
Serve = Callable[..., Server]

BUCKETS = b"<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>"
OBJECTS = b"<ListBucketResult><Contents/></ListBucketResult>"


@pytest.fixture(autouse=True)
def in_the_gate(settings: Any) -> None:
    settings.BERTH_CLUSTER_PRIVATE_KEY = ["x"]
    settings.BERTH_INSECURE_STORES = []


@pytest.fixture
def ask(alice: Any, principal: Any) -> Callable[[Credential], tuple[bool | None, str]]:
    def test(row: Credential) -> tuple[bool | None, str]:
        found = credential_test(principal=principal(alice), credential=row)
        row.refresh_from_db()
        assert (row.test_ok, row.test_message) == (found.ok, found.message)
        for secret in samples.secrets_of(row.kind):
            assert not any(form in found.message for form in samples.spelled(secret))
            assert secret not in repr(list(Event.objects.values()))
        for word in ("Signature", "X-Amz", "Authorization", "Bearer", "Traceback", "http://127"):
            assert word not in found.message
        return found.ok, found.message

    return test


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
        url = f"http://{host}{handler.path}"
        when = datetime.strptime(at, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        keys = Keys("loader", samples.COMPATIBLE_SECRET, samples.TOKEN)
        expected = signed(url, keys, region="us-east-1", at=when.timestamp())["authorization"]
        (right if handler.headers["Authorization"] == expected else wrong)(handler)

    return answer


@pytest.fixture
def store(serve: Serve, keep: Any, settings: Any) -> Callable[..., Credential]:
    def make(answer: Any, **more: Any) -> Credential:
        server = serve(answer, host="127.0.0.1")
        settings.BERTH_INSECURE_STORES = [f"127.0.0.1:{server.port}"]
        endpoint = f"http://127.0.0.1:{server.port}"
        row: Credential = keep("s3-compatible", endpoint=endpoint, **more)
        row.server = server  # type: ignore[attr-defined]
        return row

    return make


# --- the signature ------------------------------------------------------------------------------


def test_a_signature_is_the_one_of_the_published_example() -> None:
    """GET Bucket (List Objects) of Amazon's "Examples: Signature Calculations"."""
    keys = Keys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    url = "https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J"
    at = datetime(2013, 5, 24, tzinfo=UTC).timestamp()
    made = signed(url, keys, region="us-east-1", at=at)
    assert made["authorization"].endswith(
        "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
    )


# --- S3 -----------------------------------------------------------------------------------------


def test_a_right_key_is_accepted_and_a_wrong_one_named(store: Any, ask: Any, keep: Any) -> None:
    ok, text = ask(store(by_secret(say(BUCKETS), error("SignatureDoesNotMatch"))))
    assert (ok, "accepts" in text) == (True, True)
    row = keep("s3-compatible", "other", secret_key="another-secret", endpoint=_endpoint())
    ok, text = ask(row)
    assert (ok, "does not belong" in text) == (False, True)


def _endpoint() -> str:
    return str(Credential.objects.first().public["endpoint"])  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("code", "status", "ok", "word"),
    [
        ("InvalidAccessKeyId", 403, False, "does not know"),
        ("SignatureDoesNotMatch", 403, False, "does not belong"),
        ("ExpiredToken", 400, False, "token"),
        ("InvalidToken", 400, False, "token"),
        ("AuthorizationHeaderMalformed", 400, False, "region"),
        ("NoSuchBucket", 404, False, "no bucket"),
        ("SlowDown", 503, None, "busy"),
        ("Whatever", 404, False, "not a store"),
        ("AccessDenied", 403, None, "can't be told"),
        ("RequestTimeTooSkewed", 403, None, "clock"),
    ],
)
def test_each_refusal_has_a_sentence(
    store: Any, ask: Any, code: str, status: int, *, ok: bool | None, word: str
) -> None:
    found, text = ask(store(error(code, status), bucket="data"))
    assert (found, word in text) == (ok, True), text
    assert samples.COMPATIBLE_SECRET not in text


def test_a_key_that_may_not_list_is_told_from_a_wrong_one(store: Any, ask: Any) -> None:
    """The store refuses the right key otherwise than any wrong one: so it is right."""
    ok, text = ask(store(by_secret(error("AccessDenied"), error("SignatureDoesNotMatch"))))
    assert (ok, "may not list buckets" in text) == (True, True)


def test_a_bucket_that_it_may_not_list_is_a_refusal(store: Any, ask: Any) -> None:
    row = store(by_secret(error("AccessDenied"), error("SignatureDoesNotMatch")), bucket="training")
    ok, text = ask(row)
    assert (ok, "training" in text) == (False, True)
    assert row.server.asked[0][1] == "/training?list-type=2&max-keys=1"


def test_a_store_that_lets_everybody_in_says_nothing_of_the_key(store: Any, ask: Any) -> None:
    ok, text = ask(store(say(BUCKETS)))
    assert (ok, "everybody" in text) == (None, True)


def test_a_skewed_clock_is_measured(store: Any, ask: Any) -> None:
    theirs = format_datetime(datetime.now(UTC) - timedelta(hours=3))

    def answer(handler: BaseHTTPRequestHandler) -> None:
        body = b"<Error><Code>RequestTimeTooSkewed</Code></Error>"
        handler.send_response_only(403)
        handler.send_header("Date", theirs)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    ok, text = ask(store(answer))
    assert (ok, "1080" in text, "clock" in text) == (None, True, True)


def test_another_region_is_named_unless_it_is_nonsense(store: Any, ask: Any) -> None:
    for region, told in (("eu-west-3", True), ("<b>x</b>", False)):
        Credential.objects.all().delete()
        row = store(error("PermanentRedirect", 301, x_amz_bucket_region=region), bucket="data")
        ok, text = ask(row)
        assert (ok, region in text) == (False, told)
        assert len(row.server.asked) == 1  # redirects are not followed


@pytest.mark.parametrize("body", [b"<html>hello</html>", b"", b"\xff" * 1000, b"<Code>"])
def test_something_else_is_no_store(store: Any, ask: Any, body: bytes) -> None:
    ok, text = ask(store(say(body)))
    assert (ok, "not a store" in text) == (False, True)


def test_the_bucket_is_in_the_name_where_the_store_wants_it() -> None:
    public = {"endpoint": "https://s3.example.com", "bucket": "data", "path_style": False}
    assert s3._url("s3-compatible", public).startswith("https://data.s3.example.com/?")
    amazon = s3._url("s3", {"region": "cn-north-1", "bucket": "data"})
    assert amazon.startswith("https://s3.cn-north-1.amazonaws.com.cn/data?")


def test_d10_endless_and_slow_answers_end(store: Any, ask: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(s3, "SECONDS", 0.5)

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b"<")
            handler.wfile.flush()
            time.sleep(0.05)

    begun = time.monotonic()
    ok, text = ask(store(drip))
    assert time.monotonic() - begun < 3
    assert (ok, "in time" in text) == (None, True)
    Credential.objects.all().delete()
    ok, text = ask(store(say(b"x" * 2_000_000)))
    assert (ok, "larger" in text) == (None, True)


# --- where Berth does not go --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["s3-compatible", "git", "ssh"])
def test_d2_private_addresses_are_refused_at_the_connection(
    keep: Any, ask: Any, monkeypatch: Any, kind: str
) -> None:
    import socket

    asked: list[str] = []

    def lead_inside(host: str, port: int, *_args: Any, **_kwargs: Any) -> Any:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", port))]

    monkeypatch.setattr(socket, "getaddrinfo", lead_inside)
    ok, text = ask(keep(kind))
    assert (ok, "does not go there" in text) == (False, True), text
    assert asked


@pytest.mark.parametrize("kind", ["s3-compatible", "git", "ssh"])
def test_a_host_that_is_not_there_is_told(keep: Any, ask: Any, monkeypatch: Any, kind: str) -> None:
    import socket

    def nobody(*_args: Any, **_kwargs: Any) -> Any:
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    ok, text = ask(keep(kind))
    assert (ok, "no host of this name" in text) == (None, True), text


def test_a_port_that_is_not_allowed_is_told(keep: Any, ask: Any) -> None:
    for row in (
        keep("s3-compatible", endpoint="https://s3.example.com:6379"),
        keep("ssh", host="git.example.com:6379", known_hosts=""),
    ):
        ok, text = ask(row)
        assert (ok, "6379" in text) == (False, True)


def test_d3_no_identity_of_this_machine_is_ever_asked_for(
    store: Any, ask: Any, monkeypatch: Any, tmp_path: Any
) -> None:
    """The portal's own environment is full of keys, and none of them is seen by a store."""
    canary = "CANARYOFTHEPORTAL"
    (tmp_path / "credentials").write_text(
        f"[default]\naws_access_key_id={canary}\naws_secret_access_key={canary}\n"
    )
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, canary)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "credentials"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    row = store(by_secret(say(BUCKETS), error("SignatureDoesNotMatch")))
    assert ask(row)[0] is True
    assert row.server.asked
    assert canary not in repr(row.server.asked)


# --- GCS ----------------------------------------------------------------------------------------


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
def google(serve: Serve, settings: Any) -> Google:
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
        "/storage/v1/b?project=tests-1234&maxResults=1",
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


# --- others -------------------------------------------------------------------------------------


def test_nobody_can_be_asked_about_another_secret(keep: Any, ask: Any) -> None:
    ok, text = ask(keep("generic"))
    assert (ok, "nobody can be asked" in text) == (None, True)


def test_a_key_that_is_missing_is_told_and_nothing_kept(
    keep: Any, alice: Any, principal: Any, settings: Any
) -> None:
    row = keep("git")
    settings.BERTH_CREDENTIAL_KEYS = ["another"]
    found = credential_test(principal=principal(alice), credential=row)
    assert (found.ok, "BERTH_CREDENTIAL_KEYS" in found.message) == (None, True)
    row.refresh_from_db()
    assert row.tested_at is None


def test_the_pages_and_the_api_tell_what_was_said(keep: Any, alice: Any, as_user: Any) -> None:
    row = keep("generic")
    client = as_user(alice)
    said = client.post(f"/api/v1/projects/vision/credentials/{row.uid}/test").json()
    assert said["ok"] is None
    page = client.post(f"/projects/vision/credentials/{row.uid}/test", follow=True)
    text = page.content.decode()
    assert "nobody can be asked" in text
    assert "Could not be judged" in text
