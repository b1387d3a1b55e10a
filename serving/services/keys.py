"""Keys of endpoints: secrets that may call one, shown once, kept as SHA-256."""

from __future__ import annotations

import secrets
import string
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services.tokens import digest_of
from common.clock import now
from common.errors import Conflict, NotFound, wrong
from common.ids import is_uid
from events import services as events
from serving.models import EndpointKey
from serving.services.base import tell_gateways
from work.services.base import lock, own

if TYPE_CHECKING:
    from uuid import UUID

    from django.db.models import QuerySet

    from accounts.principal import Principal
    from serving.models import Endpoint

PREFIX = "bep_"
NAME_MAX = 80
MAX_LIVE = 200  # of one endpoint
_LENGTH = 32
_SHOWN = 10  # of the secret, to recognise it: "bep_" and six characters
_ALPHABET = string.ascii_letters + string.digits
LIMITS = ("requests_per_second", "concurrent", "requests_per_day")
MAX_LIMIT = 1_000_000_000


@transaction.atomic
def key_make(
    *,
    principal: Principal,
    row: Endpoint,
    name: str,
    expires_at: datetime | None = None,
    **limits: int,
) -> tuple[EndpointKey, str]:
    """Make a key of an endpoint and return it with its secret, which is nowhere else.

    ``limits``: those of ``LIMITS`` that it has; 0: none.
    """
    own(principal, row)
    row = lock(row)
    key = EndpointKey(endpoint=row, created_by=principal.user, expires_at=expires_at)
    key.name = " ".join(name.split())
    if not key.name or len(key.name) > NAME_MAX:
        raise wrong("name", _("Say whose key it is, in 80 characters at most."))
    if expires_at is not None and expires_at <= now():
        raise wrong("expires_at", _("This is in the past."))
    for limit in LIMITS:
        value = limits.get(limit, 0)
        if not 0 <= value <= MAX_LIMIT:
            raise wrong(limit, _("A number of requests; 0: no limit."))
        setattr(key, limit, value)
    live = [one for one in row.access_keys.exclude(prefix="") if one.is_live]
    if key.name in {one.name for one in live}:
        raise wrong(
            "name", _("There is a key of this name; revoke it first, or take another name.")
        )
    if len(live) >= MAX_LIVE:
        said = _("It has %(n)d keys already. Revoke one first.")
        raise Conflict(said % {"n": MAX_LIVE}, code="too-many-keys")
    secret = new_secret()
    key.prefix, key.digest = secret[:_SHOWN], digest_of(secret)
    key.save()
    told: dict[str, Any] = {limit: getattr(key, limit) for limit in LIMITS if getattr(key, limit)}
    if expires_at is not None:
        told["expires_at"] = expires_at.isoformat()
    _record(principal, row, key, "key-made", **told)
    return key, secret


def new_secret() -> str:
    return PREFIX + "".join(secrets.choice(_ALPHABET) for _i in range(_LENGTH))


@transaction.atomic
def key_revoke(*, principal: Principal, row: Endpoint, uid: UUID | str) -> EndpointKey:
    """Revoke a key of an endpoint; revoking twice is no error. Streams that it opened end."""
    own(principal, row)
    keys = EndpointKey.objects.select_for_update().filter(endpoint=row)
    key = keys.filter(uid=uid).first() if is_uid(str(uid)) else None
    if key is None:
        raise NotFound(_("There is no such key here."))
    if key.revoked_at is None:
        key.revoked_at = now()
        key.save(update_fields=["revoked_at"])
        _record(principal, row, key, "key-revoked")
    return key


def keys_of(principal: Principal, row: Endpoint) -> QuerySet[EndpointKey]:
    """Return the keys of an endpoint, the newest first, for who may make and revoke them."""
    own(principal, row)
    return row.access_keys.exclude(prefix="").select_related("created_by")


def _record(
    principal: Principal, row: Endpoint, key: EndpointKey, what: str, **told: object
) -> None:
    events.record(
        actor=principal,
        verb=f"{row.KIND}.{what}",
        target=row,
        project_uid=row.project.uid,
        data={"name": key.name, "prefix": key.prefix, **told},
    )
    tell_gateways(row)
