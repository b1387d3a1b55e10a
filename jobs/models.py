"""Batch jobs: a program on one or several replicas that runs to its end."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from credentials.sealing import SealedMapping
from jobs.choices import AfterLoss
from loaders.models import Load
from projects.models import Project
from runtime import training
from runtime.protocol import Seen
from runtime.spec import PodGroup, Resources
from volumes.models import Volume
from work.models import Workload


class Job(Workload):
    """What runs, on how many replicas, how often it is tried, and how it ended.

    Sizes are those of one replica. ``launch`` counts the times that a person started it.
    """

    KIND = "job"

    env_of_workspace: Mapping[str, str] = MappingProxyType({})  # of one that is not saved yet

    environment = models.CharField(_("environment"), max_length=255, blank=True, default="")
    image = models.CharField(_("image"), max_length=512, blank=True, default="")
    image_digest = models.CharField(max_length=80, blank=True, default="")  # what a launch pinned
    command = models.JSONField(_("command"), default=list, blank=True)  # []: the image's own
    args = models.JSONField(_("arguments"), default=list, blank=True)
    env = SealedMapping(default=dict, blank=True)  # private to the owner
    replicas = models.PositiveSmallIntegerField(_("replicas"), default=1)
    topology = models.CharField(
        _("keep together"), max_length=12, default="none", db_default="none"
    )
    topology_level = models.CharField(_("level"), max_length=8, default="unit", db_default="unit")
    checkpoints = models.CharField(  # a folder in one of its volumes: NAME or NAME/PATH
        _("checkpoints"), max_length=255, blank=True, default="", db_default=""
    )
    # A bucket that gets copies of them: gs://…, s3://… or "output"; so many are kept there.
    # Older ones are of a run that ended well, and no start of a later run begins there.
    checkpoints_since = models.DateTimeField(null=True)
    checkpoints_to = models.CharField(
        _("copies of checkpoints"), max_length=1024, blank=True, default="", db_default=""
    )
    checkpoints_kept = models.PositiveSmallIntegerField(
        _("copies that are kept"), default=2, db_default=2
    )
    framework = models.CharField(_("framework"), max_length=12, default="none", db_default="none")
    parameter_servers = models.PositiveSmallIntegerField(
        _("parameter servers"), default=0, db_default=0
    )
    evaluator = models.BooleanField(_("evaluator"), default=False, db_default=False)
    # Of each parameter server; 0: as much of it as a replica has, but of GPUs none.
    server_cpu_milli = models.PositiveIntegerField(
        _("CPU of a parameter server"), default=0, db_default=0
    )
    server_memory_mib = models.PositiveIntegerField(
        _("memory of a parameter server"), default=0, db_default=0
    )
    server_gpus = models.PositiveSmallIntegerField(
        _("GPUs of a parameter server"), default=0, db_default=0
    )
    # Where what its program leaves is kept or copied: volume:NAME/PATH, gs://… or s3://…
    output = models.CharField(_("output"), max_length=1024, blank=True, default="", db_default="")
    output_credential = models.CharField(max_length=255, blank=True, default="", db_default="")
    retries = models.PositiveSmallIntegerField(_("retries"), default=0)  # after a bad end
    after_loss = models.CharField(
        _("after a loss"),
        max_length=8,
        choices=AfterLoss.choices,
        default=AfterLoss.RESTART,
        db_default="restart",
    )
    min_replicas = models.PositiveSmallIntegerField(_("at least"), default=1, db_default=1)
    # Of the latest launch, where only fewer fitted after a loss; None: all of them.
    replicas_now = models.PositiveSmallIntegerField(null=True)
    # What it runs instead of a command, and in which folder of its home.
    script = models.CharField(_("file"), max_length=255, blank=True, default="", db_default="")
    workdir = models.CharField(
        _("working directory"), max_length=255, blank=True, default="", db_default=""
    )
    # The workspace that it was made in, by its id: its packages are seen, its home is its own.
    made_in = models.CharField(max_length=16, blank=True, default="", db_default="")
    made_in_uid = models.UUIDField(null=True)
    home = models.ForeignKey(
        Volume, null=True, on_delete=models.SET_NULL, related_name="jobs_at_home"
    )
    # A smoke run comes first; one of those is a job of its own that no list shows.
    smoke = models.BooleanField(_("smoke run"), default=False, db_default=False)
    smoke_of = models.UUIDField(null=True, db_index=True)
    # Where the files come from that its program starts in (``jobs.sources``); "": none.
    code = models.CharField(_("code"), max_length=512, blank=True, default="", db_default="")
    # How far the code of a repository is, of the latest launch (``jobs.fetching``).
    fetched = models.JSONField(default=dict, db_default={}, blank=True)
    # --- how the latest launch ended ----------------------------------------------------------
    exit_code = models.IntegerField(null=True)  # of the replica that decided it; None: none yet
    failed_replica = models.PositiveSmallIntegerField(null=True)
    finished_at = models.DateTimeField(null=True)
    # What its program reported of its failure; its owner's alone, as its log.
    failure = models.TextField(blank=True, default="", db_default="")

    @property
    def checkpoints_since_ns(self) -> int:
        return int(self.checkpoints_since.timestamp() * 1e9) if self.checkpoints_since else 0

    @property
    def launched_replicas(self) -> int:
        """How many replicas its latest launch has."""
        return self.replicas_now or self.replicas

    @property
    def all_replicas(self) -> int:
        """How many processes or pods it is."""
        return self.launched_replicas + self.parameter_servers

    @property
    def server_size(self) -> Resources:
        """What each parameter server has."""
        return replace(
            self.resources,
            cpu_milli=self.server_cpu_milli or self.cpu_milli,
            memory_mib=self.server_memory_mib or self.memory_mib,
            gpus=self.server_gpus,
        )

    @property
    def groups(self) -> tuple[PodGroup, ...]:
        """Its roles, in the order of its replicas."""
        own = self.server_size if self.server_size != self.resources else None
        count = self.launched_replicas
        if count == 1 < self.replicas and self.framework == training.NONE:
            return (PodGroup(meets=True),)  # it went on alone, and looks for its place as before
        return training.groups(
            self.framework, count, self.parameter_servers, own, evaluator=self.evaluator
        )

    def get_absolute_url(self) -> str:
        return f"/projects/{self.project.slug}/jobs/{self.short_id}/"

    @property
    def homes(self) -> tuple[Volume, ...]:
        return (self.home,) if self.home is not None else ()

    @property
    def is_notebook(self) -> bool:
        return self.script.endswith(".ipynb")


class Run(models.Model):
    """What somebody started once: all that was said of it, and how it ended.

    ``launch`` is that of its start; what lost its place goes on as a later launch of the same run.
    ``said`` is every field of the kind by its name, as API and document say it, without ``env``.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="runs")
    launch = models.PositiveIntegerField()
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    asked_at = models.DateTimeField()
    said = models.JSONField(default=dict)
    env = SealedMapping(default=dict, blank=True)
    image_digest = models.CharField(max_length=80, blank=True, default="")
    # The package that it had, which is kept as long as it is; of a repository also the commit, and
    # what did not come along.
    code = models.CharField(max_length=80, blank=True, default="", db_default="", db_index=True)
    commit = models.CharField(max_length=64, blank=True, default="", db_default="", db_index=True)
    left_out = models.JSONField(default=dict, db_default={}, blank=True)
    cluster_key = models.CharField(max_length=63, blank=True, default="")
    # --- how it ended; None: it has not -------------------------------------------------------
    began_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    how = models.CharField(max_length=16, blank=True, default="")  # succeeded, failed, cancelled
    exit_code = models.IntegerField(null=True)
    failed_replica = models.PositiveSmallIntegerField(null=True)
    reason = models.CharField(max_length=64, blank=True, default="")
    nodes = models.JSONField(default=list)  # of its replicas, as last seen
    # Each time that it began to run: [{"launch", "at", "nodes", "replicas"}, …]
    places = models.JSONField(default=list, db_default=[])
    # --- what its program leaves (``jobs.outputs``) ---------------------------------------------
    output_volume = models.ForeignKey(
        Volume, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    output_folder = models.CharField(max_length=512, blank=True, default="", db_default="")
    output_url = models.CharField(max_length=1200, blank=True, default="", db_default="")
    output_due_at = models.DateTimeField(null=True)  # the copy is to begin then
    output_load = models.ForeignKey(Load, null=True, on_delete=models.SET_NULL, related_name="+")
    output_note = models.CharField(max_length=500, blank=True, default="", db_default="")
    # How the copy ended, with {files, bytes, named: [[path, size]]}; "": it has not.
    output_how = models.CharField(max_length=16, blank=True, default="", db_default="")
    output_told = models.JSONField(null=True)
    output_cleared_at = models.DateTimeField(null=True)  # its folder was removed

    class Meta:
        ordering = ["-launch"]
        constraints = [models.UniqueConstraint(fields=["job", "launch"], name="jobs_run_once")]
        indexes = [
            models.Index(
                fields=["output_due_at"],
                condition=models.Q(output_due_at__isnull=False),
                name="jobs_output_due",
            ),
            models.Index(
                fields=["ended_at"],
                condition=models.Q(output_how="done", output_cleared_at__isnull=True),
                name="jobs_output_kept",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_id}/{self.launch}"

    @property
    def took(self) -> timedelta | None:
        """Return how long it was between its first program's start and its end."""
        return self.ended_at - self.began_at if self.began_at and self.ended_at else None

    @property
    def moves(self) -> list[str]:
        """Return its nodes each time that it ran, where they are others than the time before."""
        said = [", ".join(place["nodes"]) for place in self.places] or [", ".join(self.nodes)]
        return [one for one, _same in itertools.groupby(said) if one]

    @property
    def counts(self) -> list[int]:
        """Return with how many replicas it ran each time; [] where that never changed."""
        found = [place["replicas"] for place in self.places if place.get("replicas")]
        return found if len(set(found)) > 1 else []


class RunGoodput(models.Model):
    """What the time of a run that is over came to: what it was computed from goes after days."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="kept_goodput")
    content = models.BinaryField()  # as ``usage.goodput`` packs it

    def __str__(self) -> str:
        return str(self.run_id)


class Copies(models.Model):
    """The copies of a job's checkpoints at a store (``jobs.checkpoints``)."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="copies")
    url = models.CharField(max_length=1200)
    volume = models.ForeignKey(Volume, null=True, on_delete=models.SET_NULL, related_name="+")
    due_at = models.DateTimeField(null=True, db_index=True)  # the next copy is to begin then
    load = models.ForeignKey(Load, null=True, on_delete=models.SET_NULL, related_name="+")
    kept = models.JSONField(default=list)  # [[time-name, bytes], …], the newest first
    copied_at = models.DateTimeField(null=True)
    note = models.CharField(max_length=500, blank=True, default="")  # why they can't be copied
    # Bringing the newest back: for which launch, the latest for which that is done, and what came.
    back = models.ForeignKey(Load, null=True, on_delete=models.SET_NULL, related_name="+")
    back_launch = models.PositiveIntegerField(default=0)
    back_at = models.DateTimeField(null=True)
    back_done = models.PositiveIntegerField(default=0)
    back_note = models.CharField(max_length=500, blank=True, default="")
    restored = models.CharField(max_length=512, blank=True, default="")

    def __str__(self) -> str:
        return f"{self.job_id}: {len(self.kept)}"


class Told(models.Model):
    """What the program of one launch told of itself, as far as it was read (``usage.told``)."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="told")
    launch = models.PositiveIntegerField()
    state = models.JSONField(default=dict)
    cluster_key = models.CharField(max_length=63, default="", db_default="")  # where it runs or ran
    cursor = models.CharField(max_length=255, default="", db_default="")  # up to where it was read
    offset = models.PositiveBigIntegerField(default=0)  # bytes that were taken of it
    next_at = models.DateTimeField(null=True, db_index=True)  # None: there is nothing more to read
    pause_s = models.PositiveSmallIntegerField(default=0)  # grows while it tells nothing
    smoke_began_at = models.DateTimeField(null=True)
    smoke_ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "launch"], name="jobs_told_once")]

    def __str__(self) -> str:
        return f"{self.job_id}/{self.launch}"


class Replica(models.Model):
    """One replica of the latest launch, as it was last seen."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="replica_rows")
    launch = models.PositiveIntegerField()
    index = models.PositiveSmallIntegerField()
    role = models.CharField(max_length=32, default="main")
    seen = models.CharField(max_length=16, choices=[(s.value, s.value) for s in Seen])
    exit_code = models.IntegerField(null=True)
    reason = models.CharField(max_length=64, blank=True, default="")
    node = models.CharField(max_length=255, blank=True, default="")
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    restarts = models.PositiveIntegerField(default=0, db_default=0)  # in this launch

    class Meta:
        ordering = ["index"]
        constraints = [
            models.UniqueConstraint(fields=["job", "launch", "index"], name="jobs_replica_once")
        ]

    def __str__(self) -> str:
        return f"{self.job_id}/{self.launch}/{self.index}"


class NotebookResult(models.Model):
    """The notebook that the latest launch of a job ran, as a page without scripts."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="notebook_result")
    launch = models.PositiveIntegerField()
    name = models.CharField(max_length=255, blank=True, default="")  # of the file beside it
    page = models.BinaryField()  # HTML, packed by gzip
    made_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.job_id}/{self.launch}"


class Package(models.Model):
    """A folder of code, packed as tar.gz, that jobs of a project are run with."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="packages")
    sha256 = models.CharField(max_length=64)
    content = models.BinaryField()
    size = models.PositiveIntegerField()
    files = models.PositiveIntegerField()
    unpacked = models.PositiveBigIntegerField()
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    sent_at = models.DateTimeField(auto_now_add=True)  # last

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "sha256"], name="jobs_package_once")
        ]

    def __str__(self) -> str:
        return self.sha256[:12]


class TrainingInput(models.Model):
    """What a job was submitted as, in the words of AI Platform Training."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="training_input")
    document = models.JSONField(default=dict)  # its trainingInput
    labels = models.JSONField(default=dict)

    def __str__(self) -> str:
        return str(self.job_id)
