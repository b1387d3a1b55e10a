"""Sends mail: the row is the job, one process at a time works on it (a leased duty).

A row is claimed by a conditional UPDATE before the server is spoken to and is due again only
after CLAIM_S: a crash in between delays a mail, and it goes at most once per window.
"""

from datetime import timedelta
from email.errors import MessageError
from smtplib import SMTPException

import structlog
from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import F
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.translation import gettext as _

from common.clock import now
from notifications.choices import MailState
from notifications.kinds import mail_url, text_of
from notifications.models import Mail

log = structlog.get_logger(__name__)

EVERY_S = 5.0
CLAIM_S = 600.0
MOST_ATTEMPTS = 6
BATCH = 20


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
        subject = _("Berth: %(text)s") % {"text": text}
    return EmailMessage(
        subject=" ".join(subject.split())[:150],
        body=body,
        to=[row.to],
        headers=_headers(row),
    )


def _headers(row: Mail) -> dict[str, str]:
    return {"Auto-Submitted": "auto-generated", "X-Berth-Kind": row.kind}


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
