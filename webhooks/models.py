"""Addresses that are told what people are told, and what was sent to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from common.ids import new_uid
from credentials.models import Sentence, sentence_of
from credentials.sealing import SealedMapping
from projects.models import Project

if TYPE_CHECKING:
    from uuid import UUID


class DeliveryState(models.TextChoices):
    QUEUED = "queued", _("Waiting")
    SENDING = "sending", _("Being sent")
    DELIVERED = "delivered", _("Delivered")
    FAILED = "failed", _("Given up")


class Webhook(models.Model):
    """Of a project, or (``project`` None) of one person.

    ``sealed`` holds the whole address, which may open something by itself, and the key that signs;
    ``shown`` is what people read of the address. ``kinds``: of what it hears; [] means everything.
    """

    KIND = "webhook"

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    project = models.ForeignKey(
        Project, null=True, on_delete=models.CASCADE, related_name="webhooks"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="webhooks"
    )
    name = models.CharField(max_length=80)
    shown = models.CharField(max_length=160)
    sealed = SealedMapping(default=dict)
    kinds = models.JSONField(default=list, blank=True)
    language = models.CharField(max_length=8, blank=True, default="")
    enabled = models.BooleanField(default=True)
    failing_since = models.DateTimeField(null=True)
    retry_at = models.DateTimeField(null=True)  # nothing is sent to it before
    asked_at = models.DateTimeField(null=True)  # the longest unasked is asked first
    given_up_at = models.DateTimeField(null=True)  # switched off by Berth itself
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(project__isnull=True, user__isnull=False)
                | Q(project__isnull=False, user__isnull=True),
                name="webhooks_one_owner",
            ),
            models.UniqueConstraint(
                fields=["project", "name"],
                condition=Q(project__isnull=False),
                name="webhooks_name_in_project",
            ),
            models.UniqueConstraint(
                fields=["user", "name"],
                condition=Q(user__isnull=False),
                name="webhooks_name_of_person",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        if self.project is None:
            return reverse("webhooks:own-detail", args=[self.uid])
        return reverse("webhooks:detail", args=[self.project.slug, self.uid])

    @property
    def project_uid(self) -> UUID | None:
        return self.project.uid if self.project else None


class Delivery(models.Model):
    """One event for one webhook: the row is the job. Written in the transaction of the act.

    ``said``: how it went, as ``credentials.models.Sentence`` is kept.
    """

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    event = models.UUIDField()
    kind = models.CharField(max_length=48)
    params = models.JSONField(default=dict)
    url = models.CharField(max_length=400, blank=True, default="")
    state = models.CharField(
        max_length=12, choices=DeliveryState.choices, default=DeliveryState.QUEUED
    )
    created_at = models.DateTimeField()
    due_at = models.DateTimeField()
    attempts = models.PositiveIntegerField(default=0)
    status = models.PositiveIntegerField(null=True)  # of HTTP
    said = models.JSONField(default=dict)
    took_ms = models.PositiveIntegerField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["webhook", "event"], name="webhooks_event_once")
        ]
        indexes = [
            models.Index(
                fields=["webhook", "due_at"],
                condition=Q(state__in=["queued", "sending"]),
                name="webhooks_due",
            ),
            models.Index(fields=["created_at"], name="webhooks_delivery_age"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} → {self.webhook_id}"

    @property
    def sentence(self) -> Sentence:
        return sentence_of(self.said)

    @property
    def is_open(self) -> bool:
        return self.state in {DeliveryState.QUEUED, DeliveryState.SENDING}
