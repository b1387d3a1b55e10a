"""Telling people: ``notify`` writes rows only, in the transaction of the act. All of it goes
through here: the page, mail, and what ``hooks.told`` adds (webhooks).

``send_due`` sends mail: the row is the job, one process at a time works on it (a leased duty). A
row is claimed by a conditional UPDATE before the server is spoken to and is due again only after
CLAIM_S: a crash in between delays a mail, and it goes at most once per window.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from email.errors import MessageError
from smtplib import SMTPException
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import F
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from common.clock import now
from common.errors import Invalid, NotFound
from common.ids import new_uid
from events.services import Actor, record
from notifications import hooks, selectors
from notifications.choices import MailState, Severity
from notifications.kinds import KINDS, mail_url, text_of
from notifications.models import Announcement, Mail, Notification, Preference

WINDOW = timedelta(hours=1)


@transaction.atomic
def notify(  # noqa: PLR0913 - what one matter has
    *,
    users: Iterable[Any],
    kind: str,
    params: Mapping[str, Any] | None = None,
    url: str = "",
    key: str = "",
    project_id: int | None = None,
    event: UUID | None = None,
    shared: Mapping[str, Any] | None = None,
) -> None:
    """Tell each of ``users``, in the page and by mail as each of them wants.

    ``key`` names the matter: the same kind and key goes by mail once per window at most.
    ``project_id``: whose matter it also is; ``shared``: parameters as all of the project may read
    them, where they are others. ``event``: one for a matter that is told in several languages.
    """
    told = {u.pk: u for u in users if u.is_active}
    wishes = selectors.wishes_for(list(told), kind)
    at = now()
    Notification.objects.bulk_create(
        Notification(user_id=pk, kind=kind, params=dict(params or {}), url=url, created_at=at)
        for pk in told
        if wishes[pk].page
    )
    for pk, user in told.items():
        if wishes[pk].mail and user.email:
            mail_queue(
                to=user.email,
                kind=kind,
                params=params or {},
                url=url,
                user=user,
                key=key,
            )
    hooks.told(
        hooks.Told(
            event=event or new_uid(),
            kind=kind,
            params=params or {},
            shared={**(params or {}), **(shared or {})},
            url=url,
            user_ids=frozenset(told),
            project_id=project_id,
            at=at,
        )
    )


def notify_owner(row: Any, kind: str, **params: Any) -> None:
    """Tell whose ``row`` is, in their language: what is lazy among ``params`` is read in it."""
    with translation.override(row.owner.reads_in):
        said = {name: str(v) if isinstance(v, Promise) else v for name, v in params.items()}
    notify(
        users=[row.owner],
        kind=kind,
        params={"name": row.name, **said},
        url=row.get_absolute_url(),
        key=str(row.uid),
        project_id=row.project_id,
    )


def mail_queue(
    *,
    to: str,
    kind: str,
    params: Mapping[str, Any],
    url: str = "",
    user: Any = None,
    key: str = "",
    language: str = "",
) -> None:
    """Put one mail into the outbox. ``params`` must hold no secret (kinds.register_mail_url).

    ``language`` is of an address for which there is no ``user``.
    """
    at = now()
    window = f"{kind}:{key}:{int(at.timestamp() // WINDOW.total_seconds())}"[:160] if key else ""
    row = Mail(
        user=user,
        to=to,
        language=getattr(user, "language", "") or language,
        kind=kind,
        params=dict(params),
        url=url,
        window=window,
        created_at=at,
        due_at=at,
    )
    # the unique window lets the second of two equal mails fall silently
    Mail.objects.bulk_create([row], ignore_conflicts=True)


def notification_read(*, user: Any, uid: Any) -> Notification:
    """Mark one as read; only one's own."""
    row = Notification.objects.filter(user=user, uid=uid).first()
    if row is None:
        raise NotFound(_("There is no such notification."))
    Notification.objects.filter(pk=row.pk, read_at__isnull=True).update(read_at=now())
    return row


def notifications_read_all(*, user: Any) -> int:
    return Notification.objects.filter(user=user, read_at__isnull=True).update(read_at=now())


def preference_set(*, user: Any, kind: str, page: bool, mail: bool) -> None:
    """Choose where one hears of a kind; matters of security stay on."""
    known = KINDS.get(kind)
    if known is None or not known.is_for_people:
        raise Invalid(_("There is no such kind of notification."))
    if known.always:
        raise Invalid(_("This kind can't be switched off."))
    Preference.objects.update_or_create(user=user, kind=kind, defaults={"page": page, "mail": mail})


