"""Signatures are botocore's; of a Google key file only three values are believed."""

from __future__ import annotations

import json
import random
import subprocess
import threading
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from dataplane.copy.connector import Dialer
from dataplane.copy.plan import OutboundPlan
from dataplane.copy.problems import Final, Stop
from dataplane.copy.stores.gcs_token import TOKEN_URI, Token
from dataplane.copy.stores.sigv4 import EMPTY, UNSIGNED, Signer, query_of, quoted
from tests.support.store_programs import stores_bin

REFERENCE = """
import json, sys, datetime
from botocore import auth, awsrequest, credentials
from unittest import mock
for line in sys.stdin:
    case = json.loads(line)
    signer = auth.S3SigV4Auth(
        credentials.Credentials("AKIDEXAMPLE", case["secret"], case["token"] or None),
        "s3", case["region"])
    request = awsrequest.AWSRequest(case["method"], case["url"], headers=case["headers"])
    request.context["signing"] = {"disableDoubleEncoding": True}
    signer.payload = lambda _request, case=case: case["headers"]["x-amz-content-sha256"]
    at = datetime.datetime.fromtimestamp(case["at"], datetime.timezone.utc)
    class Fixed(datetime.datetime):
        @classmethod
        def utcnow(cls):
            return at.replace(tzinfo=None)
        @classmethod
        def now(cls, tz=None):
            return at
    with mock.patch("botocore.auth.get_current_datetime", lambda *a, **k: at.replace(tzinfo=None)), \\
         mock.patch("datetime.datetime", Fixed):
        signer.add_auth(request)
    print(json.dumps(request.headers["Authorization"]))
"""


@pytest.mark.real
def test_signatures_are_those_of_botocore() -> None:
    chance = random.Random(4)
    letters = "aZ09-._~ +&=?%/é日()!*'\"<>@:,;$#[]"
    cases, ours = [], []
    for _ in range(300):
        key = "k" + "".join(chance.choice(letters) for _ in range(chance.randint(0, 30)))
        query = {
            name: "".join(chance.choice(letters) for _ in range(chance.randint(0, 8)))
            for name in chance.sample(["prefix", "uploads", "list-type", "a b", "ß", "A"], 2)
        }
        method = chance.choice(["GET", "PUT", "HEAD", "DELETE", "POST"])
        region = chance.choice(["us-east-1", "eu-west-3", "cn-north-1"])
        secret = "".join(chance.choice("abc/+09") for _ in range(40))
        token = chance.choice(["", "session+token/="])
        at = chance.randint(1_600_000_000, 1_900_000_000)
        extra = chance.choice([{}, {"x-amz-checksum-mode": "ENABLED"}, {"content-md5": "abc="}])
        payload = chance.choice([EMPTY, UNSIGNED])
        signer = Signer(
            "AKIDEXAMPLE", secret, region, session_token=token, clock=lambda at=at: float(at)
        )
        headers = {"host": "b.s3.example.org", **extra}
        path = "/" + quoted(key)
        asked = query_of(query)
        ours.append(signer.signed(method, path, asked, headers, payload)["authorization"])
        cases.append(
            {
                "method": method,
                "url": f"https://b.s3.example.org{path}?{asked}",
                "headers": {**extra, "x-amz-content-sha256": payload},
                "secret": secret,
                "token": token,
                "region": region,
                "at": at,
            }
        )
    done = subprocess.run(
        [str(stores_bin() / "python"), "-c", REFERENCE],
        input="\n".join(map(json.dumps, cases)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(theirs) == len(ours)
    different = [(c, o, t) for c, o, t in zip(cases, ours, theirs, strict=True) if o != t]
    assert different == []


# --- D4 -----------------------------------------------------------------------------------------


def pem(key: Any) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


KEY = pem(rsa.generate_private_key(65537, 2048))


def account(**more: Any) -> dict[str, Any]:
    return {
        "type": "service_account",
        "client_email": "x@y.iam.gserviceaccount.com",
        "private_key": KEY,
        "private_key_id": "1",
        "token_uri": TOKEN_URI,
        **more,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "external_account", "credential_source": {"file": "/etc/passwd"}},
        {"type": "authorized_user", "refresh_token": "x"},
        {"type": "impersonated_service_account"},
        {"type": None},
        {"token_uri": "http://169.254.169.254/token"},
        {"token_uri": "https://evil.example/token"},
        {"universe_domain": "evil.example"},
        {"private_key": "no key"},
        {"private_key": pem(ec.generate_private_key(ec.SECP256R1()))},
        {"private_key": None},
    ],
)
def test_d4_only_a_service_account_of_google_is_taken(wrong: dict[str, Any]) -> None:
    with pytest.raises(Stop) as caught:
        Token(account(**wrong), Dialer(OutboundPlan()), "", writes=False)
    assert caught.value.final is Final.BAD_PLAN
    assert "PRIVATE" not in caught.value.message


async def test_d4_the_assertion_goes_to_googles_address_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nowhere else is a name even looked up, whatever the file says."""
    asked: list[str] = []

    def resolve(host: str, *_a: Any, **_k: Any) -> list[Any]:
        asked.append(host)
        raise OSError

    monkeypatch.setattr("socket.getaddrinfo", resolve)
    token = Token(account(auth_uri="https://evil.example"), Dialer(OutboundPlan()), "", writes=True)
    monkeypatch.setattr(token._client, "times", token._client.times.__class__(tries=2))
    with pytest.raises(Stop) as caught:
        await token.renew()
    await token.close()
    assert caught.value.final is Final.UNREACHABLE
    assert set(asked) == {"oauth2.googleapis.com"}
    assert threading.active_count() < 50
