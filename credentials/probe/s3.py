"""Whether a store lets a key pair in, and what exactly it says no to."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from common.clock import now
from common.outbound import Bounds, Client
from credentials.choices import CredentialKind
from credentials.kinds.s3 import aws_host
from credentials.messages import Sentence
from credentials.outside import policy_of_stores
from credentials.probe import verdict
from credentials.probe.asking import Asking
from credentials.probe.verdict import SECONDS, Verdict
from dataplane.sending import Received

if TYPE_CHECKING:
    from dataplane.s3_client import Keys

_REGION = re.compile(r"\A[a-z0-9-]{1,40}\Z")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


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
    from dataplane.s3_client import Keys  # boto3 takes a fifth of a second

    keys = Keys(public["access_key"], secret["secret_key"], secret.get("session_token", ""))
    bounds = Bounds(seconds=SECONDS, body_bytes=1024 * 1024)
    with Client(policy_of_stores(), bounds) as client:
        said, answer = _asked(client, kind, public, keys)
        doubtful = said in {Said.OPEN, Said.DENIED} and kind == CredentialKind.S3_COMPATIBLE
        told = True
        if doubtful:
            # Does it answer the same to a key that can't be right? Then it tells nothing of ours.
            wrong = replace(keys, secret=secrets.token_hex(20))
            again, _answer = _asked(client, kind, public, wrong)
            if again in _SAYS_NOTHING:
                return verdict.unknown(_no(again, answer, {}).said)
            told = again is not said
    return _verdict(said, answer, str(public.get("bucket", "")), told=told)


def _asked(
    client: Client, kind: str, public: Mapping[str, Any], keys: Keys
) -> tuple[Said, Received]:
    """List one object of the bucket to test with, or the buckets."""
    from botocore.exceptions import ClientError
    from botocore.parsers import ResponseParserError

    from dataplane.s3_client import s3_client

    amazon = kind == CredentialKind.S3
    asking = Asking(client)
    store = s3_client(
        keys,
        asking,
        endpoint=f"https://{aws_host(public['region'])}" if amazon else str(public["endpoint"]),
        region=str(public["region"]),
        path_style=amazon or bool(public.get("path_style")),
        clock=lambda: now().timestamp(),
    )
    bucket = str(public.get("bucket", ""))
    try:
        listed = store.list_objects_v2(Bucket=bucket, MaxKeys=1) if bucket else store.list_buckets()
    except ClientError as error:
        return said_by(asking.last, error.response["Error"]["Code"]), asking.last
    except (ResponseParserError, ValueError):
        return said_by(asking.last), asking.last
    a_store = not {"Name", "IsTruncated", "Buckets"}.isdisjoint(listed)
    return Said.OPEN if a_store else Said.NO_STORE, asking.last


def said_by(answer: Received, code: str = "") -> Said:
    """Read an answer that lists nothing; ``code`` is the store's own word for why."""
    if code in _CODES:
        return Said.CLOCK if _CODES[code] is Said.DENIED and _too_late(answer) else _CODES[code]
    if answer.status in _REDIRECTS and "x-amz-bucket-region" in answer.headers:
        return Said.REGION
    if code and not code.isdigit() and answer.status in _STATUSES:
        return _STATUSES[answer.status]
    return Said.BUSY if _is_away(answer.status) else Said.NO_STORE


def _is_away(status: int) -> bool:
    """Whether the store, or a proxy before it, tells of a trouble of its own."""
    return status == 429 or (status >= 500 and status != _NOT_BUILT)  # noqa: PLR2004 - HTTP


def _too_late(answer: Received) -> bool:
    """Some stores call a skewed clock a plain refusal."""
    return verdict.clocks_differ(answer)


def _verdict(said: Said, answer: Received, bucket: str, *, told: bool) -> Verdict:
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


def _no(said: Said, answer: Received, named: Mapping[str, str]) -> Verdict:
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


def _region_sentence(answer: Received) -> Sentence:
    region = answer.headers.get("x-amz-bucket-region", "")
    if _REGION.match(region):
        return Sentence(_("The region is another one: %(region)s."), {"region": region})
    return Sentence(_("The region is another one than was given."))
