"""Webhooks of every state, for the pictures (tools/screen_data.py)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.urls import reverse

from common.clock import now
from common.ids import new_uid
from credentials.models import Sentence
from webhooks.models import Delivery, Webhook

if TYPE_CHECKING:
    from accounts.models import User
    from projects.models import Project


def make(vision: Project, alice: User) -> Webhook:
    at = now()
    chat = Webhook.objects.create(
        project=vision,
        name="lab channel",
        shown="https://hooks.slack.com/…Xk91",
        kinds=["job.failed", "budget.spent", "work.reclaimed"],
        failing_since=at - timedelta(minutes=20),
    )
    Webhook.objects.create(project=vision, name="dashboard", shown="https://lab.example.org/…")
    Webhook.objects.create(
        project=vision,
        name="old bot",
        shown="https://bot.example.org/…",
        enabled=False,
        given_up_at=at - timedelta(days=2),
    )
    Webhook.objects.create(user=alice, name="telephone", shown="https://push.example.org/…b2Qd")
    for minutes, state, status, attempts, params in (
        (400, "delivered", 200, 1, {"name": "sweep 3", "reason": "out of memory"}),
        (90, "failed", 503, 8, {"name": "sweep 4", "reason": "the container ended with code 1"}),
        (20, "queued", 503, 3, {"name": "sweep 5", "reason": "the time limit is over"}),
        (1, "queued", None, 0, {"name": "sweep 6", "reason": "out of memory"}),
    ):
        text = "It answered with the status %(status)d."
        Delivery.objects.create(
            webhook=chat,
            event=new_uid(),
            kind="job.failed",
            params=params,
            state=state,
            status=status,
            attempts=attempts,
            said=Sentence(text, {"status": status}).kept() if status else {},
            took_ms=84 if status else None,
            created_at=at - timedelta(minutes=minutes),
            due_at=at + timedelta(minutes=4),
        )
    return chat


def pages(vision: Project, chat: Webhook) -> list[tuple[str, str, str]]:
    slug: dict[str, Any] = {"project": vision.slug}
    return [
        ("alice", "webhooks", reverse("webhooks:list", kwargs=slug)),
        ("alice", "webhook", chat.get_absolute_url()),
        ("alice", "settings-webhooks", reverse("webhooks:own")),
        ("dora", "settings-webhooks-none", reverse("webhooks:own")),
    ]
