"""“Test it”: honest answers, only with what is stored, and nothing secret in a sentence."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from botocore.awsrequest import AWSRequest

from credentials.models import Credential
from credentials.probe import credential_test, stores
from dataplane.s3_client import Keys, _Signer, s3_client
from dataplane.sending import Received
from tests.common.conftest import say
from tests.credentials import samples
from tests.credentials.answers import BUCKETS, by_secret, error
from tests.support.shortest import shortest

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def in_the_gate(settings: Any) -> None:
    settings.BERTH_CLUSTER_PRIVATE_KEY = ["x"]
    settings.BERTH_INSECURE_STORES = []


# --- the signature ------------------------------------------------------------------------------


def test_a_signature_is_the_one_of_the_published_example() -> None:
    """GET Bucket (List Objects) of Amazon's "Examples: Signature Calculations"."""
    keys = Keys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    request = AWSRequest("GET", "https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J")
    _Signer(keys, "us-east-1", datetime(2013, 5, 24, tzinfo=UTC).timestamp).sign(request)
    assert request.headers["Authorization"].endswith(
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
    assert row.server.asked[0][1] == "/training?list-type=2&max-keys=1&encoding-type=url"


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
    assert _where("https://s3.example.com", path_style=False).startswith(
        "https://data.s3.example.com/?"
    )
    assert _where("https://s3.cn-north-1.amazonaws.com.cn", path_style=True).startswith(
        "https://s3.cn-north-1.amazonaws.com.cn/data?"
    )


def _where(endpoint: str, *, path_style: bool) -> str:
    asked: list[str] = []

    def send(_method: str, url: str, _headers: Any, _body: Any) -> Received:
        asked.append(url)
        return Received(200, {}, b"<ListBucketResult/>")

    keys = Keys("a", "b")
    client = s3_client(keys, send, endpoint=endpoint, region="cn-north-1", path_style=path_style)
    client.list_objects_v2(Bucket="data")
    return asked[0]


def test_d10_endless_and_slow_answers_end(store: Any, ask: Any, monkeypatch: Any) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(100):
            handler.wfile.write(b"<")
            handler.wfile.flush()
            time.sleep(0.05)

    def dripped() -> None:
        ok, text = ask(row)
        assert (ok, "in time" in text) == (None, True)

    row = store(drip)
    with monkeypatch.context() as hurried:
        hurried.setattr(stores, "SECONDS", 0.5)
        assert shortest(dripped) < 3
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
