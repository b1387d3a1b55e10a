"""Delivering: signed as Standard Webhooks says, tried again with growing pauses.

The row is the job, as of mail: it is claimed by a conditional UPDATE before anybody is asked, so
that a crash in between delays it and two workers send it once. Who takes it for a new one by its
``webhook-id``, the event's, is told each event once. Only requests run in threads; nothing of an
answer but its status is kept, and the address and the secret are in no log.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db.models import Case, Exists, F, OuterRef, Q, When
from django.utils import translation
from django.utils.translation import gettext as _

from common.clock import now
from common.errors import BerthError
from common.outbound import Bounds, Client, OutboundError, policy_from_settings
from credentials.models import Sentence
from notifications.kinds import text_of
from webhooks.models import Delivery, DeliveryState, Webhook
from webhooks.services import TEST, switch_off

log = structlog.get_logger(__name__)

EVERY_S = 2.0
CLAIM_S = 120.0
HOOKS = 32  # in one turn
OF_ONE = 4  # deliveries to one of them, while it takes them
THREADS = 16
MOST_ATTEMPTS = 8
LONGEST = timedelta(days=1)  # who hears of it later is told nothing of use
FAILS = timedelta(days=5)  # then it is switched off
KEEP = timedelta(days=30)
BOUNDS = Bounds(seconds=5.0, body_bytes=64 * 1024, total_bytes=64 * 1024, requests=1)
_GONE = 410
_OPEN = [DeliveryState.QUEUED, DeliveryState.SENDING]


@dataclass(frozen=True)
class Request:
    """``key`` signs it; what it says is written before, in the receiver's language."""

    delivery: Delivery
    url: str
    key: bytes
    body: bytes


@dataclass(frozen=True)
class Outcome:
    """``status`` None: nobody answered."""

    status: int | None
    said: Sentence
    took_ms: int

    @property
    def is_good(self) -> bool:
        return self.status is not None and self.status // 100 == 2  # noqa: PLR2004


def deliver_due() -> int:
    """Deliver what is due, a bounded part of it; return how many went out."""
    requests: list[Request] = []
    for hook in _hooks_due():
        most = 1 if hook.failing_since else OF_ONE
        due = Delivery.objects.filter(webhook=hook, state__in=_OPEN, due_at__lte=now())
        tests_first = Case(When(kind=TEST, then=0), default=1)
        made = (_claimed(hook, one) for one in due.order_by(tests_first, "due_at", "id")[:most])
        requests += [request for request in made if request is not None]
    if not requests:
        return 0
    with ThreadPoolExecutor(THREADS, thread_name_prefix="webhook") as pool:
        outcomes = list(pool.map(ask, requests))
    return sum(_write_down(r.delivery, o) for r, o in zip(requests, outcomes, strict=True))


def _hooks_due() -> list[Webhook]:
    at = now()
    due = Delivery.objects.filter(webhook=OuterRef("pk"), state__in=_OPEN, due_at__lte=at)
    rows = Webhook.objects.filter(Exists(due), enabled=True).filter(
        Q(retry_at__isnull=True) | Q(retry_at__lte=at),
        Q(user__isnull=True) | Q(user__is_active=True),
        Q(project__isnull=True) | Q(project__deleted_at__isnull=True),
    )
    found = list(
        rows.select_related("project", "user").order_by(F("asked_at").asc(nulls_first=True))[:HOOKS]
    )
    Webhook.objects.filter(pk__in=[hook.pk for hook in found]).update(asked_at=at)
    return found


def _claimed(hook: Webhook, delivery: Delivery) -> Request | None:
    """Return what to send, or None: another worker has it, or nothing can open the secret."""
    taken = Delivery.objects.filter(pk=delivery.pk, state__in=_OPEN, due_at=delivery.due_at).update(
        state=DeliveryState.SENDING,
        due_at=now() + timedelta(seconds=CLAIM_S),
        attempts=F("attempts") + 1,
    )
    if not taken:
        return None
    delivery.attempts += 1
    delivery.webhook = hook
    try:
        url, secret = hook.sealed["url"], hook.sealed["secret"]
    except BerthError as error:  # the key of the seal is lost
        _write_down(delivery, Outcome(None, Sentence(error.message), 0))
        return None
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return Request(delivery, url, key, body_of(delivery))


