from django.db import models
from django.utils.translation import gettext_lazy as _


class Severity(models.TextChoices):
    INFO = "info", _("Notice")
    WARNING = "warning", _("Warning")
    DANGER = "danger", _("Important")


class MailState(models.TextChoices):
    QUEUED = "queued", _("Waiting")
    SENDING = "sending", _("Being sent")
    SENT = "sent", _("Sent")
    FAILED = "failed", _("Given up")
