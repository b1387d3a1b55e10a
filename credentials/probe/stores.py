"""Whether a store lets a key in, and what exactly it says no to."""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from django.utils.translation import gettext as _

from common.clock import now
from common.outbound import Answer, Bounds, Client
from credentials.choices import CredentialKind
from credentials.kinds import gcs
from credentials.kinds.stores import aws_host, policy_of_stores
from credentials.models import Sentence
from credentials.probe import verdict
from credentials.probe.verdict import SECONDS, Asking, Verdict
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


def s3_tried(kind: str, public: Mapping[str, Any], secret: Mapping[str, str]) -> Verdict:
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
    return _s3_verdict(said, answer, str(public.get("bucket", "")), told=told)


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
        # some stores call a skewed clock a plain refusal
        late = _CODES[code] is Said.DENIED and verdict.clocks_differ(answer)
        return Said.CLOCK if late else _CODES[code]
    if answer.status in _REDIRECTS and "x-amz-bucket-region" in answer.headers:
        return Said.REGION
    if code and not code.isdigit() and answer.status in _STATUSES:
        return _STATUSES[answer.status]
    # the store, or a proxy before it, tells of a trouble of its own
    away = answer.status == _TOO_MANY or (answer.status >= _ERRORS and answer.status != _NOT_BUILT)
    return Said.BUSY if away else Said.NO_STORE


def _s3_verdict(said: Said, answer: Received, bucket: str, *, told: bool) -> Verdict:
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


_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_MANY, _ERRORS = 200, 401, 403, 404, 429, 500


def gcs_tried(public: Mapping[str, Any], secret: Mapping[str, str]) -> Verdict:
    from google.api_core.exceptions import GoogleAPICallError

    from dataplane.gcs_client import NoToken, ServiceAccount, gcs_client, signer_of

    bucket = str(public.get("bucket", ""))
    with Client(policy_of_stores(), Bounds(seconds=SECONDS, body_bytes=1024 * 1024)) as client:
        asking = Asking(client)
        account = ServiceAccount(
            str(public["client_email"]),
            signer_of(secret["private_key"], str(public["private_key_id"])),
            token_uri=gcs.token_uri(),
            scope="read_only",
            send=asking,
            clock=lambda: now().timestamp(),
            corrects=False,
        )
        try:
            account.refresh()
        except NoToken as refused:
            return _no_token(refused.said)
        google = gcs_client(
            account, asking, endpoint=gcs.endpoint(), project=str(public["project_id"])
        )
        once: Any = {"max_results": 1, "retry": None}
        with suppress(GoogleAPICallError, ValueError):  # what is said of it is told by its status
            list(google.list_blobs(bucket, **once) if bucket else google.list_buckets(**once))
    return _gcs_verdict(asking.last, bucket)


def _gcs_said(answer: Received) -> dict[str, Any]:
    try:
        said = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _no_token(answer: Received) -> Verdict:
    if answer.status == _TOO_MANY or answer.status >= _ERRORS:
        return verdict.unknown(_("Google is too busy to answer; try again later."))
    if verdict.clocks_differ(answer):
        return verdict.unknown(verdict.clock_sentence(answer))
    error = str(_gcs_said(answer).get("error", ""))
    if error == "invalid_grant":
        return verdict.refused(
            _("Google does not take this key: it was deleted, or its account was.")
        )
    if error in {"disabled_client", "unauthorized_client", "invalid_client"}:
        return verdict.refused(_("Google knows the account and does not let it in."))
    return verdict.refused(_("What answers there is not where Google hands out tokens."))


def _gcs_verdict(answer: Received, bucket: str) -> Verdict:
    named = {"bucket": bucket}
    if answer.status == _OK:
        text = Sentence(_("The key is right, and it may list the bucket “%(bucket)s”."), named)
        return verdict.accepted(text if bucket else _("Google accepts this key."))
    if answer.status == _FORBIDDEN and not bucket:
        return verdict.accepted(
            _("The key is right, but it may not list buckets. Name one to test with.")
        )
    if answer.status == _FORBIDDEN:
        return verdict.refused(
            Sentence(_("The key is right, but it may not list “%(bucket)s”."), named)
        )
    if answer.status == _NOT_FOUND and bucket:
        text = Sentence(_("The key is let in, but there is no bucket “%(bucket)s”."), named)
        return verdict.refused(text)
    if answer.status == _UNAUTHORIZED:
        return verdict.refused(_("Google gave a token and does not accept it for storage."))
    return verdict.unknown(_("Google gave a token; the storage did not answer as it should."))


