"""Whether Google takes a service account's key: a token is asked for, then one listing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from django.utils.translation import gettext as _

from common.clock import now
from common.outbound import Answer, Bounds, Client
from credentials.kinds import gcs
from credentials.messages import Sentence
from credentials.outside import policy_of_stores
from credentials.probe import verdict
from credentials.probe.verdict import SECONDS, Verdict
from dataplane.copy.stores import jwt

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"
_LIFE_S = 600
_TOKEN_MAX = 8 * 1024
_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_MANY, _ERRORS = 200, 401, 403, 404, 429, 500


def tried(public: Mapping[str, Any], secret: Mapping[str, str]) -> Verdict:
    bounds = Bounds(seconds=SECONDS, body_bytes=1024 * 1024)
    with Client(policy_of_stores(), bounds) as client:
        answer = _token_answer(client, public, secret)
        token = _token(answer)
        if not token:
            return _no_token(answer)
        listed = _listed(client, public, token)
    return _verdict(listed, str(public.get("bucket", "")))


def assertion(public: Mapping[str, Any], secret: Mapping[str, str]) -> str:
    """Return the signed request for a token."""
    key = load_pem_private_key(secret["private_key"].encode(), password=None)
    assert isinstance(key, rsa.RSAPrivateKey)  # noqa: S101 - nothing else is ever stored
    at = int(now().timestamp())
    claims = {
        "iss": public["client_email"],
        "scope": _SCOPE,
        "aud": gcs.token_uri(),
        "iat": at,
        "exp": at + _LIFE_S,
    }
    return jwt.assertion(key, public["private_key_id"], claims)


def _token_answer(client: Client, public: Mapping[str, Any], secret: Mapping[str, str]) -> Answer:
    form = urlencode({"grant_type": jwt.GRANT, "assertion": assertion(public, secret)}).encode()
    url = gcs.token_uri()
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Content-Length": str(len(form)),
    }
    return client.request(
        "POST", url, headers=headers, content=form, insecure=url.startswith("http://")
    )


def _said(answer: Answer) -> dict[str, Any]:
    try:
        said = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _token(answer: Answer) -> str:
    token = _said(answer).get("access_token") if answer.status == _OK else None
    fits = isinstance(token, str) and 0 < len(token) <= _TOKEN_MAX
    return token if isinstance(token, str) and fits and token.isprintable() else ""


def _no_token(answer: Answer) -> Verdict:
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


def _listed(client: Client, public: Mapping[str, Any], token: str) -> Answer:
    bucket = str(public.get("bucket", ""))
    base = f"{gcs.endpoint()}/storage/v1/b"
    project = quote(str(public["project_id"]), safe="")
    where = f"{base}/{quote(bucket)}/o?maxResults=1" if bucket else f"{base}?project={project}"
    url = where if bucket else f"{where}&maxResults=1"
    headers = {"Authorization": f"Bearer {token}"}
    return client.request("GET", url, headers=headers, insecure=url.startswith("http://"))


def _verdict(answer: Answer, bucket: str) -> Verdict:
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
