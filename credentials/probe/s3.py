"""Whether a store lets a key pair in, and what exactly it says no to."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any
from urllib.parse import quote, urlsplit

from django.utils.translation import gettext as _

from common.clock import now
from common.outbound import Answer, Bounds, Client
from credentials.choices import CredentialKind
from credentials.kinds.s3 import aws_host
from credentials.messages import Sentence
from credentials.outside import policy_of_stores
from credentials.probe import verdict
from credentials.probe.verdict import SECONDS, Verdict
from dataplane.copy.stores.sigv4 import EMPTY, Signer

_CODE = re.compile(rb"<Code>([A-Za-z0-9.]{1,64})</Code>")
_REGION = re.compile(r"\A[a-z0-9-]{1,40}\Z")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True)
class Keys:
    access: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)


class Said(StrEnum):
    OPEN = "open"
    WRONG_ID = "wrong-id"
    WRONG_SECRET = "wrong-secret"  # noqa: S105 - what a store says
    WRONG_TOKEN = "wrong-token"  # noqa: S105 - what a store says
    CLOCK = "clock"
    REGION = "region"
    NO_BUCKET = "no-bucket"
    DENIED = "denied"
    BUSY = "busy"
    NO_STORE = "no-store"


_CODES = {
    "InvalidAccessKeyId": Said.WRONG_ID,
    "InvalidClientTokenId": Said.WRONG_ID,
    "NotSignedUp": Said.WRONG_ID,
    "SignatureDoesNotMatch": Said.WRONG_SECRET,
    "InvalidSignature": Said.WRONG_SECRET,
    "ExpiredToken": Said.WRONG_TOKEN,
    "InvalidToken": Said.WRONG_TOKEN,
    "TokenRefreshRequired": Said.WRONG_TOKEN,
    "RequestTimeTooSkewed": Said.CLOCK,
    "RequestExpired": Said.CLOCK,
    "AuthorizationHeaderMalformed": Said.REGION,
    "PermanentRedirect": Said.REGION,
    "IllegalLocationConstraintException": Said.REGION,
    "NoSuchBucket": Said.NO_BUCKET,
    "AccessDenied": Said.DENIED,
    "AllAccessDisabled": Said.DENIED,
    "SlowDown": Said.BUSY,
    "ServiceUnavailable": Said.BUSY,
    "InternalError": Said.BUSY,
}
_STATUSES = {403: Said.DENIED, 401: Said.DENIED}
_NOT_BUILT = 501  # the one error of a server that no later try mends
# What is said of the answer, and nothing of the key that was asked with.
_SAYS_NOTHING = frozenset({Said.BUSY, Said.NO_STORE})


def tried(kind: str, public: Mapping[str, Any], secret: Mapping[str, str]) -> Verdict:
    keys = Keys(public["access_key"], secret["secret_key"], secret.get("session_token", ""))
    bounds = Bounds(seconds=SECONDS, body_bytes=1024 * 1024)
    with Client(policy_of_stores(), bounds) as client:
        answer = _asked(client, kind, public, keys)
        said = said_by(answer)
        doubtful = said in {Said.OPEN, Said.DENIED} and kind == CredentialKind.S3_COMPATIBLE
        told = True
        if doubtful:
            # Does it answer the same to a key that can't be right? Then it tells nothing of ours.
            wrong = replace(keys, secret=secrets.token_hex(20))
            again = said_by(_asked(client, kind, public, wrong))
            if again in _SAYS_NOTHING:
                return verdict.unknown(_no(again, answer, {}).said)
            told = again is not said
    return _verdict(said, answer, str(public.get("bucket", "")), told=told)


def signed(url: str, keys: Keys, *, region: str, at: float) -> dict[str, str]:
    """Return the headers of a GET of ``url``, whose path and query need no quoting."""
    parts = urlsplit(url)
    host = parts.netloc.removesuffix(":443" if parts.scheme == "https" else ":80")
    signer = Signer(keys.access, keys.secret, region, session_token=keys.token, clock=lambda: at)
    headers = signer.signed("GET", parts.path or "/", parts.query, {"host": host}, EMPTY)
    del headers["host"]  # the client writes it
    return headers


def said_by(answer: Answer) -> Said:
    found = _CODE.search(answer.body[:65536])
    code = found[1].decode() if found else ""
    if 200 <= answer.status < 300:  # noqa: PLR2004 - HTTP
        return Said.OPEN if b"Result" in answer.body[:65536] else Said.NO_STORE
    if code in _CODES:
        return Said.CLOCK if _CODES[code] is Said.DENIED and _too_late(answer) else _CODES[code]
    if answer.status in _REDIRECTS and "x-amz-bucket-region" in answer.headers:
        return Said.REGION
    if code and answer.status in _STATUSES:
        return _STATUSES[answer.status]
    return Said.BUSY if _is_away(answer.status) else Said.NO_STORE


def _is_away(status: int) -> bool:
    """Whether the store, or a proxy before it, tells of a trouble of its own."""
    return status == 429 or (status >= 500 and status != _NOT_BUILT)  # noqa: PLR2004 - HTTP


def _too_late(answer: Answer) -> bool:
    """Some stores call a skewed clock a plain refusal."""
    return verdict.clocks_differ(answer)


def _asked(client: Client, kind: str, public: Mapping[str, Any], keys: Keys) -> Answer:
    url = _url(kind, public)
    headers = signed(url, keys, region=str(public["region"]), at=now().timestamp())
    return client.request("GET", url, headers=headers, insecure=url.startswith("http://"))


def _url(kind: str, public: Mapping[str, Any]) -> str:
    """Return what lists one object of the bucket to test with, or the buckets."""
    amazon = kind == CredentialKind.S3
    endpoint = f"https://{aws_host(public['region'])}" if amazon else str(public["endpoint"])
    bucket = str(public.get("bucket", ""))
    if not bucket:
        return f"{endpoint}/"
    if amazon or public.get("path_style"):
        return f"{endpoint}/{quote(bucket)}?list-type=2&max-keys=1"
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{quote(bucket)}.{parts.netloc}/?list-type=2&max-keys=1"


def _verdict(said: Said, answer: Answer, bucket: str, *, told: bool) -> Verdict:
    if not told:
        return verdict.unknown(
            _("The store lets everybody in here, so the key was not judged.")
            if said is Said.OPEN
            else _(
                "The store refuses, and it says the same to any key: whether this one is right"
                " can't be told. Name a bucket that it may list."
            )
        )
    named = {"bucket": bucket}
    if said is Said.OPEN:
        text = Sentence(_("The key is right, and it may list the bucket “%(bucket)s”."), named)
        return verdict.accepted(text if bucket else _("The store accepts this key."))
    if said is Said.DENIED and not bucket:
        return verdict.accepted(
            _("The key is right, but it may not list buckets. Name one to test with.")
        )
    return _no(said, answer, named)


def _no(said: Said, answer: Answer, named: Mapping[str, str]) -> Verdict:
    if said is Said.CLOCK:
        return verdict.unknown(verdict.clock_sentence(answer))
    if said is Said.BUSY:
        return verdict.unknown(_("The store is too busy to answer; try again later."))
    if said is Said.REGION:
        return verdict.refused(_region_sentence(answer))
    sentences: dict[Said, str | Sentence] = {
        Said.WRONG_ID: _("The store does not know this access key id."),
        Said.WRONG_SECRET: _("The secret does not belong to this access key id."),
        Said.WRONG_TOKEN: _("The session token has run out, or is not the key's."),
        Said.NO_BUCKET: Sentence(
            _("The key is let in, but there is no bucket “%(bucket)s”."), named
        ),
        Said.DENIED: Sentence(_("The key is right, but it may not list “%(bucket)s”."), named),
        Said.NO_STORE: _("What answers there is not a store that speaks S3."),
    }
    return verdict.refused(sentences[said])


def _region_sentence(answer: Answer) -> Sentence:
    region = answer.headers.get("x-amz-bucket-region", "")
    if _REGION.match(region):
        return Sentence(_("The region is another one: %(region)s."), {"region": region})
    return Sentence(_("The region is another one than was given."))