@transaction.atomic
def announcement_save(
    *,
    actor: Actor,
    message: str,
    severity: str = Severity.INFO,
    starts_at: datetime | None = None,
    ends_at: datetime | None = None,
    announcement: Announcement | None = None,
) -> Announcement:
    """Make or change a banner; the caller has checked that ``actor`` is an operator."""
    row = announcement or Announcement(created_by=actor.user.username)
    row.message, row.severity = message.strip(), severity
    row.starts_at, row.ends_at = starts_at or now(), ends_at
    if not row.message or severity not in Severity.values:
        raise Invalid(_("An announcement needs a message and a severity."))
    if row.ends_at is not None and row.ends_at <= row.starts_at:
        raise Invalid(_("It must end after it begins."), fields={"ends_at": [_("Too early.")]})
    row.full_clean(exclude=["created_by"])
    row.save()
    record(actor=actor, verb="announcement.saved", target=row, message=row.message)
    transaction.on_commit(selectors.forget_announcements)
    return row


@transaction.atomic
def announcement_delete(*, actor: Actor, announcement: Announcement) -> None:
    record(actor=actor, verb="announcement.deleted", target=announcement)
    announcement.delete()
    transaction.on_commit(selectors.forget_announcements)


@transaction.atomic
def housekeeping(*, keep: timedelta = timedelta(days=90)) -> int:
    """Forget what was read long ago and mails that were sent; called once a day."""
    before = now() - keep
    old = Notification.objects.filter(created_at__lt=before).delete()[0]
    return old + Mail.objects.filter(created_at__lt=before).delete()[0]


log = structlog.get_logger(__name__)

EVERY_S = 5.0
CLAIM_S = 600.0
MOST_ATTEMPTS = 6
BATCH = 20
SUBJECT_MAX = 140
_SENTENCE = re.compile(r".{12,}?(?:[.!?](?=\s)|。)")


def send_due() -> int:
    """Send what is due, a batch at most; returns how many went out."""
    ids = list(
        Mail.objects.filter(state__in=[MailState.QUEUED, MailState.SENDING], due_at__lte=now())
        .order_by("due_at")
        .values_list("pk", flat=True)[:BATCH]
    )
    return sum(1 for pk in ids if _send_one(pk))


def _send_one(pk: int) -> bool:
    claimed = Mail.objects.filter(
        pk=pk, state__in=[MailState.QUEUED, MailState.SENDING], due_at__lte=now()
    ).update(
        state=MailState.SENDING,
        due_at=now() + timedelta(seconds=CLAIM_S),
        attempts=F("attempts") + 1,
    )
    if not claimed:
        return False
    row = Mail.objects.select_related("user").get(pk=pk)
    if row.user is not None and not row.user.is_active:
        _finish(row, MailState.FAILED, "disabled")
        return False
    try:
        message_of(row).send()
    except (OSError, SMTPException, MessageError, ValueError) as error:
        _retry(row, error)
        return False
    _finish(row, MailState.SENT, "")
    return True


def message_of(row: Mail) -> EmailMessage:
    """Write the mail in the reader's language; its link may carry a secret made just now."""
    with translation.override(row.language or settings.LANGUAGE_CODE):
        text = text_of(row.kind, row.params)
        link = mail_url(row.kind, row.params, row.url)
        if link.startswith("/"):
            link = f"{settings.BERTH_PUBLIC_URL}{link}"
        body = render_to_string(
            "notifications/mail.txt",
            {"text": text, "link": link, "base": settings.BERTH_PUBLIC_URL, "user": row.user},
        )
        subject = _("Berth: %(text)s") % {"text": _headline(text)}
    return EmailMessage(
        subject=subject,
        body=body,
        to=[row.to],
        headers={"Auto-Submitted": "auto-generated", "X-Berth-Kind": row.kind},
    )


def _headline(text: str) -> str:
    """Return a text as a subject has it: its first sentence, in one line."""
    line = " ".join(text.split())
    if first := _SENTENCE.match(line):
        line = first[0]
    return line if len(line) <= SUBJECT_MAX else line[: SUBJECT_MAX - 1].rpartition(" ")[0] + "…"


def _retry(row: Mail, error: Exception) -> None:
    log.warning("mail.not_sent", mail=row.pk, attempts=row.attempts, error=repr(error)[:200])
    if row.attempts >= MOST_ATTEMPTS:
        _finish(row, MailState.FAILED, type(error).__name__)
        return
    wait = timedelta(seconds=min(3600, 30 * 2**row.attempts))
    Mail.objects.filter(pk=row.pk).update(
        state=MailState.QUEUED, due_at=now() + wait, error=type(error).__name__
    )


def _finish(row: Mail, state: MailState, error: str) -> None:
    sent = now() if state == MailState.SENT else None
    Mail.objects.filter(pk=row.pk).update(state=state, error=error, sent_at=sent)
