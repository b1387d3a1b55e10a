"""Ending sessions: at once, and everything that hangs on them."""

from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from accounts import hooks
from accounts.models import User
from accounts.principal import Principal
from common.errors import NotFound
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
