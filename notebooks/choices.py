from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy


class WorkspaceKind(models.TextChoices):
    NOTEBOOK = "notebook", _("Notebook")
    CONTAINER = "container", _("Container")
    TENSORBOARD = "tensorboard", _("TensorBoard")


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
