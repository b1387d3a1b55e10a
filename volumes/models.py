"""Places for files: what people keep, what it lies on, copies of it, and handing it over.

A person has one home in each project on each cluster; it outlives work.
"""

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from clusters.models import Cluster, Pool
from common.clock import now
from common.ids import new_uid
from projects.models import Project
from runtime.models import Reconcilable
from runtime.protocol import Desired
from volumes.choices import BackingKind, Medium, TransferState, VolumeKind, WritePolicy

MIB = 1024 * 1024
NEARLY_FULL = 90  # percent: people are told
# Clocks of machines differ: nobody brings back what a worker may be removing already.
UNDO_ENDS_EARLIER = timedelta(minutes=1)


class VolumeClass(models.Model):
    """A kind of storage as data: what it is, costs and lies on. Operators write it.

    A volume keeps the backing that its class had when the volume was made: changing a class
    moves nothing. ``derived`` is kept in line with the options of its one cluster until an
    operator changes it.
    """

    KIND = "volume-class"

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    key = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=80)
    description = models.CharField(max_length=300, blank=True, default="")
    medium = models.CharField(max_length=16, choices=Medium.choices, blank=True, default="")
    speed = models.CharField(max_length=120, blank=True, default="")  # words: "2 GB/s, shared"
    price = models.DecimalField(max_digits=10, decimal_places=4, default=0)  # GiB and month
    backing_kind = models.CharField(max_length=16, choices=BackingKind.choices)
    options = models.JSONField(default=dict, blank=True)  # volumes.backing
    can_snapshot = models.BooleanField(default=True)  # and the cluster must be able to
    min_size_mib = models.PositiveBigIntegerField(default=1024)
    max_size_mib = models.PositiveBigIntegerField(null=True)  # None: no largest size
    # Of homes and shared volumes, which nobody asks for; None: no limit of their own.
    default_size_mib = models.PositiveBigIntegerField(null=True)
    enabled = models.BooleanField(default=True)
    derived = models.BooleanField(default=False)
    position = models.PositiveIntegerField(default=0)
    clusters = models.ManyToManyField(Cluster, through="ClassPlace", related_name="volume_classes")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    generation = models.PositiveBigIntegerField(default=1)

    class Meta:
        ordering = ["position", "name", "key"]

    def __str__(self) -> str:
        return self.name


class ClassPlace(models.Model):
    """A class that is offered on a cluster; one of them is what is taken unasked."""

    volume_class = models.ForeignKey(VolumeClass, on_delete=models.CASCADE, related_name="places")
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="class_places")
    is_default = models.BooleanField(default=False)
    # The parts of the cluster that its storage stands near; none: near no one more than others
    near = models.ManyToManyField(Pool, blank=True, related_name="class_places")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["volume_class", "cluster"], name="volumes_class_once_on_cluster"
            ),
            models.UniqueConstraint(
                fields=["cluster"], condition=Q(is_default=True), name="volumes_one_default_class"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.volume_class} / {self.cluster}"


