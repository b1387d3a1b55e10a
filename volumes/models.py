"""Places for files. A person has one home in each project on each cluster; it outlives work."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from projects.models import Project
from runtime.models import Reconcilable
from volumes.choices import VolumeKind


class Volume(Reconcilable):
    """A folder on one machine, a claim on a cluster. ``owner`` None: it belongs to the project."""

    KIND = "volume"

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="volumes")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="volumes"
    )
    kind = models.CharField(max_length=16, choices=VolumeKind.choices, default=VolumeKind.HOME)
    name = models.CharField(_("name"), max_length=63)
    size_limit_mib = models.PositiveIntegerField(null=True)  # None: no limit of its own
    used_bytes = models.PositiveBigIntegerField(null=True)  # None: unknown, never shown as 0
    used_at = models.DateTimeField(null=True)  # when used_bytes was measured
    delete_requested_at = models.DateTimeField(null=True)

    class Meta(Reconcilable.Meta):
        abstract = False
        constraints = [
            *Reconcilable.Meta.constraints,
            models.UniqueConstraint(
                fields=["project", "owner", "cluster_key"],
                condition=Q(kind=VolumeKind.HOME, deleted_at__isnull=True),
                name="volumes_one_home",
            ),
        ]

    def __str__(self) -> str:
        return self.name
