from django.db import models
from django.utils.translation import gettext_lazy as _


class CredentialKind(models.TextChoices):
    """What it opens."""

    S3 = "s3", _("Amazon S3")
    S3_COMPATIBLE = "s3-compatible", _("S3-compatible store")
    GCS = "gcs", _("Google Cloud Storage")
    HDFS = "hdfs", _("Hadoop file system")
    MLFLOW = "mlflow", "MLflow"
    REGISTRY = "registry", _("Container registry")
    GIT = "git", _("Git token")
    SSH = "ssh", _("Private SSH key")
    GENERIC = "generic", _("Other secret")


# What work gets into its environment. A registry's sign-in goes to the cluster instead, and only
# loads read a Hadoop file system or MLflow's artifacts.
EMBEDDED = tuple(
    k
    for k in CredentialKind
    if k not in {CredentialKind.REGISTRY, CredentialKind.HDFS, CredentialKind.MLFLOW}
)
# What a load can open a store with.
STORES = (
    *(CredentialKind.S3, CredentialKind.S3_COMPATIBLE),
    *(CredentialKind.GCS, CredentialKind.HDFS, CredentialKind.MLFLOW),
)


class UsableBy(models.TextChoices):
    """Who may put it to use. It is shown to nobody; work that is given it can read it."""

    MEMBERS = "members", _("Every member who starts work")
    MANAGERS = "managers", _("Managers and owners")
    OWNER = "owner", _("Only whoever stored it")


class GivenAs(models.TextChoices):
    """How the values of another secret reach the work."""

    ENV = "env", _("Environment variables")
    FILE = "file", _("Files")


class Use(models.TextChoices):
    """What a secret was last taken out for."""

    PULL = "pull", _("handed to a cluster to pull images")
    CHECK = "check", _("an image was looked up")
    TEST = "test", _("it was tested")
    WORK = "work", _("given to work that started")
    LOAD = "load", _("a load copied with it")
    REGISTRY = "registry", _("a registry of models was asked")
