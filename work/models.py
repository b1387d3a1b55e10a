"""One row for each piece of work, of whatever kind: whose it is, its place, size and status.

A kind (workspace, load, …) is a child of ``Workload`` with a table of its own columns beside it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.functional import cached_property
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.ids import new_short_id, new_uid
from credentials.models import Credential
from projects.models import Project
from runtime import reasons
from runtime.models import Reconcilable
from runtime.protocol import Desired, Phase
from runtime.spec import Resources
from runtime.workload_state import RECLAIMED, RESTARTED
from volumes.models import Volume
from work.choices import StopReason
from work.fields import MAX_CPU_MILLI, MAX_GPUS, MAX_MEMORY_MIB
from work.rows import WorkloadManager


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

    def settle(self) -> None:
        """Ask for no kind of GPU where none is asked for."""
        if not self.gpus:
            self.gpu_flavor = ""


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
    # a word of queues.choices.Beyond: GPU-hours of a budget of its project or owner are spent
    over_budget = models.CharField(
        max_length=8, blank=True, default="", db_default="", editable=False
    )
    nonce = models.CharField(max_length=64, blank=True, default="")  # of the form that made it
    # what it asked for before it went on without GPUs; 0: nothing
    wish_gpus = models.PositiveIntegerField(default=0, db_default=0, editable=False)
    wish_flavor = models.CharField(
        max_length=255, blank=True, default="", db_default="", editable=False
    )
    # --- the latest launch ------------------------------------------------------------------
    launch = models.PositiveIntegerField(default=0)  # grows with each start; 0: never started
    time_limit_minutes = models.PositiveIntegerField(null=True)
    extended_minutes = models.PositiveIntegerField(default=0)  # of this launch
    asked_at = models.DateTimeField(null=True)  # this launch was wanted; its place in the line
    ticket_at = models.DateTimeField(null=True)  # it has used a ticket: its place is as of then
    started_at = models.DateTimeField(null=True)  # its process began
    ready_at = models.DateTimeField(null=True)  # it answered
    ends_at = models.DateTimeField(null=True)  # the time limit strikes
    warned_at = models.DateTimeField(null=True)
    stopped_at = models.DateTimeField(null=True)  # it was over
    stop_reason = models.CharField(max_length=24, blank=True, default="")  # a word of the kind's
    stop_requested_at = models.DateTimeField(null=True)

    visitors = models.ManyToManyField(
        settings.AUTH_USER_MODEL,
        through="Share",
        through_fields=("workload", "user"),
        related_name="shared_workloads",
    )

    # What the launch of this very request attached: its answer need not ask for it.
    just_attached: Any = None
    # Why its ticket did not count in the launch of this very request (a word of choices.Void).
    just_void = ""

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
            models.Index(fields=["project", "-id"], name="work_by_project"),
            models.Index(fields=["owner", "-id"], name="work_by_owner"),
            models.Index(
                fields=["ends_at"],
                condition=Q(ends_at__isnull=False, desired=Desired.RUNNING),
                name="work_ends",
            ),
            # who is before whom in the line of a project
            models.Index(
                fields=["project", "asked_at"],
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

    @property
    def is_on_its_way(self) -> bool:
        """Whether it runs, or is wanted and will be looked at: starting it changes nothing."""
        ended = self.phase in {Phase.STOPPED, Phase.FAILED}
        return self.desired == Desired.RUNNING and not (ended and self.is_seen)

    @property
    def is_ended(self) -> bool:
        """Whether nothing of it runs and nothing is on its way: it can be started again."""
        ended = self.phase in {Phase.STOPPED, Phase.FAILED}
        return ended and not self.is_on_its_way and self.desired != Desired.ABSENT

    @property
    def shown_phase(self) -> Phase:
        """The phase for people: after a press, what was pressed, not what was before."""
        phase = Phase(self.phase)
        if self.is_seen:
            return phase
        if self.desired == Desired.ABSENT:
            return Phase.DELETING
        ended = phase in {Phase.STOPPED, Phase.FAILED}
        if self.desired == Desired.RUNNING:
            return Phase.PENDING if ended else phase
        return phase if ended else Phase.STOPPING

    @property
    def shown_word(self) -> str:
        """What says more of it than its phase; "" where nothing does."""
        parked = self.stop_reason == StopReason.PARKED and self.shown_phase == Phase.STOPPED
        return _t("Parked") if parked else ""

    @property
    def is_waiting(self) -> bool:
        """Whether nothing of this launch runs and nothing of it was handed to its cluster."""
        placed = self.external_ref.get("launch") == self.launch
        return self.desired == Desired.RUNNING and self.phase == Phase.PENDING and not placed

    @property
    def is_held_back(self) -> bool:
        """Whether it was handed to its cluster, whose queue has not let it in."""
        wanted = self.desired == Desired.RUNNING and self.phase == Phase.PENDING
        return wanted and bool(self.external_ref.get("line"))

    @property
    def homes(self) -> tuple[Volume, ...]:
        """The volumes that it has by its nature, beside those that are attached."""
        return ()

    @cached_property
    def keys_read(self) -> tuple[tuple[int, UUID], ...]:
        """Return key and uid of the credentials that it is given, as one pass over it sees them."""
        return tuple(self.keys.values_list("credential_id", "credential__uid"))


class Share(models.Model):
    """A member who may open a workload of somebody else; full access to what runs in it."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="shares")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="workload_shares"
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workload", "user"], name="work_share_once")]

    def __str__(self) -> str:
        return f"{self.workload} / {self.user}"


