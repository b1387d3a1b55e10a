"""The words of jobs."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class State(TextChoices):
    """What people read of a job."""

    QUEUED = "queued", _("Queued")
    STARTING = "starting", _("Starting")
    RUNNING = "running", _("Running")
    CANCELLING = "cancelling", _("Being cancelled")
    SUCCEEDED = "succeeded", _("Succeeded")
    FAILED = "failed", _("Failed")
    CANCELLED = "cancelled", _("Cancelled")
    DELETING = "deleting", _("Being deleted")
