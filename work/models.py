"""One row for each piece of work, of whatever kind: whose it is, its place, size and status.

A kind (workspace, load, …) is a child of ``Workload`` with a table of its own columns beside it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from common.ids import new_short_id
from projects.models import Project
from runtime.models import Reconcilable
from runtime.protocol import Desired, Resources
from work.rows import WorkloadManager

MAX_CPU_MILLI = 1_024_000
MAX_MEMORY_MIB = 16 * 1024 * 1024
MAX_GPUS = 64


class Ask(models.Model):
    """What a workload asks of a machine or a cluster; presets say the same."""

    cpu_milli = models.PositiveIntegerField(
        _("CPU"),
        default=2000,
        validators=[MinValueValidator(100), MaxValueValidator(MAX_CPU_MILLI)],
    )
    memory_mib = models.PositiveIntegerField(
        _("memory"),
        default=4096,
        validators=[MinValueValidator(256), MaxValueValidator(MAX_MEMORY_MIB)],
    )
    gpus = models.PositiveIntegerField(
        _("GPUs"), default=0, validators=[MaxValueValidator(MAX_GPUS)]
    )
    # "": any kind; "a,b": any of these
    gpu_flavor = models.CharField(_("kind of GPU"), max_length=255, blank=True, default="")
    shm_mib = models.PositiveIntegerField(
        _("shared memory"),
        default=0,
        db_default=0,
        validators=[MaxValueValidator(MAX_MEMORY_MIB)],
    )
    pool = models.CharField(_("pool"), max_length=63, blank=True, default="", db_default="")
    network = models.CharField(
        _("extra network"), max_length=63, blank=True, default="", db_default=""
    )

    class Meta:
        abstract = True

    @property
    def resources(self) -> Resources:
        return Resources(
            cpu_milli=self.cpu_milli,
            memory_mib=self.memory_mib,
            gpus=self.gpus,
            gpu_flavor=self.gpu_flavor,
        )


class Workload(Ask, Reconcilable):
    """A piece of work of some kind. Its settings and address survive a stop.

    The row is also the lock of all that belongs to it (``work.rows``).
    """

    # Whether a name is free for each owner in a project; otherwise once in the project.
    NAMES_PER_OWNER = False

    kind = models.CharField(max_length=16, editable=False)  # the KIND of its model
    # In the address, the host name and on the command line; never reused.
    short_id = models.CharField(max_length=16, unique=True, default=new_short_id, editable=False)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="workloads")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="workloads"
    )
    name = models.CharField(_("name"), max_length=63)
    # Among whose names this one is the only one: the owner's id, 0 for the whole project.
    name_scope = models.PositiveBigIntegerField(default=0, editable=False)
    queue = models.CharField(_("queue"), max_length=63, blank=True, default="")
    priority = models.CharField(_("priority"), max_length=63, blank=True, default="")
    nonce = models.CharField(max_length=64, blank=True, default="")  # of the form that made it
    # --- the latest launch ------------------------------------------------------------------
    launch = models.PositiveIntegerField(default=0)  # grows with each start; 0: never started
    time_limit_minutes = models.PositiveIntegerField(null=True)
    extended_minutes = models.PositiveIntegerField(default=0)  # of this launch
    asked_at = models.DateTimeField(null=True)  # this launch was wanted; its place in the line
    started_at = models.DateTimeField(null=True)  # its process began
    ready_at = models.DateTimeField(null=True)  # it answered
    ends_at = models.DateTimeField(null=True)  # the time limit strikes
    warned_at = models.DateTimeField(null=True)
    stopped_at = models.DateTimeField(null=True)  # it was over
    stop_reason = models.CharField(max_length=24, blank=True, default="")  # a word of the kind's
    stop_requested_at = models.DateTimeField(null=True)

    objects = WorkloadManager()

    class Meta(Reconcilable.Meta):
        abstract = False
        constraints = [
            *Reconcilable.Meta.constraints,
            models.UniqueConstraint(
                fields=["kind", "project", "name_scope", "name"],
                condition=Q(deleted_at__isnull=True) & ~Q(desired=Desired.ABSENT),
                name="work_name_once",
            ),
            models.UniqueConstraint(
                fields=["owner", "kind", "nonce"], condition=~Q(nonce=""), name="work_nonce_once"
            ),
        ]
        indexes = [
            *Reconcilable.Meta.indexes,
            models.Index(fields=["project", "kind", "-id"], name="work_by_project"),
            models.Index(fields=["owner", "kind", "-id"], name="work_by_owner"),
            models.Index(
                fields=["ends_at"],
                condition=Q(ends_at__isnull=False, desired=Desired.RUNNING),
                name="work_ends",
            ),
            # who is before whom in the line of a project
            models.Index(
                fields=["project", "kind", "asked_at"],
                condition=Q(deleted_at__isnull=True, desired=Desired.RUNNING),
                name="work_line",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self._state.adding:
            self.kind = self.KIND
            self.name_scope = self.owner_id if self.NAMES_PER_OWNER else 0
        super().save(*args, **kwargs)

    @property
    def time_limit(self) -> timedelta | None:
        return timedelta(minutes=self.time_limit_minutes) if self.time_limit_minutes else None
