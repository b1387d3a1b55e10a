"""Reading what people were told, what they want to hear, and the banners of now."""

import time
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet

from common.clock import now
from notifications.choices import MailState
from notifications.kinds import KINDS, Kind, text_of
from notifications.models import Announcement, Mail, Notification, Preference

BANNER_TTL_S = 15.0  # another process sees a new banner after this at the latest


@dataclass(frozen=True)
class Wish:
    """Where one person hears of one kind."""

    kind: Kind
    page: bool
    mail: bool


def notifications_of(user: Any, *, unread_only: bool = False) -> QuerySet[Notification]:
    rows = Notification.objects.filter(user=user).order_by("-id")
    return rows.filter(read_at__isnull=True) if unread_only else rows


def unread_count(user: Any) -> int:
    return Notification.objects.filter(user=user, read_at__isnull=True).count()


def text_for(row: Notification) -> str:
    return text_of(row.kind, row.params)


def wishes_of(user: Any) -> list[Wish]:
    """Return every kind with this person's choice, for the settings page."""
    chosen = {p.kind: p for p in Preference.objects.filter(user=user)}
    return [_wish(k, chosen.get(k.name)) for k in KINDS.values() if k.is_for_people]


def wishes_for(user_ids: list[int], kind: str) -> dict[int, Wish]:
    """Return the choice of many people for one kind, in one query."""
    known = KINDS[kind]
    chosen = {p.user_id: p for p in Preference.objects.filter(user__in=user_ids, kind=kind)}
    return {pk: _wish(known, chosen.get(pk)) for pk in user_ids}


def _wish(kind: Kind, chosen: Preference | None) -> Wish:
    if chosen is None or kind.always:
        return Wish(kind=kind, page=True, mail=kind.mail)
    return Wish(kind=kind, page=chosen.page, mail=chosen.mail)


_banners: tuple[float, list[Announcement]] | None = None


def announcements_now() -> list[Announcement]:
    """Return the banners to show; kept in memory for some seconds, as every page asks."""
    global _banners  # noqa: PLW0603 - a cache of this process
    if _banners is None or time.monotonic() - _banners[0] > BANNER_TTL_S:
        at = now()
        _banners = (
            time.monotonic(),
            list(Announcement.objects.filter(Q(ends_at__isnull=True) | Q(ends_at__gt=at))),
        )
    at = now()
    return [a for a in _banners[1] if a.starts_at <= at and (a.ends_at is None or a.ends_at > at)]


def forget_announcements() -> None:
    global _banners  # noqa: PLW0603
    _banners = None


def is_mail_set_up() -> bool:
    """Whether mail leaves the portal; else it is written to the log, or nowhere."""
    return not settings.EMAIL_BACKEND.endswith(("console.EmailBackend", "dummy.EmailBackend"))


def mail_trouble() -> str:
    """Return the last error, where no mail went out since; '' while mail goes."""
    failed = Mail.objects.filter(state__in=[MailState.QUEUED, MailState.FAILED])
    row = failed.exclude(error__in=["", "disabled"]).order_by("-created_at").first()
    if row is None or Mail.objects.filter(sent_at__gte=row.created_at).exists():
        return ""
    return row.error
