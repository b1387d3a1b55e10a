"""What people are told: in the page, by mail, and to everybody by a banner.

Rows keep a kind and its parameters, never finished text: it is written in the language of
the reader at the moment of reading.
"""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from common.ids import new_uid
from notifications.choices import MailState, Severity


class Notification(models.Model):
    """One thing one person was told."""

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notifications"
    )
    kind = models.CharField(max_length=48)
    params = models.JSONField(default=dict, blank=True)
    url = models.CharField(max_length=400, blank=True, default="")
    created_at = models.DateTimeField()
    read_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["user", "-id"], name="notifications_by_user"),
            models.Index(
                fields=["user"],
                condition=models.Q(read_at__isnull=True),
                name="notifications_unread",
            ),
        ]

    def __str__(self) -> str:
        return self.kind


class Preference(models.Model):
    """What one person wants to hear of one kind, and where. No row: the kind's default."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notification_settings"
    )
    kind = models.CharField(max_length=48)
    page = models.BooleanField(default=True)
    mail = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "kind"], name="notifications_wish_once")
        ]

    def __str__(self) -> str:
        return f"{self.user_id} {self.kind}"


class Mail(models.Model):
    """The outbox: the row is the job. Written in the transaction of the act, sent later.

    ``window`` names what must not be said twice in a short time (unique with ``user`` or
    ``to``); params never hold a secret, links with one are made when the mail is sent.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+"
    )
    to = models.EmailField()
    language = models.CharField(max_length=8, blank=True, default="")
    kind = models.CharField(max_length=48)
    params = models.JSONField(default=dict, blank=True)
    url = models.CharField(max_length=400, blank=True, default="")
    window = models.CharField(max_length=160, blank=True, default="")
    state = models.CharField(
        max_length=12, choices=MailState.choices, default=MailState.QUEUED, db_index=True
    )
    created_at = models.DateTimeField()
    due_at = models.DateTimeField(db_index=True)
    attempts = models.PositiveIntegerField(default=0)
    error = models.CharField(max_length=200, blank=True, default="")
    sent_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["to", "window"],
                condition=~models.Q(window=""),
                name="notifications_mail_once_per_window",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} → {self.to}"


class Announcement(models.Model):
    """A banner of the operators on every page, from and until a moment."""

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    message = models.CharField(_("message"), max_length=500)
    severity = models.CharField(
        _("severity"), max_length=12, choices=Severity.choices, default=Severity.INFO
    )
    starts_at = models.DateTimeField(_("from"))
    ends_at = models.DateTimeField(_("until"), null=True, blank=True)
    created_by = models.CharField(max_length=120, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-starts_at", "-id"]

    def __str__(self) -> str:
        return self.message
