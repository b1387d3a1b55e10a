"""A search for good parameters: one template of a job, and the trials that were made of it."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import models
from django.urls import reverse

from common.ids import new_uid
from credentials.sealing import SealedMapping
from experiments.choices import Algorithm, Engine, Goal, Reason, State, TrialState
from jobs.models import Job
from projects.models import Project


class Experiment(models.Model):
    """What is searched, how, and for how long. Its trials are the only memory of the search."""

    KIND = "experiment"

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="experiments")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="experiments"
    )
    name = models.CharField(max_length=50)
    sealed = SealedMapping(default=dict)  # the fields of a job as JSON: they may hold secrets
    parameters = models.JSONField()
    metric = models.CharField(max_length=63)
    objective = models.CharField(max_length=8, choices=Goal.choices)
    goal = models.FloatField(null=True)
    algorithm = models.CharField(max_length=8, choices=Algorithm.choices)
    seed = models.PositiveIntegerField()
    trials_max = models.PositiveSmallIntegerField()
    parallel = models.PositiveSmallIntegerField()
    failed_max = models.PositiveSmallIntegerField()
    gpu_hours = models.FloatField(null=True)  # None: as much as limits and budgets allow
    early_stopping = models.BooleanField(default=False)
    engine = models.CharField(
        max_length=8, choices=Engine.choices, default=Engine.OPTUNA, db_default="optuna"
    )
    # Where Katib chooses, and its trials run; which of its begins; whether Katib has objects of it.
    cluster_key = models.CharField(max_length=63, blank=True, default="", db_default="")
    generation = models.PositiveSmallIntegerField(default=0, db_default=0)
    begun_before = models.PositiveSmallIntegerField(default=0, db_default=0)  # trials, by then
    in_katib = models.BooleanField(default=False, db_default=False)
    silent_since = models.DateTimeField(null=True)  # Katib is asked for values, and has none
    state = models.CharField(max_length=10, choices=State.choices, default=State.RUNNING)
    reason = models.CharField(max_length=16, choices=Reason.choices, blank=True, default="")
    message = models.CharField(max_length=500, blank=True, default="")  # what it waits for
    created_at = models.DateTimeField(auto_now_add=True)
    restarted_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="experiments_name_once")
        ]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        kwargs = {"project": self.project.slug, "experiment": self.uid}
        return reverse("experiments:detail", kwargs=kwargs)

    @property
    def template(self) -> dict[str, Any]:
        """The fields of a job, with ``${trialParameters.name}`` where a value goes."""
        found: dict[str, Any] = json.loads(self.sealed["job"])
        return found

    @property
    def asked_at(self) -> datetime:
        return self.restarted_at or self.created_at

    @property
    def maximizes(self) -> bool:
        return self.objective == Goal.MAXIMIZE


class TrainingSearch(models.Model):
    """What a search was submitted as, in the words of AI Platform Training."""

    experiment = models.OneToOneField(
        Experiment, on_delete=models.CASCADE, related_name="training_search"
    )
    document = models.JSONField(default=dict)  # its trainingInput
    labels = models.JSONField(default=dict)

    def __str__(self) -> str:
        return str(self.experiment_id)


class Trial(models.Model):
    """One set of values, and the job that runs with it."""

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="trials")
    number = models.PositiveSmallIntegerField()
    parameters = models.JSONField()
    job = models.ForeignKey(Job, null=True, on_delete=models.SET_NULL, related_name="+")
    state = models.CharField(max_length=20, choices=TrialState.choices, default=TrialState.RUNNING)
    value = models.FloatField(null=True)  # the best that it said of the objective
    curve = models.JSONField(default=list)  # what it said of it, in turn
    proposal = models.CharField(
        max_length=63, blank=True, default="", db_default=""
    )  # Katib's name
    told = models.BooleanField(default=False, db_default=False)
    log_offset = models.PositiveBigIntegerField(default=0)  # read up to here
    gpu_seconds = models.FloatField(default=0)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["experiment", "number"], name="experiments_trial_once"),
            models.UniqueConstraint(
                fields=["experiment", "proposal"],
                condition=~models.Q(proposal=""),
                name="experiments_proposal_once",
            ),
        ]
        indexes = [  # asked every two seconds
            models.Index(
                fields=["experiment"],
                condition=models.Q(state=TrialState.RUNNING),
                name="experiments_trial_live",
            )
        ]

    def __str__(self) -> str:
        return f"{self.experiment_id}/{self.number}"