class Attached(models.Model):
    """What a workload is given; kept in the order in which it was said."""

    position = models.PositiveSmallIntegerField(default=0)

    class Meta:
        abstract = True
        ordering = ["position", "id"]


class WorkloadVolume(Attached):
    """A volume that it sees."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="mounts")
    volume = models.ForeignKey(Volume, on_delete=models.PROTECT, related_name="mounted_by")
    read_only = models.BooleanField(default=False)

    class Meta(Attached.Meta):
        abstract = False
        constraints = [
            models.UniqueConstraint(fields=["workload", "volume"], name="work_mount_once")
        ]

    def __str__(self) -> str:
        return f"{self.volume}:ro" if self.read_only else str(self.volume)


class WorkloadCredential(Attached):
    """A credential that is put into it at its start."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="keys")
    credential = models.ForeignKey(
        Credential, on_delete=models.CASCADE, related_name="workload_keys"
    )

    class Meta(Attached.Meta):
        abstract = False
        constraints = [
            models.UniqueConstraint(fields=["workload", "credential"], name="work_key_once")
        ]

    def __str__(self) -> str:
        return str(self.credential)


class WorkloadNeed(Attached):
    """Work that must be done before this asks for its place, so that no GPU waits for data."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="needs")
    needed = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="needed_by")

    class Meta(Attached.Meta):
        abstract = False
        constraints = [
            models.UniqueConstraint(fields=["workload", "needed"], name="work_need_once")
        ]

    def __str__(self) -> str:
        return str(self.needed)


class Ticket(models.Model):
    """The way back of work that was parked: so many GPUs ahead of newcomers, once, for a time.

    It keeps what was held also while the work goes on without GPUs.
    """

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="tickets")
    gpus = models.PositiveIntegerField()
    gpu_flavor = models.CharField(max_length=255, blank=True, default="")  # as it was asked for
    parked_at = models.DateTimeField()
    valid_until = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    void = models.CharField(max_length=24, blank=True, default="")  # a word of choices.Void

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workload"],
                condition=Q(used_at__isnull=True, void=""),
                name="work_ticket_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.workload}: {self.gpus}"


class Step(models.Model):
    """One line of the timeline, written in the transaction of the status change."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="steps")
    launch = models.PositiveIntegerField()
    word = models.CharField(max_length=24)
    at = models.DateTimeField()
    message = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["workload", "launch", "id"], name="work_steps")]

    def __str__(self) -> str:
        return self.word

    @property
    def shown_message(self) -> str:
        """In the reader's language where the message is the word of a reason."""
        if self.word == RESTARTED:
            return str(reasons.info(self.message).text) if self.message else ""
        if self.word == RECLAIMED:  # for whom is told to those who may know (work.reclaim)
            return str(reasons.info(reasons.Reason.PREEMPTED).text)
        return self.message
