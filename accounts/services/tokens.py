"""API tokens: shown once, kept as a hash, never wider than what made them."""

import hashlib
import hmac
import re
import secrets
import string
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from accounts import hooks
from accounts import scopes as scope_registry
from accounts.models import ApiToken
from accounts.principal import Principal
from common.clock import now
from common.errors import Conflict, Forbidden, Invalid, NotFound, wrong
from events import services as events

PREFIX = "berth_"
MAX_LIFE = timedelta(days=366)
MAX_LIVE_TOKENS = 100
_SECRET_LENGTH = 40
_SHOWN = 12  # of the secret, to recognise it: "berth_" and six characters
_ALPHABET = string.ascii_letters + string.digits
_SHAPE = re.compile(r"\Aberth_[A-Za-z0-9]{40}\Z")
_USE_NOTED_EVERY = timedelta(seconds=60)


@transaction.atomic
def token_create(
    *,
    who: Principal,
    name: str,
    scopes: list[str] | None = None,
    read_only: bool = False,
    project_uids: list[str] | None = None,
    expires_at: datetime | None = None,
) -> tuple[ApiToken, str]:
    """Make a token and return it with its secret, which is nowhere else.

    ``expires_at`` None means the longest life there is. A token made with a token is never
    wider or longer-lived than that one.
    """
    at = now()
    expires_at = _expiry(who, expires_at, at)
    token = ApiToken(
        user=who.user,
        name=_name(name),
        scopes=_scopes(scopes or []),
        read_only=read_only,
        project_uids=_project_uids(project_uids or []),
        expires_at=expires_at,
    )
    _within(who, token)
    if ApiToken.objects.filter(_live(at), user=who.user).count() >= MAX_LIVE_TOKENS:
        raise Conflict(
            _("You have %d tokens already. Revoke one first.") % MAX_LIVE_TOKENS,
            code="too-many-tokens",
        )
    secret = PREFIX + "".join(secrets.choice(_ALPHABET) for _i in range(_SECRET_LENGTH))
    token.prefix, token.digest = secret[:_SHOWN], digest_of(secret)
    token.save()
    events.record(
        actor=who,
        verb="token.created",
        target=token,
        data={"scopes": token.scopes, "read_only": read_only, "projects": token.project_uids},
    )
    return token, secret


@transaction.atomic
def token_revoke(*, who: Principal, uid: UUID | str) -> ApiToken:
    """Revoke one of the own tokens; revoking twice is no error."""
    try:
        token = ApiToken.objects.filter(uid=UUID(str(uid)), user=who.user).first()
    except ValueError:
        token = None
    if token is None:
        raise NotFound(_("There is no such token, or it is not yours."))
    if token.revoked_at is None:
        token.revoked_at = now()
        token.save(update_fields=["revoked_at"])
        events.record(actor=who, verb="token.revoked", target=token)
        hooks.token_revoked(token, who)
    return token


def token_authenticate(*, secret: str, ip: str = "") -> ApiToken | None:
    """Return the live token with its active user, or None. One query; uses noted once a minute."""
    if not _SHAPE.match(secret):
        return None
    digest = digest_of(secret)
    token = ApiToken.objects.select_related("user").filter(digest=digest).first()
    if token is None or not hmac.compare_digest(token.digest, digest):
        return None
    if not token.is_live or not token.user.is_active:
        return None
    _note_use(token, ip)
    return token


def digest_of(secret: str) -> str:
    # 238 bits of chance: no salt or slow hash is needed, and it can be looked up by an index.
    return hashlib.sha256(secret.encode()).hexdigest()


def _note_use(token: ApiToken, ip: str) -> None:
    at = now()
    if token.last_used_at and token.last_used_at > at - _USE_NOTED_EVERY:
        return
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lte=at - _USE_NOTED_EVERY)
    ApiToken.objects.filter(stale, pk=token.pk).update(last_used_at=at, last_used_ip=ip[:64])


def _live(at: datetime) -> Q:
    return Q(revoked_at__isnull=True) & (Q(expires_at__isnull=True) | Q(expires_at__gt=at))


def _within(who: Principal, token: ApiToken) -> None:
    """Refuse a token that may more than the one that makes it."""
    maker = who.token
    if maker is None:
        return
    wider = (
        (maker.read_only and not token.read_only)
        or (maker.scopes and not (token.scopes and set(token.scopes) <= set(maker.scopes)))
        or (
            maker.project_uids
            and not (token.project_uids and set(token.project_uids) <= set(maker.project_uids))
        )
    )
    if wider:
        raise Forbidden(_("A token can't make a token that may more than itself."))


def _expiry(who: Principal, wanted: datetime | None, at: datetime) -> datetime:
    latest = at + MAX_LIFE
    if who.token is not None and who.token.expires_at is not None:
        latest = min(latest, who.token.expires_at)
    if wanted is None:
        return latest
    if wanted <= at:
        raise Invalid(
            _("The expiry lies in the past."), fields={"expires_at": [_("Choose a later day.")]}
        )
    if wanted > at + MAX_LIFE:
        raise Invalid(
            _("A token lives at most one year."),
            fields={"expires_at": [_("At most one year from now.")]},
        )
    return min(wanted, latest)


def _name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > 80 or not name.isprintable():  # noqa: PLR2004 - column width
        raise wrong("name", _("A name of 1 to 80 characters, on one line."))
    return name


def _scopes(scopes: list[str]) -> list[str]:
    unknown = sorted(set(scopes) - set(scope_registry.known()))
    if unknown:
        raise wrong("scopes", _("There is no scope “%s”.") % unknown[0][:60])
    return sorted(set(scopes))


def _project_uids(uids: list[str]) -> list[str]:
    try:
        return sorted({str(UUID(str(uid))) for uid in uids})
    except ValueError as error:
        raise wrong("project_uids", _("Projects are named by their uid.")) from error
