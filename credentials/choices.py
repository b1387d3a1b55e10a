from django.db import models
from django.utils.translation import gettext_lazy as _


class CredentialKind(models.TextChoices):
    """What it opens. Only registries can be stored so far; the rest has its place already."""

    REGISTRY = "registry", _("Container registry")
    GCS = "gcs", _("Google Cloud Storage")
    S3 = "s3", _("Amazon S3")
    S3_COMPATIBLE = "s3-compatible", _("S3-compatible store")
    GIT = "git", _("Git token")
    SSH = "ssh", _("Private SSH key")
    GENERIC = "generic", _("Other secret")


class UsableBy(models.TextChoices):
    """Who may put it to use; nobody may read it."""

    MEMBERS = "members", _("Every member who starts work")
    MANAGERS = "managers", _("Managers and owners")
    OWNER = "owner", _("Only whoever stored it")


class Use(models.TextChoices):
    """What a secret was last taken out for."""

    PULL = "pull", _("handed to a cluster to pull images")
    CHECK = "check", _("an image was looked up")
    TEST = "test", _("it was tested")
