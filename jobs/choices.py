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


class AfterLoss(TextChoices):
    """What a job does when it loses its place (``jobs.losses``)."""

    RESTART = "restart", _("Start again")
    WAIT = "wait", _("Stay stopped until somebody starts it")
    FEWER = "fewer", _("Go on with fewer replicas")


class OutputState(TextChoices):
    """How far what a run left is on its way to where it was asked for."""

    NONE = "none", _("None was asked for")
    WRITING = "writing", _("Being written")
    KEPT = "kept", _("Kept on its volume")
    NOTHING = "nothing", _("Its program never began")
    WAITING = "waiting", _("Waits to be copied")
    COPYING = "copying", _("Being copied")
    COMPLETE = "complete", _("Complete")
    PARTIAL = "partial", _("Partial")
    FAILED = "failed", _("Not copied")
