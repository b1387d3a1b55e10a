"""Policies for idle work, and the stretches of idleness that they look at."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from common.ids import new_uid
from parking.choices import MAX_EXTENSIONS, MAX_MINUTES, WEEK, Act, State
from parking.judgement import Hours, Rule
from projects.models import Project
from queues.models import Queue
from work.models import Workload

_FEW = [MinValueValidator(1), MaxValueValidator(MAX_MINUTES)]


class IdlePolicy(models.Model):
    """What is done with idle work of a project, of an organisation, or of everybody.

    The nearest one holds: that of the project, of the organisations above it, of the platform; of
    two that are as near, the one that names the kind of work.
    """

    KIND = "idle-policy"

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    project = models.ForeignKey(
        Project, null=True, on_delete=models.CASCADE, related_name="idle_policies"
    )
    organisation = models.ForeignKey(
        Queue, null=True, on_delete=models.CASCADE, related_name="idle_policies"
    )
    kind = models.CharField(  # "": any that goes on until it is stopped
        _("kind of work"), max_length=16, blank=True, default=""
    )
    state = models.CharField(_("state"), max_length=8, choices=State.choices, default=State.DRY_RUN)
    minutes = models.PositiveIntegerField(_("idle for"), default=60, validators=_FEW)
    grace = models.PositiveIntegerField(_("notice"), default=15, validators=_FEW)
    act = models.CharField(_("what follows"), max_length=8, choices=Act.choices, default=Act.PARK)
    gpu_below = models.FloatField(
        _("GPU below"), default=5.0, validators=[MinValueValidator(0.1), MaxValueValidator(100)]
    )
    cpu_below = models.PositiveIntegerField(
        _("processor below"), default=50, validators=[MinValueValidator(1)]
    )
    memory_below = models.PositiveIntegerField(_("GPU memory below"), null=True, blank=True)
    network_below = models.PositiveIntegerField(_("network below"), null=True, blank=True)
    extension = models.PositiveIntegerField(
        _("one extension"), default=120, validators=[MaxValueValidator(MAX_MINUTES)]
    )
    extensions = models.PositiveIntegerField(
        _("extensions without a reason"),
        default=2,
        validators=[MaxValueValidator(MAX_EXTENSIONS)],
    )
    weekdays = models.CharField(_("days of the week"), max_length=7, default=WEEK)
    from_hour = models.PositiveSmallIntegerField(
        _("from"), default=0, validators=[MaxValueValidator(23)]
    )
    until_hour = models.PositiveSmallIntegerField(
        _("until"), default=24, validators=[MinValueValidator(1), MaxValueValidator(24)]
    )
    zone = models.CharField(_("time zone"), max_length=64, default="UTC")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(project__isnull=True) | Q(organisation__isnull=True),
                name="parking_one_scope",
            ),
            models.UniqueConstraint(
                fields=["kind"],
                condition=Q(project__isnull=True, organisation__isnull=True),
                name="parking_platform_once",
            ),
            models.UniqueConstraint(
                fields=["project", "kind"],
                condition=Q(project__isnull=False),
                name="parking_project_once",
            ),
            models.UniqueConstraint(
                fields=["organisation", "kind"],
                condition=Q(organisation__isnull=False),
                name="parking_organisation_once",
            ),
        ]

    def __str__(self) -> str:
        if self.project is not None:
            return self.project.name
        return self.organisation.name if self.organisation else "*"

    @property
    def rule(self) -> Rule:
        return Rule(
            minutes=self.minutes + self.grace,
            notice=self.grace,
            least=self.grace,
            act=self.act,
            gpu_below=self.gpu_below,
            cpu_below=self.cpu_below,
            memory_below=self.memory_below,
            network_below=None if self.network_below is None else self.network_below * 1024.0,
            hours=Hours(self.weekdays, self.from_hour, self.until_hour, ZoneInfo(self.zone)),
            extension=self.extension,
            extensions=self.extensions,
        )


class JobHint(models.Model):
    """It was said of a workspace that its program would run as well as a job; once."""

    workload = models.OneToOneField(Workload, on_delete=models.CASCADE, related_name="job_hint")
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.workload_id} {self.at}"


class Stretch(models.Model):
    """A time in which one piece of work is idle; it goes when the work is used again.

    Everything that must outlive a worker: since when it is quiet, whether its owner was told, when
    it is acted upon, and by how much that was put off.
    """

    workload = models.OneToOneField(Workload, on_delete=models.CASCADE, related_name="idle")
    launch = models.PositiveIntegerField()
    policy = models.ForeignKey(  # null: by the work's own rule
        IdlePolicy, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    since = models.DateTimeField()
    quiet_since = models.DateTimeField()  # of its processor and GPUs
    quiet_until = models.DateTimeField()
    warned_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)  # when it is acted upon, as its owner was told
    extended_until = models.DateTimeField(null=True)
    extensions = models.PositiveIntegerField(default=0)
    done_at = models.DateTimeField(null=True)  # a dry run, or "only tell": nothing more follows

    def __str__(self) -> str:
        return f"{self.workload_id} {self.since}"