class Volume(Reconcilable):
    """A folder on one machine, a claim on a cluster. ``owner`` None: it belongs to the project.

    Each ``…_serial`` counts what was asked for, each ``…_done`` what was carried out: while
    they differ the volume is being restored or moved, and nobody may use it.
    """

    KIND = "volume"

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="volumes")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="volumes"
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    kind = models.CharField(max_length=16, choices=VolumeKind.choices, default=VolumeKind.HOME)
    name = models.CharField(_("name"), max_length=63)
    description = models.CharField(max_length=500, blank=True, default="", db_default="")
    write_policy = models.CharField(
        max_length=16,
        choices=WritePolicy.choices,
        default=WritePolicy.EVERYBODY,
        db_default=WritePolicy.EVERYBODY,
    )
    volume_class = models.ForeignKey(
        VolumeClass, null=True, on_delete=models.PROTECT, related_name="volumes"
    )
    # As the class had it when the volume was made; "": the cluster's own default
    backing_kind = models.CharField(max_length=16, blank=True, default="", db_default="")
    backing_options = models.JSONField(default=dict, db_default={}, blank=True)
    # Of a cache: what it is a copy of, in words, and what caches of the same have in common
    cache_of = models.CharField(max_length=1400, blank=True, default="", db_default="")
    cache_mark = models.CharField(max_length=64, blank=True, default="", db_default="")
    size_limit_mib = models.PositiveBigIntegerField(null=True)  # None: no limit of its own
    # What its storage was last seen to give; None: not known yet, 0: it had no limit then
    given_mib = models.PositiveBigIntegerField(null=True)
    growing_since = models.DateTimeField(null=True)  # asked for more, and not given yet
    # In the storage's words why the last wish for more came to nothing, until the next one
    growth_refused = models.CharField(max_length=400, blank=True, default="", db_default="")
    used_bytes = models.PositiveBigIntegerField(null=True)  # None: unknown, never shown as 0
    used_at = models.DateTimeField(null=True)  # when used_bytes was measured
    # not everything could be counted
    used_at_least = models.BooleanField(default=False, db_default=False)
    # Only where a size is found out by a program beside the data (volumes.measuring)
    measure_asked_at = models.DateTimeField(null=True)
    measuring_since = models.DateTimeField(null=True)
    measure_not_before = models.DateTimeField(null=True)
    # what the driver can do with it
    abilities = models.JSONField(default=dict, db_default={}, blank=True)
    nearly_full_at = models.DateTimeField(null=True)  # since when, and that people were told
    last_used_at = models.DateTimeField(null=True)
    last_used_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    delete_requested_at = models.DateTimeField(null=True)
    delete_after = models.DateTimeField(null=True)  # until then it can be brought back
    restore_from = models.ForeignKey(
        "VolumeSnapshot", null=True, on_delete=models.SET_NULL, related_name="+"
    )
    restore_serial = models.PositiveIntegerField(default=0, db_default=0)
    restore_done = models.PositiveIntegerField(default=0, db_default=0)
    move_serial = models.PositiveIntegerField(default=0, db_default=0)
    move_done = models.PositiveIntegerField(default=0, db_default=0)

    class Meta(Reconcilable.Meta):
        abstract = False
        constraints = [
            *Reconcilable.Meta.constraints,
            models.UniqueConstraint(
                fields=["project", "owner", "cluster_key"],
                condition=Q(kind=VolumeKind.HOME, deleted_at__isnull=True),
                name="volumes_one_home",
            ),
            models.UniqueConstraint(
                fields=["project", "cluster_key"],
                condition=Q(kind=VolumeKind.PROJECT, deleted_at__isnull=True),
                name="volumes_one_shared",
            ),
            # One that is being deleted leaves its name to others.
            models.UniqueConstraint(
                fields=["project", "cluster_key", "name"],
                condition=Q(
                    kind__in=[VolumeKind.PROJECT, VolumeKind.DATA],
                    deleted_at__isnull=True,
                    delete_requested_at__isnull=True,
                ),
                name="volumes_name_once",
            ),
            models.CheckConstraint(
                condition=Q(restore_done__lte=F("restore_serial"))
                & Q(move_done__lte=F("move_serial")),
                name="volumes_done_lte_asked",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return f"/projects/{self.project.slug}/volumes/{self.uid}/"

    @property
    def size_bytes(self) -> int | None:
        return None if self.size_limit_mib is None else self.size_limit_mib * MIB

    @property
    def is_full(self) -> bool:
        """Holds as much as it may, or more. Unknown is never full."""
        if self.size_bytes is None or self.used_bytes is None:
            return False
        return self.used_bytes >= self.size_bytes

    @property
    def percent(self) -> int | None:
        """How much of its size is used, for a bar; None where either is unknown."""
        if not self.size_bytes or self.used_bytes is None:
            return None
        return round(100 * self.used_bytes / self.size_bytes)

    @property
    def is_nearly_full(self) -> bool:
        return self.percent is not None and self.percent >= NEARLY_FULL

    @property
    def is_being_deleted(self) -> bool:
        return self.desired == Desired.ABSENT

    @property
    def can_be_brought_back(self) -> bool:
        due = self.delete_after
        return self.is_being_deleted and due is not None and due > now() + UNDO_ENDS_EARLIER

    @property
    def is_growing(self) -> bool:
        return self.growing_since is not None and not self.is_being_deleted

    @property
    def is_restoring(self) -> bool:
        return self.restore_done < self.restore_serial

    @property
    def is_moving(self) -> bool:
        return self.move_done < self.move_serial

    @property
    def is_cache(self) -> bool:
        """Whether it can be loaded again at any time: what it holds lies elsewhere too."""
        return bool(self.cache_mark)

    @property
    def mount_name(self) -> str:
        """Return the folder's name where it is mounted."""
        return "home" if self.kind == VolumeKind.HOME else self.name


class VolumeDay(models.Model):
    """How full a volume was when it was measured last on a day (UTC). Of the project it was in."""

    volume = models.ForeignKey(Volume, on_delete=models.CASCADE, related_name="days")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    day = models.DateField(db_index=True)
    used_bytes = models.PositiveBigIntegerField()
    at_least = models.BooleanField(default=False)
    size_limit_mib = models.PositiveBigIntegerField(null=True)  # None: it had no limit of its own

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["volume", "day"], name="volumes_day_once"),
        ]

    def __str__(self) -> str:
        return f"{self.volume} {self.day}"

    @property
    def size_bytes(self) -> int | None:
        return None if self.size_limit_mib is None else self.size_limit_mib * MIB


class VolumeSnapshot(Reconcilable):
    """A copy of a volume at one moment, kept beside it by the storage."""

    KIND = "volume-snapshot"

    volume = models.ForeignKey(Volume, on_delete=models.PROTECT, related_name="snapshots")
    name = models.CharField(max_length=63)
    description = models.CharField(max_length=300, blank=True, default="")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    size_bytes = models.PositiveBigIntegerField(null=True)  # None: unknown

    class Meta(Reconcilable.Meta):
        abstract = False
        constraints = [
            *Reconcilable.Meta.constraints,
            models.UniqueConstraint(
                fields=["volume", "name"],
                condition=Q(deleted_at__isnull=True),
                name="volumes_snapshot_name_once",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class VolumeTransfer(models.Model):
    """One project's owner offers a volume; an owner of the other takes it, or not.

    ``to_project`` None: there is no such project. The one who asks is not told, so that nobody
    learns of projects by asking.
    """

    KIND = "volume-transfer"

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    volume = models.ForeignKey(Volume, on_delete=models.CASCADE, related_name="transfers")
    from_project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    to_slug = models.CharField(max_length=40)
    to_project = models.ForeignKey(Project, null=True, on_delete=models.CASCADE, related_name="+")
    state = models.CharField(
        max_length=16, choices=TransferState.choices, default=TransferState.ASKED
    )
    message = models.CharField(max_length=300, blank=True, default="")
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    asked_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    decided_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["volume"],
                condition=Q(state=TransferState.ASKED),
                name="volumes_one_open_transfer",
            )
        ]

    def __str__(self) -> str:
        return f"{self.volume} → {self.to_slug}"

    @property
    def is_open(self) -> bool:
        return self.state == TransferState.ASKED and self.expires_at > now()