_BUSY = frozenset({"RetriableException", "SafeModeException"})
_BODY = 4 * 1024 * 1024  # a thousand names


def hdfs_tried(public: Mapping[str, Any], secret: Mapping[str, str]) -> Verdict:
    folder, token = str(public.get("folder", "")), secret.get("delegation_token", "")
    who = {"delegation": token} if token else {"user.name": str(public["username"])}
    query = urlencode({"op": "LISTSTATUS_BATCH", **who})
    url = f"{public['endpoint']}/webhdfs/v1{quote(folder) or '/'}?{query}"
    with Client(policy_of_stores(), Bounds(seconds=SECONDS, body_bytes=_BODY)) as client:
        answer = client.request("GET", url, insecure=url.startswith("http://"))
    return _hdfs_verdict(answer, folder or "/", with_token=bool(token))


def _hdfs_verdict(answer: Answer, folder: str, *, with_token: bool) -> Verdict:
    said, named = _hdfs_said(answer), {"path": folder}
    if answer.status == _OK and "DirectoryListing" in said:
        if with_token:
            return verdict.accepted(Sentence(_("The token may list “%(path)s”."), named))
        text = _("This user may list “%(path)s”. The namenode believes every name.")
        return verdict.accepted(Sentence(text, named))
    error = str(said.get("RemoteException", {}).get("exception", ""))
    if error.endswith("InvalidToken") or answer.status == _UNAUTHORIZED:
        return verdict.refused(
            _("The namenode does not accept this token: it may have run out.")
            if with_token
            else _("The namenode wants a proof: store a delegation token.")
        )
    if answer.status == _TOO_MANY or answer.status >= _ERRORS or error in _BUSY:
        return verdict.unknown(_("The namenode is too busy to answer; try again later."))
    sentences: dict[str, str | Sentence] = {
        "StandbyException": _("This namenode is on standby: name the active one."),
        "AccessControlException": Sentence(
            _("It is let in, but it may not list “%(path)s”."), named
        ),
        "FileNotFoundException": Sentence(_("It is let in, but there is no “%(path)s”."), named),
    }
    other = _("What answers there does not speak WebHDFS of Hadoop 3.")
    return verdict.refused(sentences.get(error, other))


def _hdfs_said(answer: Answer) -> dict[str, Any]:
    try:
        said = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    fits = isinstance(said, dict) and isinstance(said.get("RemoteException", {}), dict)
    return said if fits else {}


# --- MLflow ---------------------------------------------------------------------------------------


def mlflow_headers(public: Mapping[str, Any], secret: Mapping[str, str]) -> dict[str, str]:
    """Return what says who asks a tracking server; nothing where nobody is named."""
    user, password = str(public.get("username", "")), secret.get("password", "")
    if user:
        pair = base64.b64encode(f"{user}:{password}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {"Authorization": f"Bearer {password}"} if password else {}


def mlflow_tried(public: Mapping[str, Any], secret: Mapping[str, str]) -> Verdict:
    url = f"{public['endpoint']}/api/2.0/mlflow/registered-models/search?max_results=1"
    headers = mlflow_headers(public, secret)
    with Client(policy_of_stores(), Bounds(seconds=SECONDS, body_bytes=_BODY)) as client:
        answer = client.request("GET", url, headers=headers, insecure=url.startswith("http://"))
    if answer.status in {_UNAUTHORIZED, _FORBIDDEN}:
        return verdict.refused(
            _("MLflow does not accept this sign-in.")
            if headers
            else _("MLflow asks who it is: store a user name and password, or a token.")
        )
    if answer.status == _TOO_MANY or answer.status >= _ERRORS:
        return verdict.unknown(_("MLflow is too busy to answer; try again later."))
    try:
        fits = answer.status == _OK and isinstance(json.loads(answer.body), dict)
    except (ValueError, RecursionError):
        fits = False
    if not fits:
        return verdict.refused(_("What answers there is not MLflow's tracking server."))
    return verdict.accepted(
        _("MLflow lists its models with this sign-in.")
        if headers
        else _("MLflow lists its models, and asks nobody who it is.")
    )
