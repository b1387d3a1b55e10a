"""Signatures are botocore's; of a Google key file only three values are believed."""

from __future__ import annotations

import json
import random
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from google.api_core.exceptions import GoogleAPICallError

from dataplane.copy.calls import Client, Times
from dataplane.copy.connector import Dialer
from dataplane.copy.plan import OutboundPlan, Plan, StorePlan
from dataplane.copy.problems import Final, Stop
from dataplane.copy.stores.gcs import TOKEN_URI, Gcs
from dataplane.copy.stores.sigv4 import EMPTY, UNSIGNED, Signer, quoted
from dataplane.gcs_client import NoToken, ServiceAccount, gcs_client, signer_of
from dataplane.s3_client import Keys, s3_client
from dataplane.sending import Received
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
        region = chance.choice(["us-east-1", "eu-west-3", "cn-north-1"])
        secret = "".join(chance.choice("abc/+09") for _ in range(40))
        token = chance.choice(["", "session+token/="])
        at = chance.randint(1_600_000_000, 1_900_000_000)
        extra = chance.choice([{}, {"x-amz-checksum-mode": "ENABLED"}, {"content-md5": "abc="}])
        method, payload = chance.choice(["GET", "PUT"]), chance.choice([EMPTY, UNSIGNED])
        signer = Signer(
            "AKIDEXAMPLE", secret, region, session_token=token, clock=lambda at=at: float(at)
        )
        path = "/" + quoted(key)
        fields = signer.signed(path, {"host": "b.s3.example.org", **extra}, method, payload)
        ours.append(fields["authorization"])
        cases.append(
            {
                "method": method,
                "url": f"https://b.s3.example.org{path}",
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
        _store(account(**wrong))
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
    store = _store(account(auth_uri="https://evil.example"), direction="out")
    client = Client(Dialer(OutboundPlan()), store.endpoint, Times(tries=2))
    with pytest.raises(Stop) as caught:
        await store.renew(client)
    await client.close()
    store.close()
    assert caught.value.final is Final.UNREACHABLE
    assert set(asked) == {"oauth2.googleapis.com"}
    assert threading.active_count() < 50


def _store(service_account: dict[str, Any], direction: str = "in") -> Gcs:
    place = StorePlan("gcs", "data", service_account=service_account)
    return Gcs(Plan("1", 1, direction, "copy", place, "v", ""), Dialer(OutboundPlan()))


# --- D3, D5 -------------------------------------------------------------------------------------


def test_d3_boto3_sees_nothing_of_its_surroundings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No key, no address, no model of calls that the environment or a home has."""
    canary = "CANARY"
    (tmp_path / ".aws/models/s3/2006-03-01").mkdir(parents=True)
    (tmp_path / ".aws/models/s3/2006-03-01/service-2.json").write_text("no model")
    for name in ("config", "credentials"):
        (tmp_path / ".aws" / name).write_text(
            f"[default]\naws_access_key_id={canary}\naws_secret_access_key={canary}\n"
            f"region={canary}\nendpoint_url=https://{canary}.example\n"
        )
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "DEFAULT_REGION"):
        monkeypatch.setenv(f"AWS_{name}", canary)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"https://{canary}.example")
    monkeypatch.setenv("AWS_PROFILE", canary)
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path / ".aws/models"))
    monkeypatch.setenv("HTTPS_PROXY", f"http://{canary}.example")
    monkeypatch.setenv("HOME", str(tmp_path))
    for keys in (Keys("AKID", "secret"), None):
        asked: list[str] = []
        client = s3_client(
            keys,
            _noted(asked),
            endpoint="https://store.example",
            region="us-east-1",
            path_style=True,
        )
        client.list_objects_v2(Bucket="data")
        assert asked[0].startswith("GET https://store.example/data?list-type=2")
        assert canary not in asked[0]
        assert ("AKID" in asked[0]) is (keys is not None)


@pytest.mark.parametrize("code", ["PermanentRedirect", "AuthorizationHeaderMalformed"])
def test_d2_boto3_follows_nowhere(code: str) -> None:
    """Neither to another region nor to another host, and asks nobody where the bucket is."""
    asked: list[str] = []
    body = f"<Error><Code>{code}</Code><Region>eu-west-3</Region></Error>".encode()
    said = Received(301, {"location": "https://elsewhere.example/"}, body)
    client = s3_client(
        Keys("AKID", "secret"),
        _noted(asked, said),
        endpoint="https://s3.us-east-1.amazonaws.com",
        region="us-east-1",
        path_style=False,
    )
    with pytest.raises(ClientError):
        client.list_objects_v2(Bucket="data")
    assert len(asked) == 1


def test_d2_googles_library_follows_nowhere_and_asks_for_one_token() -> None:
    asked: list[str] = []
    said = Received(302, {"location": "https://elsewhere.example/"}, b"")
    uri = "https://token.example/t"
    there = ServiceAccount(
        "x@y", signer_of(KEY, "1"), token_uri=uri, scope="read_only", send=_noted(asked, said)
    )
    client = gcs_client(there, _noted(asked, said), endpoint="https://gcs.example", project="p")
    with pytest.raises(NoToken):
        list(client.list_blobs("data", retry=None))
    assert [one.split(" {")[0] for one in asked] == [f"POST {uri}"]
    there.token = "a-token"
    for status in (302, 401, 503):
        asked.clear()
        refused = _noted(asked, said._replace(status=status))
        client = gcs_client(there, refused, endpoint="https://gcs.example", project="p")
        with pytest.raises(GoogleAPICallError):
            list(client.list_blobs("data", retry=None))
        assert [one.split("?")[0] for one in asked] == [
            "GET https://gcs.example/storage/v1/b/data/o"
        ]


def _noted(asked: list[str], said: Received | None = None) -> Any:
    """Send nowhere; note what would have been sent, and answer alike each time."""

    def send(method: str, url: str, headers: Any, body: Any) -> Received:
        asked.append(f"{method} {url} {dict(headers)} {body!r}")
        return said or Received(200, {}, b"<ListBucketResult><Name>data</Name></ListBucketResult>")

    return send
