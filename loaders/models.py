"""Loads: copies between object stores and volumes, how far they are, and what each run did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from common.ids import new_uid
from credentials.models import Credential
from loaders import selection
from loaders.choices import Direction, Mode, Result, Stage, StoreKind, Task, Uploads
from loaders.policies import url_of
from runtime.protocol import Desired, Phase
from volumes.models import Volume
from work.models import Workload

if TYPE_CHECKING:
    from volumes.services.create import NewVolume

ENDED = (Phase.STOPPED, Phase.FAILED)
# Which store it is says the credential.
OF_CREDENTIAL = frozenset({StoreKind.S3_COMPATIBLE, StoreKind.HDFS, StoreKind.MLFLOW})


class Progress(models.Model):
    """What was counted; of a load as it is now, of a run as it ended. Sizes in bytes."""

    files_found = models.PositiveBigIntegerField(default=0)
    files_done = models.PositiveBigIntegerField(default=0)
    files_unchanged = models.PositiveBigIntegerField(default=0)
    files_skipped = models.PositiveBigIntegerField(default=0)
    files_failed = models.PositiveBigIntegerField(default=0)
    files_deleted = models.PositiveBigIntegerField(default=0)
    bytes_found = models.PositiveBigIntegerField(default=0)
    bytes_done = models.PositiveBigIntegerField(default=0)
    bytes_read = models.PositiveBigIntegerField(default=0)
    listed = models.BooleanField(default=False)  # the numbers found are final
    verified = models.JSONField(default=dict, blank=True)  # way → how many objects
    errors = models.JSONField(default=list, blank=True)  # [{key, code, message}], newest, ≤ 50
    manifest = models.CharField(max_length=1024, blank=True, default="")  # a path in the volume

    class Meta:
        abstract = True


class Load(Progress, Workload):
    """One source, one target, and how it is copied. Runs many times; ``launch`` counts them."""

    KIND = "load"

    # --- what is copied -------------------------------------------------------------------
    direction = models.CharField(max_length=8, choices=Direction.choices, default=Direction.IN)
    mode = models.CharField(max_length=8, choices=Mode.choices, default=Mode.COPY)
    # None without ``anonymous``: it was removed, and the load does not run any more
    credential = models.ForeignKey(
        Credential, null=True, on_delete=models.SET_NULL, related_name="loads"
    )
    anonymous = models.BooleanField(default=False)
    # what API, document and command line call its kind
    store_kind = models.CharField(max_length=16, choices=StoreKind.choices)
    bucket = models.CharField(max_length=255)
    prefix = models.CharField(max_length=1024, blank=True, default="")
    objects_listed = models.JSONField(null=True)  # None: all below the prefix
    # Of a public bucket only: a credential has its own.
    endpoint = models.CharField(max_length=255, blank=True, default="")
    region = models.CharField(max_length=63, blank=True, default="")
    path_style = models.BooleanField(default=False)
    version = models.CharField(max_length=63, blank=True, default="")  # what people call it
    volume = models.ForeignKey(Volume, on_delete=models.PROTECT, related_name="loads")
    folder = models.CharField(max_length=1024, blank=True, default="")
    include = models.JSONField(default=list, blank=True)
    exclude = models.JSONField(default=list, blank=True)
    delete_extra = models.BooleanField(default=False)
    bandwidth_bytes_s = models.PositiveBigIntegerField(null=True)
    # What makes two loads the same: source, version, target, and which objects of it.
    fingerprint = models.CharField(max_length=64, db_index=True)
    # --- when -----------------------------------------------------------------------------
    schedule = models.CharField(max_length=100, blank=True, default="")  # five fields
    time_zone = models.CharField(max_length=63, blank=True, default="")
    next_run_at = models.DateTimeField(null=True)
    # why the latest scheduled run did not start
    schedule_note = models.CharField(max_length=300, blank=True, default="")
    # --- the latest run ---------------------------------------------------------------------
    task = models.CharField(max_length=8, choices=Task.choices, default=Task.LOAD)
    result = models.CharField(max_length=16, choices=Result.choices, blank=True, default="")
    result_code = models.CharField(max_length=32, blank=True, default="")
    result_message = models.CharField(max_length=500, blank=True, default="")
    # The data lies in the target as it is described now (a full run ended well); None: not.
    loaded_at = models.DateTimeField(null=True)
    dry_run = models.JSONField(null=True)  # {files, bytes, seconds, at}
    # --- the latest report ------------------------------------------------------------------
    stage = models.CharField(max_length=16, choices=Stage.choices, blank=True, default="")
    rate_bytes_s = models.PositiveBigIntegerField(default=0)
    eta_s = models.PositiveBigIntegerField(null=True)  # None: not known
    concurrency = models.PositiveIntegerField(default=0)
    seq = models.PositiveBigIntegerField(default=0)
    reported_at = models.DateTimeField(null=True)
    final = models.JSONField(null=True)  # as the run itself told (``reports``)
    # --- cut off (killed, its machine gone): it goes on by itself -----------------------------
    retry_at = models.DateTimeField(null=True)
    # by itself, since a person started it
    tries = models.PositiveSmallIntegerField(default=0, db_default=0)
    # --- parts of files at the store (exports): given up when it is cancelled or removed -----
    uploads = models.CharField(
        max_length=8, choices=Uploads.choices, blank=True, default="", db_default=""
    )
    uploads_at = models.DateTimeField(null=True)  # giving up began

    # The work whose output it copies; it goes with that, and no list shows it. None: its own.
    made_for = models.UUIDField(null=True, db_index=True)

    # So many complete checkpoints are copied out of it, and nothing else; in: the newest back.
    newest = models.PositiveSmallIntegerField(default=0, db_default=0)
    # In: the time of the newest at the store, in nanoseconds; a folder with one as new needs none.
    newest_at = models.BigIntegerField(default=0, db_default=0)

    # The target of a load that is not saved, where it is a cache that is made with it.
    cache: NewVolume | None = None

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(credential__isnull=True) | Q(anonymous=False),
                name="loaders_anonymous_has_no_credential",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_run_at"],
                condition=Q(next_run_at__isnull=False),
                name="loaders_schedule",
            ),
            # those that did not end, beside all those that did
            models.Index(fields=["workload_ptr"], condition=Q(result=""), name="loaders_not_ended"),
        ]

    def get_absolute_url(self) -> str:
        return f"/projects/{self.project.slug}/loads/{self.uid}/"

    @property
    def url(self) -> str:
        """The source or target as people write it."""
        return url_of(self.store_kind, self.bucket, self.prefix)

    @property
    def store(self) -> str:
        """Which store it is, where its kind does not say that."""
        if self.store_kind in OF_CREDENTIAL and self.credential is not None:
            return str(self.credential.target)
        return self.endpoint

    @property
    def is_export(self) -> bool:
        return self.direction == Direction.OUT

    @property
    def target(self) -> str:
        """The folder of the volume that an import writes into, and deletes in."""
        return selection.target(
            folder=self.folder, prefix=self.prefix, listed=self.objects_listed is not None
        )

    @property
    def goes_on(self) -> bool:
        """Whether it was cut off and starts again by itself."""
        return self.retry_at is not None and self.desired == Desired.RUNNING

    @property
    def is_on_its_way(self) -> bool:
        """Whether it runs, or is wanted and will be looked at: starting it changes nothing."""
        if self.goes_on:
            return True
        over = bool(self.result) or (self.phase in ENDED and self.is_seen)
        return self.desired == Desired.RUNNING and not over

    @property
    def is_active(self) -> bool:
        """Whether something of it runs or will."""
        return self.is_on_its_way or self.phase in {
            Phase.STARTING,
            Phase.RUNNING,
            Phase.STOPPING,
        }


# The same as ``is_active``, for the database.
ACTIVE = Q(deleted_at__isnull=True) & (
    (
        Q(desired=Desired.RUNNING, result="")
        & ~Q(phase__in=ENDED, observed_generation__gte=F("generation"))
    )
    | Q(phase__in=[Phase.STARTING, Phase.RUNNING, Phase.STOPPING])
)


class LoadRun(Progress):
    """One run of a load: what it was asked to do, and how it ended."""

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    load = models.ForeignKey(Load, on_delete=models.CASCADE, related_name="runs")
    launch = models.PositiveIntegerField()
    task = models.CharField(max_length=8, choices=Task.choices)
    started_by = models.ForeignKey(  # None: its schedule, or nobody who is still there
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    scheduled = models.BooleanField(default=False)
    asked_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    result = models.CharField(max_length=16, choices=Result.choices, blank=True, default="")
    code = models.CharField(max_length=32, blank=True, default="")
    message = models.CharField(max_length=500, blank=True, default="")

    class Meta:
        ordering = ["-launch"]
        constraints = [models.UniqueConstraint(fields=["load", "launch"], name="loaders_run_once")]
        indexes = [models.Index(fields=["ended_at", "result"], name="loaders_runs_ended")]

    def __str__(self) -> str:
        return f"{self.load_id}/{self.launch}"


class RunLog(models.Model):
    """The end of what a run wrote; a row of its own, because lists of runs do not tell it."""

    run = models.OneToOneField(
        LoadRun, primary_key=True, on_delete=models.CASCADE, related_name="log"
    )
    start = models.PositiveBigIntegerField()  # offset of its first byte in all that was written
    data = models.BinaryField()

    def __str__(self) -> str:
        return f"{self.run_id}: {len(self.data)}"
