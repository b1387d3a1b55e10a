from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy


class WorkspaceKind(models.TextChoices):
    NOTEBOOK = "notebook", _("Notebook")
    CONTAINER = "container", _("Container")


class State(models.TextChoices):
    """What people read of a workspace."""

    PENDING = "pending", _("Waiting")
    STARTING = "starting", _("Starting")
    RUNNING = "running", _("Running")
    STOPPING = "stopping", _("Stopping")
    STOPPED = "stopped", _("Stopped")
    FAILED = "failed", _("Failed")
    DELETING = "deleting", _("Deleting")
    DELETED = "deleted", _("Deleted")
    UNKNOWN = "unknown", pgettext_lazy("state", "Unknown")


class StopReason(models.TextChoices):
    """Why a workspace was asked to stop."""

    USER = "user", _("Stopped by its owner")
    MANAGER = "manager", _("Stopped by a manager of the project")
    OPERATOR = "operator", _("Stopped by an operator")
    TIME_LIMIT = "time-limit", _("The time limit was reached")
    IDLE = "idle", _("It was idle")
    PROJECT_ARCHIVED = "project-archived", _("The project was archived")
    OWNER_DISABLED = "owner-disabled", _("The account of its owner was disabled")
    OWNER_LEFT = "owner-left", _("Its owner left the project")
