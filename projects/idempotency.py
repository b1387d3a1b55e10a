"""A repeated POST with the same Idempotency-Key makes nothing twice (E13).

The key's row, the act and the stored answer are one transaction: a crash leaves either all of
them or none, and a second request with the key waits for the first one's commit.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.crypto import seal, unseal
from accounts.principal import Principal
from common.clock import now
from common.drf.viewsets import Replay
from common.errors import Conflict, Invalid
from projects.models import IdempotencyKey

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
