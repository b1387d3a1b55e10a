from django.db import models
from django.utils.translation import gettext_lazy as _


class Direction(models.TextChoices):
    IN = "in", _("From the store into the volume")
    OUT = "out", _("From the volume to the store")


class StoreKind(models.TextChoices):
    """Where the objects lie. The same words as the kinds of credentials that open them."""

    S3 = "s3", _("Amazon S3")
    S3_COMPATIBLE = "s3-compatible", _("S3-compatible store")
    GCS = "gcs", _("Google Cloud Storage")
    HDFS = "hdfs", _("Hadoop file system")
    MLFLOW = "mlflow", "MLflow"


class Mode(models.TextChoices):
    COPY = "copy", _("Copy what is new or changed")
    SYNC = "sync", _("Make the target the same")


class Task(models.TextChoices):
    """What one run does."""

    LOAD = "load", _("Load")
    RETRY = "retry", _("Retry of the failed ones")
    DRY_RUN = "dry-run", _("Dry run")
    VERIFY = "verify", _("Check against the manifest")
    CLEAR = "clear", _("Removal of what was copied")


class Result(models.TextChoices):
    """How one run ended."""

    DONE = "done", _("Done")
    PARTIAL = "partial", _("Partial")
    FAILED = "failed", _("Failed")
    PAUSED = "paused", _("Paused")
    CANCELLED = "cancelled", _("Cancelled")
    STOPPED = "stopped", _("Stopped")


class Uploads(models.TextChoices):
    """What an export may have left half sent at the store."""

    NONE = ""
    OPEN = "open"  # perhaps some
    CLOSING = "closing"  # being given up
    LEFT = "left"  # the store did not give them up


class StopReason(models.TextChoices):
    """Why a load was asked to stop."""

    PAUSED = "paused", _("Paused")
    CANCELLED = "cancelled", _("Cancelled")
    CREDENTIAL = "credential", _("Its credential was removed, or its owner may not use it now")
    PROJECT_ARCHIVED = "project-archived", _("The project was archived")
    OWNER_DISABLED = "owner-disabled", _("The account of its owner was disabled")
    OWNER_LEFT = "owner-left", _("Its owner may not load data in the project any more")


class State(models.TextChoices):
    """What people see; derived from intent, observation and reports (``loaders.states``)."""

    WAITING = "waiting", _("Waiting")
    QUEUED = "queued", _("Queued")
    STARTING = "starting", _("Starting")
    LISTING = "listing", _("Listing")
    COPYING = "copying", _("Copying")
    VERIFYING = "verifying", _("Checking")
    PAUSING = "pausing", _("Pausing")
    CANCELLING = "cancelling", _("Cancelling")
    STOPPING = "stopping", _("Stopping")
    PAUSED = "paused", _("Paused")
    DONE = "done", _("Done")
    PARTIAL = "partial", _("Partial")
    FAILED = "failed", _("Failed")
    CANCELLED = "cancelled", _("Cancelled")
    STOPPED = "stopped", _("Stopped")
    DELETING = "deleting", _("Deleting")


class Stage(models.TextChoices):
    """The ``phase`` of a report: how far the copying program is."""

    STARTING = "starting", _("Starting")
    LISTING = "listing", _("Listing")
    COPYING = "copying", _("Copying")
    VERIFYING = "verifying", _("Checking")
    DELETING = "deleting", _("Deleting what is not in the source")
    ENDED = "ended", _("Ended")
