"""How the GPUs of a cluster are shared: the tree, what each part of it has, priorities."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from clusters.models import Cluster, Flavor
from common.ids import new_uid
from projects.models import Project
from queues.choices import Purpose, Who
from runtime.models import Reconcilable

MAX_DEVICES = 1_000_000


class Queue(models.Model):
    """An organisation, or the queue of a project. A project without a row stands at the top.

    ``build_exceeds``: work that people sit in front of may hold more than is guaranteed, and may
    then be told to give it back; otherwise it waits until it is within the guarantee. ``longest``:
    how long work of some purpose runs at most, here and below.
    """

    KIND = "queue"

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    name = models.CharField(_("name"), max_length=63)  # of an organisation; of a project: its slug
    project = models.OneToOneField(
        Project, null=True, on_delete=models.CASCADE, related_name="own_queue"
    )
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.PROTECT, related_name="children"
    )
    weight = models.DecimalField(
        _("weight"),
        max_digits=6,
        decimal_places=2,
        default=1,
        validators=[MinValueValidator(0), MaxValueValidator(1000)],
    )
    build_exceeds = models.BooleanField(_("building may exceed the guarantee"), default=False)
    longest = models.JSONField(default=dict, db_default={}, blank=True)  # purpose → minutes
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["name"], condition=Q(project__isnull=True), name="queues_name_once"
            ),
            models.CheckConstraint(condition=~Q(parent=F("pk")), name="queues_not_below_itself"),
        ]

    def __str__(self) -> str:
        return self.project.name if self.project else self.name

    @property
    def key(self) -> str:
        """By what ``queues.sharing`` knows it."""
        return str(self.project.uid if self.project else self.uid)


class Guarantee(models.Model):
    """What one part of the tree has of one kind of GPU on one cluster."""

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="guarantees")
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    flavor = models.ForeignKey(Flavor, on_delete=models.CASCADE, related_name="+")
    guaranteed = models.PositiveIntegerField(default=0, validators=[MaxValueValidator(MAX_DEVICES)])
    # guaranteed and borrowed together; None: whatever is free
    most = models.PositiveIntegerField(null=True, validators=[MaxValueValidator(MAX_DEVICES)])
    # how many of the guaranteed ones others may use while they are not used; None: all
    lends = models.PositiveIntegerField(null=True, validators=[MaxValueValidator(MAX_DEVICES)])

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["queue", "cluster", "flavor"], name="queues_guarantee_once"
            ),
            models.CheckConstraint(
                condition=Q(most__isnull=True) | Q(most__gte=F("guaranteed")),
                name="queues_most_holds_guaranteed",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.queue}: {self.guaranteed} × {self.flavor}"  # noqa: RUF001 - the sign


class Priority(models.Model):
    """A class of priority, and who may ask for it. ``purpose``: the one that such work has."""

    KIND = "priority"

    name = models.SlugField(max_length=40, unique=True)
    label = models.CharField(max_length=80)
    value = models.IntegerField(
        validators=[MinValueValidator(-1_000_000), MaxValueValidator(1_000_000)]
    )
    who = models.CharField(max_length=12, choices=Who.choices, default=Who.EVERYBODY)
    purpose = models.CharField(max_length=12, choices=Purpose.choices, blank=True, default="")

    class Meta:
        ordering = ["-value", "name"]
        verbose_name_plural = "priorities"
        constraints = [
            models.UniqueConstraint(
                fields=["purpose"], condition=~Q(purpose=""), name="queues_one_for_a_purpose"
            )
        ]

    def __str__(self) -> str:
        return self.label


class Turn(models.Model):
    """One time that work held GPUs, from when it asked; what estimates and replays go by."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    workload_uid = models.UUIDField()
    workload_kind = models.CharField(max_length=32)
    project_uid = models.UUIDField()
    gpus = models.PositiveIntegerField()
    gpu_flavor = models.CharField(max_length=255, blank=True, default="")  # as it was asked for
    asked_at = models.DateTimeField()
    granted_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    expected_from = models.DateTimeField(null=True)  # what was told first, while it waited
    expected_until = models.DateTimeField(null=True)
    gave_back = models.BooleanField(default=False)

    class Meta:
        indexes = [models.Index(fields=["cluster", "-ended_at"], name="queues_turns")]

    def __str__(self) -> str:
        return f"{self.workload_uid} {self.granted_at:%F %T}"


class ClusterQueues(Reconcilable):
    """The objects of the tree on one cluster that has Kueue; its generation grows with the tree."""

    KIND = "queues"

    class Meta(Reconcilable.Meta):
        abstract = False
        constraints = [
            *Reconcilable.Meta.constraints,
            models.UniqueConstraint(
                fields=["cluster_key"],
                condition=Q(deleted_at__isnull=True),
                name="queues_once_for_a_cluster",
            ),
        ]

    def __str__(self) -> str:
        return self.cluster_key
