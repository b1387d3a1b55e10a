"""Performance tests: what was measured, where it ran, and what came out."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.urls import reverse

from common.ids import new_uid
from jobs.models import Job
from perftests.choices import Backend, State, Test
from projects.models import Project


class PerfTest(models.Model):
    """One test that was run as a job. What it measured outlives the job."""

    KIND = "perftest"

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="perftests")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    name = models.CharField(max_length=63)  # of its job
    job = models.ForeignKey(Job, null=True, on_delete=models.SET_NULL, related_name="+")
    test = models.CharField(max_length=16, choices=Test.choices)
    replicas = models.PositiveSmallIntegerField()
    gpus = models.PositiveSmallIntegerField()  # of each replica
    max_mib = models.PositiveIntegerField()
    variables = models.JSONField(default=dict)  # NCCL_… → value
    said = models.JSONField(default=dict)  # of its job besides: image, environment, cluster
    # --- where it ran -------------------------------------------------------------------------
    cluster_key = models.CharField(max_length=63, blank=True, default="")
    flavor = models.CharField(max_length=255, blank=True, default="")
    nodes = models.JSONField(default=list)
    spread = models.JSONField(default=dict)  # level → the names of its parts that it ran in
    # --- what came out ------------------------------------------------------------------------
    backend = models.CharField(max_length=12, choices=Backend.choices, blank=True, default="")
    lines = models.JSONField(default=list)  # one for each size, or number of replicas
    is_baseline = models.BooleanField(default=False)
    state = models.CharField(max_length=10, choices=State.choices, default=State.RUNNING)
    message = models.CharField(max_length=500, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)

    # What two tests have in common that can be compared.
    SHAPE = ("project", "test", "cluster_key", "flavor", "replicas", "gpus", "backend", "max_mib")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=[
                    *("project", "test", "cluster_key", "flavor"),
                    *("replicas", "gpus", "backend", "max_mib"),
                ],
                condition=Q(is_baseline=True),
                name="perftests_one_baseline",
            )
        ]
        indexes = [
            models.Index(fields=["state"], condition=Q(state="running"), name="perftests_live")
        ]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        kwargs = {"project": self.project.slug, "perftest": self.uid}
        return reverse("perftests:detail", kwargs=kwargs)

    @property
    def is_scaling(self) -> bool:
        return self.test == Test.SCALING

    @property
    def headline(self) -> float | None:
        """Busbw in GB/s of the largest size; of a scaling test, what of the ideal was reached."""
        if not self.lines:
            return None
        last = self.lines[-1]
        if not self.is_scaling:
            return float(last["busbw"])
        return efficiency(self.lines[0], last)


def efficiency(first: dict[str, float], line: dict[str, float]) -> float:
    """Return how near so many replicas came to as many times the speed of the first line."""
    ideal = first["steps_per_s"] * line["replicas"] / first["replicas"]
    return line["steps_per_s"] / ideal if ideal else 0.0
