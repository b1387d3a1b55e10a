"""What is done around a request: refusals are recorded, a repeated POST makes nothing twice."""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.crypto import seal, unseal
from accounts.principal import Principal
from accounts.services.sessions import record_denied
from common.clock import now
from common.drf.views import Replay
from common.errors import BerthError, Conflict, Forbidden, Invalid, LimitExceeded, NotFound
from common.middleware import client_ip
from projects.models import IdempotencyKey, Project


class DenialMiddleware:
    """Looks at the BerthError that became the answer (``request.berth_error``)."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        error: BerthError | None = getattr(request, "berth_error", None)
        who: Principal | None = getattr(request, "principal", None)
        if error is not None and who is not None and (verb := _verb(error, request)):
            _record(request, who, verb, error)
        return response


def _verb(error: BerthError, request: HttpRequest) -> str:
    if isinstance(error, Forbidden):
        return "access.forbidden"
    if isinstance(error, LimitExceeded):
        return "limit.refused"
    match = request.resolver_match
    if isinstance(error, NotFound) and match is not None and match.kwargs:
        return "access.not-found"
    return ""


def _record(request: HttpRequest, who: Principal, verb: str, error: BerthError) -> None:
    match = request.resolver_match
    data: dict[str, Any] = {
        "method": str(request.method),
        "route": str(match.route if match else "")[:200],
        **({k: str(v)[:80] for k, v in match.kwargs.items() if k != "secret"} if match else {}),
    }
    record_denied(
        verb=verb,
        ip=client_ip(request),
        who=who,
        message=str(error.message)[:300],
        project_uid=_project_uid(match.kwargs.get("project") if match else None),
        data=data,
    )


def _project_uid(slug: str | None) -> UUID | None:
    if not slug:
        return None
    return Project.objects.filter(slug=slug).values_list("uid", flat=True).first()


# A repeated POST with the same Idempotency-Key makes nothing twice (E13).
#
# The key's row, the act and the stored answer are one transaction: a crash leaves either all of
# them or none, and a second request with the key waits for the first one's commit.


KEPT = timedelta(hours=24)
_KEY = re.compile(r"\A[\x21-\x7e]{1,128}\Z")
_HEADERS = ("Location", "ETag")


@dataclass(frozen=True)
class Held:
    """A key that this request holds until its transaction ends."""

    row: IdempotencyKey


def claim(*, who: Principal, request: Request, key: str) -> Held:
    """Take the key for this request, or raise Replay, Invalid or Conflict."""
    if not _KEY.match(key):
        raise Invalid(_("Idempotency-Key must be 1 to 128 visible ASCII characters."))
    http = request._request  # noqa: SLF001 - the raw body is what the client repeated
    digest = hashlib.sha256(http.body).hexdigest()
    route = f"{http.method} {http.get_full_path()}"[:400]
    mine = IdempotencyKey.objects.filter(user_uid=who.user.uid, key=key)
    mine.filter(created_at__lt=now() - KEPT).delete()
    try:
        with transaction.atomic():
            row = IdempotencyKey.objects.create(
                user_uid=who.user.uid, key=key, route=route, body_digest=digest, created_at=now()
            )
    except IntegrityError:
        raise _replay(mine.get(), route, digest) from None
    return Held(row=row)


def keep(held: Held, response: Response) -> None:
    """Store the answer beside the key, in the transaction of the act."""
    body = b"" if response.data is None else JSONRenderer().render(response.data)
    held.row.status = response.status_code
    # an answer may hold values of an environment, which are nobody else's: never in clear
    held.row.response = seal(body.decode()) if body else ""
    held.row.headers = {k: response[k] for k in _HEADERS if k in response}
    held.row.save(update_fields=["status", "response", "headers"])


def _replay(row: IdempotencyKey, route: str, digest: str) -> Exception:
    if (row.route, row.body_digest) != (route, digest):
        return Conflict(
            _("This Idempotency-Key was used for another request. Use a new one."),
            code="idempotency-key-reused",
        )
    body = unseal(row.response) if row.response else ""
    if body is None:
        return Conflict(
            _("The answer to this Idempotency-Key can't be read any more. Use a new one."),
            code="idempotency-key-reused",
        )
    data = json.loads(body) if body else None
    return Replay(
        Response(data, status=row.status, headers={**row.headers, "Idempotency-Replayed": "true"})
    )


def purge() -> int:
    """Forget keys after a day; called by the periodic housekeeping."""
    return IdempotencyKey.objects.filter(created_at__lt=now() - KEPT).delete()[0]
