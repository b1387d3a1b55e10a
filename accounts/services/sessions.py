"""Signing in and out: a terminal's code, sessions and their end, refusals that are recorded."""

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock
from typing import Any
from uuid import UUID

import structlog
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _

from accounts import hooks
from accounts.models import ApiToken, DeviceLogin, User
from accounts.principal import Principal
from accounts.services.tokens import digest_of, token_create
from common.clock import now
from common.errors import BerthError, NotFound, Unavailable
from events import services as events


@transaction.atomic
def session_revoke(*, who: Principal, session_id: int) -> None:
    """End one of the own sessions; the next request with it is a visitor's."""
    row = UserSession.objects.filter(pk=session_id, user=who.user).first()
    if row is None:
        raise NotFound(_("There is no such session, or it is not yours."))
    _end(who.user, [row.session_key])
    events.record(
        actor=who, verb="session.ended", target_kind="session", target_name=row.user_agent[:160]
    )


@transaction.atomic
def sessions_end_others(*, user: User, keep: str, who: Principal | None = None) -> int:
    """End all sessions of ``user`` but the one with the key ``keep``."""
    keys = list(
        UserSession.objects.filter(user=user)
        .exclude(session_key=keep)
        .values_list("session_key", flat=True)
    )
    _end(user, keys)
    if keys:
        events.record(
            actor=who, verb="session.others-ended", target=user, data={"count": len(keys)}
        )
    return len(keys)


@transaction.atomic
def sessions_end_all(*, user: User) -> None:
    """End every session, also those nobody has written down (the epoch is in their hash)."""
    User.objects.filter(pk=user.pk).update(session_epoch=F("session_epoch") + 1)
    user.refresh_from_db(fields=["session_epoch"])
    keys = UserSession.objects.filter(user=user).values_list("session_key", flat=True)
    _end(user, list(keys))


def session_forget(*, user: User, session_key: str) -> None:
    """What hangs on a session ends with it (sign-out)."""
    with transaction.atomic():
        _end(user, [session_key])


def _end(user: User, keys: list[str]) -> None:
    if not keys:
        return
    Session.objects.filter(session_key__in=keys).delete()
    UserSession.objects.filter(session_key__in=keys).delete()
    hooks.sessions_ended(user, keys)


_log = structlog.get_logger(__name__)
_PER_SOURCE = 10  # events a minute, process, verb and source
_ALL_SOURCES = 120  # events a minute and process
_MAX_SOURCES = 4096


@dataclass(frozen=True)
class _Nobody:
    uid: UUID | None = None
    username: str = ""


@dataclass(frozen=True)
class Visitor:
    """An actor who did not sign in: only his address is known."""

    ip: str
    user: _Nobody = _Nobody()
    token: None = None


class _Minute:
    """Counts of the running minute, in memory; bounded."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._minute = 0
        self._total = 0
        self._sources: OrderedDict[tuple[str, str], int] = OrderedDict()

    def admit(self, verb: str, source: str) -> bool:
        minute = int(now().timestamp() // 60)
        with self._lock:
            if minute != self._minute:
                self._minute, self._total = minute, 0
                self._sources.clear()
            key = (verb, source)
            count = self._sources.get(key, 0)
            if count >= _PER_SOURCE or self._total >= _ALL_SOURCES:
                return False
            if len(self._sources) >= _MAX_SOURCES:
                self._sources.popitem(last=False)
            self._sources[key] = count + 1
            self._total += 1
            return True


_minute = _Minute()


def record_denied(
    *,
    verb: str,
    ip: str,
    who: Principal | None = None,
    message: str = "",
    name: str = "",
    project_uid: UUID | None = None,
    data: dict[str, Any] | None = None,
) -> bool:
    """Record a refusal unless this source was refused often in this minute already.

    ``name`` is what a stranger typed: it is cut and stripped of control characters.
    """
    source = str(who.user.pk) if who else ip
    if not _minute.admit(verb, source):
        return False
    shown = "".join(c if c.isprintable() else "?" for c in name[:80])
    _log.warning("denied", verb=verb, ip=ip, name=shown, reason=message[:200])
    events.record(
        actor=who or Visitor(ip=ip),
        verb=verb,
        target_kind="user" if name else "",
        target_name=shown,
        message=message,
        outcome="denied",
        project_uid=project_uid,
        data=data,
    )
    return True


# Sign-in of a terminal: it shows a code, a person approves it in the browser.
#
# RFC 8628 in shape. The device code goes only to the terminal, the user code only to the
# screen; the database has hashes. A code is used once.


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
