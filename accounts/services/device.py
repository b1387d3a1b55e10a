"""Sign-in of a terminal: it shows a code, a person approves it in the browser.

RFC 8628 in shape. The device code goes only to the terminal, the user code only to the
screen; the database has hashes. A code is used once.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.models import ApiToken, DeviceLogin
from accounts.principal import Principal
from accounts.services.tokens import digest_of, token_create
from common.clock import now
from common.errors import BerthError, NotFound, Unavailable
from events import services as events

LIFE = timedelta(minutes=10)
INTERVAL = 2  # seconds between polls
DAYS = (1, 7, 30, 90, 365)
_MAX_OPEN_PER_IP = 20
_MAX_OPEN = 2000
_USER_ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"  # no vowels: no words by chance


class AuthorizationPending(BerthError):  # noqa: N818 - named for what happened
    status = 428
    code = "authorization_pending"


class SlowDown(BerthError):  # noqa: N818 - named for what happened
    status = 429
    code = "slow_down"


class Expired(BerthError):  # noqa: N818 - named for what happened
    status = 410
    code = "expired"


@dataclass(frozen=True)
class DeviceStart:
    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    interval: int
    expires_in: int


@transaction.atomic
def device_start(*, client: str, ip: str) -> DeviceStart:
    """Open a sign-in for a terminal. Anybody may ask, so the number of open ones is bounded."""
    at = now()
    DeviceLogin.objects.filter(expires_at__lt=at - timedelta(hours=1)).delete()
    waiting = DeviceLogin.objects.filter(
        expires_at__gt=at, approved_at__isnull=True, denied_at__isnull=True
    )
    if waiting.filter(ip=ip).count() >= _MAX_OPEN_PER_IP or waiting.count() >= _MAX_OPEN:
        raise Unavailable(_("Too many sign-ins are waiting. Try again in some minutes."))
    device_code = secrets.token_urlsafe(32)
    letters = "".join(secrets.choice(_USER_ALPHABET) for _i in range(8))
    user_code = f"{letters[:4]}-{letters[4:]}"
    DeviceLogin.objects.create(
        device_digest=digest_of(device_code),
        user_digest=digest_of(user_code),
        client="".join(c if c.isprintable() else "?" for c in client[:120]).strip(),
        ip=ip,
        created_at=at,
        expires_at=at + LIFE,
    )
    page = settings.BERTH_PUBLIC_URL + reverse("accounts:device")
    return DeviceStart(
        device_code=device_code,
        user_code=user_code,
        verification_uri=page,
        verification_uri_complete=f"{page}?code={user_code}",
        interval=INTERVAL,
        expires_in=int(LIFE.total_seconds()),
    )


def device_find(*, user_code: str) -> DeviceLogin:
    """Return the waiting sign-in of a code as typed (case and dash do not matter)."""
    letters = "".join(c for c in user_code.upper() if c.isalnum())[:16]
    row = DeviceLogin.objects.filter(
        user_digest=digest_of(f"{letters[:4]}-{letters[4:]}"),
        expires_at__gt=now(),
        approved_at__isnull=True,
        denied_at__isnull=True,
    ).first()
    if row is None:
        raise NotFound(_("No terminal waits for this code. It may have expired; start again."))
    return row


@transaction.atomic
def device_approve(
    *, who: Principal, user_code: str, read_only: bool = False, days: int = 30
) -> DeviceLogin:
    """Let the terminal have a token of ``who``."""
    row = device_find(user_code=user_code)
    won = _still_open(row).update(
        user=who.user,
        approved_at=now(),
        read_only=read_only,
        days=days if days in DAYS else 30,
    )
    if not won:
        raise NotFound(_("No terminal waits for this code. It may have expired; start again."))
    events.record(actor=who, verb="device.approved", target=row, data={"ip": row.ip})
    return row


@transaction.atomic
def device_deny(*, who: Principal, user_code: str) -> None:
    row = device_find(user_code=user_code)
    if _still_open(row).update(denied_at=now()):
        events.record(
            actor=who, verb="device.denied", target=row, outcome="denied", data={"ip": row.ip}
        )


def device_exchange(*, device_code: str, ip: str) -> tuple[ApiToken, str]:
    """Give the token to the terminal, once; raise what it has to do otherwise."""
    at = now()
    row = (
        DeviceLogin.objects.select_related("user")
        .filter(device_digest=digest_of(device_code))
        .first()
    )
    gone = Expired(_("This sign-in has expired, was refused or was used. Start again."))
    if row is None or row.expires_at <= at or row.denied_at or row.used_at:
        raise gone
    if row.approved_at is None:
        raise _pending(row, at)
    if row.user is None or not row.user.is_active:
        raise gone
    with transaction.atomic():
        unused = DeviceLogin.objects.filter(pk=row.pk, used_at__isnull=True, denied_at__isnull=True)
        if not unused.update(used_at=at):
            raise gone
        return token_create(
            who=Principal(user=row.user, ip=ip),
            name=(_("Terminal %s") % (row.client or row.ip))[:80],
            read_only=row.read_only,
            expires_at=at + timedelta(days=row.days),
        )


def _still_open(row: DeviceLogin) -> QuerySet[DeviceLogin]:
    return DeviceLogin.objects.filter(
        pk=row.pk, approved_at__isnull=True, denied_at__isnull=True, expires_at__gt=now()
    )


def _pending(row: DeviceLogin, at: datetime) -> BerthError:
    """Note the poll; a terminal that asks too often is told so (and its poll is not noted)."""
    early = at - timedelta(seconds=INTERVAL / 2)
    fresh = Q(polled_at__isnull=True) | Q(polled_at__lte=early)
    if DeviceLogin.objects.filter(fresh, pk=row.pk).update(polled_at=at):
        return AuthorizationPending(_("Nobody has approved this sign-in yet."))
    return SlowDown(_("Ask less often."))
