"""One request to an endpoint in the name of somebody who may call it, for its page.

It goes the way of every request, through the gateway: what answers here answers everybody. It
wakes what sleeps, counts for limits and stands in the list of callers.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import httpx
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.tokens import digest_of
from common import trust
from common.clock import now
from common.errors import BerthError, wrong
from projects.access import Permission, require
from serving.address import address_of
from serving.models import EndpointKey
from serving.services.base import tell_gateways
from serving.services.keys import NAME_MAX, new_secret

if TYPE_CHECKING:
    from accounts.principal import Principal
    from serving.models import Endpoint

LIVES = timedelta(minutes=2)
KEPT = timedelta(days=31)
ANSWERS_WITHIN_S = 45.0  # a page is waiting; programs wait longer
HEARD_WITHIN_S = 5.0  # gateways know a new key by then
MOST_BODY = 1024 * 1024
MOST_SHOWN = 64 * 1024
_PAUSE_S = 0.2
_UNKNOWN = {httpx.codes.UNAUTHORIZED, httpx.codes.NOT_FOUND}  # while it has not heard of a key
_PRETTY = 2000


@dataclass(frozen=True)
class Answer:
    """What came back. ``text`` None: it is no text. ``cut``: only the beginning is shown."""

    status: int
    seconds: float
    text: str | None
    content_type: str
    version: str  # that answered
    size: int
    cut: bool

    @property
    def is_good(self) -> bool:
        return self.status < 400  # noqa: PLR2004 - HTTP

    @property
    def pretty(self) -> str:
        """Return a short JSON answer in lines, anything else as it came."""
        text = self.text or ""
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return json.dumps(said, indent=2, ensure_ascii=False) if len(text) < _PRETTY else text


def endpoint_try(
    *, principal: Principal, row: Endpoint, method: str, path: str, body: str, version: str = ""
) -> Answer:
    """Send one request and return the answer. Never inside a transaction."""
    require(principal, row.project, Permission.ENDPOINT_CALL)
    if method not in {"GET", "POST"}:
        raise wrong("method", _("GET or POST."))
    if any(ord(letter) <= ord(" ") or letter == "\\" for letter in path):
        raise wrong("path", _("A path without spaces."))
    if {".", ".."} & set(path.partition("?")[0].split("/")):
        raise wrong("path", _("A path below the endpoint's address, without “..”."))
    sent = body.encode()
    if len(sent) > MOST_BODY:
        raise wrong("body", _("At most 1 MiB from here."))
    # Asked for as it is and read so: what unpacks to much is the tenant's, the memory is ours.
    headers = {"Accept-Encoding": "identity"}
    headers |= {"Authorization": f"Bearer {_key_for(principal, row)}"}
    headers |= {"X-Berth-Version": version} if version else {}
    headers |= {"Content-Type": "application/json"} if method == "POST" else {}
    url = f"{address_of(row)}/{path.lstrip('/')}"
    content = sent if method == "POST" else None
    give_up = time.monotonic() + HEARD_WITHIN_S
    timeout = httpx.Timeout(ANSWERS_WITHIN_S, connect=3.0)
    with httpx.Client(trust_env=False, timeout=timeout, verify=trust.authorities()) as client:
        while True:
            answer = _sent(client, method, url, headers, content)
            is_ours = answer.status in _UNKNOWN and not answer.version
            if not is_ours or time.monotonic() > give_up:
                return answer
            time.sleep(_PAUSE_S)  # it has not heard of the key yet, or of what that may call


@transaction.atomic
def _key_for(principal: Principal, row: Endpoint) -> str:
    """Make a key for this one request and return its secret.

    It has no prefix, so that no list of keys shows it: nobody holds it. Its row stays as long as
    pages tell who called.
    """
    shown = row.canary_of or row
    old = EndpointKey.objects.filter(endpoint=shown, prefix="", expires_at__lt=now() - KEPT)
    old.delete()
    secret = new_secret()
    EndpointKey.objects.create(
        endpoint=shown,
        created_by=principal.user,
        name=principal.user.label[:NAME_MAX],
        digest=digest_of(secret),
        expires_at=now() + LIVES,
    )
    tell_gateways(shown)
    return secret


def _sent(
    client: httpx.Client, method: str, url: str, headers: dict[str, str], content: bytes | None
) -> Answer:
    began = time.monotonic()
    try:
        with client.stream(method, url, headers=headers, content=content) as got:
            found = bytearray()
            size = 0
            for part in got.iter_raw():
                size += len(part)
                found += part[: MOST_SHOWN - len(found)]
                if time.monotonic() - began > ANSWERS_WITHIN_S:
                    break
            kind = got.headers.get("content-type", "").partition(";")[0]
            version = got.headers.get("x-berth-version", "")
            took = time.monotonic() - began
            cut = size > len(found)
            return Answer(got.status_code, took, _text(found, cut), kind, version, size, cut)
    except httpx.TimeoutException as error:
        said = _("Nothing was answered within %(n)d seconds. Programs can wait longer.")
        raise NoAnswerError(said % {"n": ANSWERS_WITHIN_S}, code="no-answer") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise NoAnswerError(_("The gateway can't be reached."), code="no-gateway") from error


class NoAnswerError(BerthError):
    """The request came to no answer."""

    status = 502


def _text(found: bytearray, cut: bool) -> str | None:  # noqa: FBT001
    """Return it as text; a letter that the end cuts through is left out."""
    try:
        return found.decode()
    except UnicodeDecodeError as error:
        if cut and error.start > len(found) - 4:
            return found[: error.start].decode()
        return None
