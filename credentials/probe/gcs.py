"""Whether Google takes a service account's key: a token is asked for, then one listing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from django.utils.translation import gettext as _

from common.clock import now
from common.outbound import Bounds, Client
from credentials.kinds import gcs
from credentials.messages import Sentence
from credentials.outside import policy_of_stores
from credentials.probe import verdict
from credentials.probe.asking import Asking
from credentials.probe.verdict import SECONDS, Verdict
from dataplane.sending import Received

_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_MANY, _ERRORS = 200, 401, 403, 404, 429, 500


def tried(public: Mapping[str, Any], secret: Mapping[str, str]) -> Verdict:
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
    return _verdict(asking.last, bucket)


def _said(answer: Received) -> dict[str, Any]:
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
    error = str(_said(answer).get("error", ""))
    if error == "invalid_grant":
        return verdict.refused(
            _("Google does not take this key: it was deleted, or its account was.")
        )
    if error in {"disabled_client", "unauthorized_client", "invalid_client"}:
        return verdict.refused(_("Google knows the account and does not let it in."))
    return verdict.refused(_("What answers there is not where Google hands out tokens."))


def _verdict(answer: Received, bucket: str) -> Verdict:
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