def body_of(delivery: Delivery) -> bytes:
    """Write what is sent. ``text`` is what chat programs show, with their marks made harmless."""
    hook = delivery.webhook
    with translation.override(hook.language or settings.LANGUAGE_CODE):
        text = text_of(delivery.kind, delivery.params)
    link = f"{settings.BERTH_PUBLIC_URL}{delivery.url}" if delivery.url else ""
    shown = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    told = {
        "id": str(delivery.event),
        "type": delivery.kind,
        "timestamp": delivery.created_at.isoformat(),
        "text": f"{shown}\n{link}" if link else shown,
        "data": {
            "message": text,
            "name": str(delivery.params.get("name", "")),
            "url": link,
            "project": hook.project.slug if hook.project else None,
        },
    }
    return json.dumps(told, ensure_ascii=False).encode()


def signature_of(key: bytes, event: str, timestamp: int, body: bytes) -> str:
    """Return the header ``webhook-signature``: over id, time and body."""
    signed = f"{event}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def ask(request: Request) -> Outcome:
    """Send one; touches no database. The sentences are ours, in English as the catalogue has."""
    event, at = str(request.delivery.event), int(now().timestamp())
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "webhook-id": event,
        "webhook-timestamp": str(at),
        "webhook-signature": signature_of(request.key, event, at, request.body),
    }
    begun = time.monotonic()
    status: int | None = None
    with translation.override("en"):
        try:
            with Client(policy_from_settings(), BOUNDS) as client:
                answer = client.request("POST", request.url, headers=headers, content=request.body)
        except OutboundError as error:
            said = Sentence(error.text, error.values)
        else:
            status = answer.status
            said = Sentence(_("It answered with the status %(status)d."), {"status": status})
            if 300 <= status < 400:  # noqa: PLR2004
                text = _("It leads elsewhere (status %(status)d), and Berth follows nowhere.")
                said = Sentence(text, {"status": status})
    return Outcome(status, said, round((time.monotonic() - begun) * 1000))


def _write_down(row: Delivery, outcome: Outcome) -> bool:
    at = now()
    told: dict[str, Any] = {
        "status": outcome.status,
        "said": outcome.said.kept(),
        "took_ms": outcome.took_ms,
    }
    mine = Delivery.objects.filter(pk=row.pk, state=DeliveryState.SENDING)
    hook = Webhook.objects.filter(pk=row.webhook_id)
    if outcome.is_good:
        mine.update(state=DeliveryState.DELIVERED, finished_at=at, **told)
        hook.filter(failing_since__isnull=False).update(failing_since=None, retry_at=None)
        return True
    many, status = row.attempts, outcome.status
    log.warning("webhook.not_delivered", webhook=row.webhook_id, attempts=many, status=status)
    wait = at + pause_after(row.attempts)
    hook.update(retry_at=wait)
    hook.filter(failing_since__isnull=True).update(failing_since=at)
    if outcome.status == _GONE:
        mine.update(state=DeliveryState.FAILED, finished_at=at, **told)
        switch_off(row.webhook, outcome.said)
    elif row.attempts >= MOST_ATTEMPTS or at - row.created_at > LONGEST:
        mine.update(state=DeliveryState.FAILED, finished_at=at, **told)
        since: datetime = row.webhook.failing_since or at
        if at - since > FAILS:
            switch_off(row.webhook, outcome.said)
    else:
        mine.update(state=DeliveryState.QUEUED, due_at=wait, **told)
    return False


def pause_after(attempts: int) -> timedelta:
    return timedelta(seconds=min(3600, 15 * 2**attempts))


def housekeeping() -> int:
    """Forget what was sent long ago; called now and then."""
    return Delivery.objects.filter(created_at__lt=now() - KEEP).delete()[0]
