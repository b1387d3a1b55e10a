"""Models and their versions, the endpoints that serve them, who may call, and what was called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import models
from django.db.models import JSONField, Q, Value
from django.utils.translation import gettext_lazy as _

from common.clock import now
from common.ids import new_uid
from credentials.sealing import SealedMapping
from jobs.models import Job
from loaders.choices import Result, Task
from loaders.models import Load
from projects.models import Project
from runtime.protocol import Desired
from serving.choices import Files, Framework, How, Source, Stage
from volumes.models import Volume
from work.models import Workload

if TYPE_CHECKING:
    from serving.traffic import Traffic

WITH = ("project", "owner", "version__volume", "version__model")  # read with an endpoint


class Model(models.Model):
    """What a project trains again and again: a name, and its versions."""

    KIND = "model"

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="models")
    name = models.SlugField(max_length=50)
    description = models.CharField(max_length=500, blank=True, default="")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["project", "name"], name="serving_model_once")
        ]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return f"/projects/{self.project.slug}/models/{self.name}/"


class ModelVersion(models.Model):
    """The files of a model as they were once, in a folder of a volume; never changed afterwards."""

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    model = models.ForeignKey(Model, on_delete=models.CASCADE, related_name="versions")
    name = models.SlugField(max_length=50)
    # "": not looked at yet, and nobody said it.
    framework = models.CharField(max_length=16, choices=Framework.choices, blank=True, default="")
    stage = models.CharField(max_length=10, choices=Stage.choices, default=Stage.CANDIDATE)
    source = models.CharField(max_length=10, choices=Source.choices)
    # As it was said: gs://…, s3://…, volume:NAME/FOLDER, run:JOB/NUMBER/FOLDER, or a file's name.
    origin = models.CharField(max_length=1024)
    # Where its files are or will be; None: of one with its own server, whose image has them.
    volume = models.ForeignKey(
        Volume, null=True, on_delete=models.SET_NULL, related_name="model_versions"
    )
    folder = models.CharField(max_length=512, blank=True, default="")
    files = models.CharField(max_length=8, choices=Files.choices, default=Files.THERE)
    load = models.ForeignKey(Load, null=True, on_delete=models.SET_NULL, related_name="+")
    problem = models.CharField(max_length=500, blank=True, default="")  # why they are not there
    # When its files are looked at, by whoever registered it; None: they were, or are to come.
    look_at = models.DateTimeField(null=True)
    digest = models.CharField(max_length=80, blank=True, default="")  # of all its files
    size_bytes = models.PositiveBigIntegerField(null=True)
    # Whether a job is to read them by itself, once they are there; nobody asks twice.
    read_when_there = models.BooleanField(default=False, db_default=False)
    # The job that reads them, in the project's own place; when it did, and what it found wrong.
    read_by = models.ForeignKey(Job, null=True, on_delete=models.SET_NULL, related_name="+")
    read_at = models.DateTimeField(null=True)
    read_problem = models.CharField(max_length=500, blank=True, default="", db_default="")
    made_with = models.CharField(max_length=80, blank=True, default="", db_default="")
    # What goes in and comes out, as its files say (``serving.programs``); {}: they do not.
    signature = models.JSONField(default=dict, blank=True)
    # By MLflow or a reading, so the next reading may replace it; what a person wrote stays.
    signature_found = models.BooleanField(default=False, db_default=False)
    metrics = models.JSONField(default=dict, blank=True)  # name → number, of its evaluation
    # Of one from MLflow: url, model, version, run, framework as it says them (``serving.mlflow``).
    registry = models.JSONField(default=dict, blank=True, db_default=Value({}, JSONField()))
    run_uid = models.UUIDField(null=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["model", "name"], name="serving_version_once")
        ]
        indexes = [
            models.Index(
                fields=["look_at"],
                condition=Q(look_at__isnull=False),
                name="serving_version_look",
            ),
            models.Index(
                fields=["id"],
                condition=Q(read_when_there=True),
                name="serving_version_to_read",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model.name}/{self.name}"

    def get_absolute_url(self) -> str:
        return f"{self.model.get_absolute_url()}{self.name}"

    @property
    def is_there(self) -> bool:
        return self.files == Files.THERE

    @property
    def awaits_upload(self) -> bool:
        """Whether somebody still has to send its files, or others in place of what did not fit."""
        is_sent = self.source == Source.UPLOAD and self.volume is not None
        return is_sent and not self.is_there and self.look_at is None

    @property
    def reading(self) -> str:
        """How far the reading of its files is: no, running, done or failed."""
        if self.read_by is not None and self.read_by.is_on_its_way:
            return "running"
        if self.read_problem or (self.read_by is not None and self.read_at is None):
            return "failed"
        return "done" if self.read_at is not None else "no"


class Endpoint(Workload):
    """A version of a model that answers requests, on as many replicas as they need.

    Its address is its name's, below the gateway's. A canary is a second row behind the same
    address, which no list shows. Sizes are those of one replica. ``launch`` counts how often it
    was started or woken.
    """

    KIND = "endpoint"

    # Named: a load has a column of that name, of a store's address.
    workload_ptr = models.OneToOneField(
        Workload, on_delete=models.CASCADE, parent_link=True, related_name="as_endpoint"
    )
    model = models.CharField(_("model"), max_length=101, blank=True, default="")  # MODEL/VERSION
    # An endpoint that was deleted holds no version; one that is there does (``services.models``).
    version = models.ForeignKey(
        ModelVersion, null=True, on_delete=models.SET_NULL, related_name="endpoints"
    )
    runtime = models.CharField(_("runtime"), max_length=16, blank=True, default="")
    image = models.CharField(_("image"), max_length=512, blank=True, default="")
    image_digest = models.CharField(max_length=80, blank=True, default="")  # what a launch pinned
    command = models.JSONField(_("command"), default=list, blank=True)
    args = models.JSONField(_("arguments"), default=list, blank=True)
    env = SealedMapping(default=dict, blank=True)  # private to the owner
    port = models.PositiveIntegerField(_("port"), default=8080)
    health = models.CharField(_("health"), max_length=255, blank=True, default="")
    min_replicas = models.PositiveSmallIntegerField(_("at least"), default=1)
    max_replicas = models.PositiveSmallIntegerField(_("at most"), default=1)
    concurrency = models.PositiveSmallIntegerField(_("requests at once"), default=8)
    # After so long without a request it sleeps and holds nothing; 0: never.
    sleep_after_minutes = models.PositiveIntegerField(_("sleeps after"), default=0)
    wait_s = models.PositiveSmallIntegerField(_("wait at most"), default=120)  # for its waking
    # Whose pages may call it in a browser: https://host[:port] … or *; of the first row.
    origins = models.CharField(_("origins"), max_length=1000, blank=True, default="", db_default="")
    # How many are wanted now; between the least and the most while it runs.
    replicas = models.PositiveSmallIntegerField(default=1)
    scaled_at = models.DateTimeField(null=True)
    # Of the row that a canary stands beside; percent of requests that go to its canary.
    canary_of = models.ForeignKey(
        "self", null=True, on_delete=models.CASCADE, related_name="canaries"
    )
    canary_percent = models.PositiveSmallIntegerField(default=0)
    split_at = models.DateTimeField(null=True)  # that share was last changed
    promoting = models.BooleanField(default=False)  # its canary's version is becoming its own
    # Its canary is what it served before, and is promoted by itself as soon as it answers.
    rolls_back = models.BooleanField(default=False, db_default=False)
    # What runs was started for whoever owned it before; a launch for its owner ends that.
    taken_over = models.BooleanField(default=False, db_default=False)
    promoted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    canary_leaves = models.BooleanField(default=False)  # it gets nothing any more, and goes
    scaling_problem = models.CharField(max_length=500, blank=True, default="")  # why not more
    called_at = models.DateTimeField(null=True)  # the latest request, as told by gateways

    lately: Traffic  # what a list reads with all of its rows: its calls, and its canary
    beside: Endpoint | None

    class Meta(Workload.Meta):
        constraints = []
        indexes = []

    def get_absolute_url(self) -> str:
        shown = self.canary_of or self
        return f"/projects/{self.project.slug}/endpoints/{shown.short_id}/"

    @property
    def environment(self) -> str:
        """The environment of model servers that loads its files, on one machine."""
        from serving.runtimes import runtime_of

        return runtime_of(self).environment

    @property
    def canary(self) -> Endpoint | None:
        """What stands beside it and is not on its way out; who makes one locks this row."""
        beside = Endpoint.objects.filter(canary_of=self, deleted_at=None)
        return beside.exclude(desired=Desired.ABSENT).select_related(*WITH).first()

    @property
    def homes(self) -> tuple[Volume, ...]:
        """The volume that has its version's files."""
        version = self.version
        return (version.volume,) if version is not None and version.volume is not None else ()


class Served(models.Model):
    """What an endpoint served from a moment on, until the next one; enough to serve it again."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="served")
    launch = models.PositiveIntegerField()
    at = models.DateTimeField()
    serves = models.CharField(max_length=512)  # MODEL/VERSION, its image, or its name
    image_digest = models.CharField(max_length=80, blank=True, default="")
    said = models.JSONField()  # as its document says it, with ids of what is attached
    env = SealedMapping(default=dict, blank=True)  # private to the owner
    how = models.CharField(max_length=12, choices=How.choices)
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )

    def __str__(self) -> str:
        return f"{self.serves} since {self.at:%Y-%m-%d %H:%M}"


class EndpointKey(models.Model):
    """A secret that may call one endpoint. Only its SHA-256 is kept; the prefix recognises it."""

    KIND = "endpoint-key"

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="access_keys")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    # 0: no limit of its own.
    requests_per_second = models.PositiveIntegerField(default=0)
    concurrent = models.PositiveIntegerField(default=0)
    requests_per_day = models.PositiveIntegerField(default=0)
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def is_live(self) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now())


class Calls(models.Model):
    """Who called what in one minute through one gateway: numbers, never bodies."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="calls")
    minute = models.DateTimeField()
    gateway = models.CharField(max_length=32)  # which of several counted
    caller = models.CharField(max_length=32)  # k and the id of a key, u and that of a person
    requests = models.PositiveIntegerField(default=0)
    refused = models.PositiveIntegerField(default=0)  # by limits, before anything was sent
    client_errors = models.PositiveIntegerField(default=0)  # 4xx of the server
    server_errors = models.PositiveIntegerField(default=0)  # 5xx, and answers that broke off
    seconds = models.FloatField(default=0)  # of all together
    histogram = models.JSONField(default=dict)  # bucket of ``serving.latency`` → requests
    bytes_in = models.PositiveBigIntegerField(default=0)
    bytes_out = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["endpoint", "minute", "gateway", "caller"], name="serving_calls_once"
            )
        ]
        indexes = [models.Index(fields=["minute"], name="serving_calls_minute")]

    def __str__(self) -> str:
        return f"{self.endpoint_id} {self.minute:%H:%M}"


class Pressure(models.Model):
    """How much one gateway has for an endpoint now: what is being answered, and what waits."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="pressures")
    gateway = models.CharField(max_length=32)
    answering = models.PositiveIntegerField(default=0)
    waiting = models.PositiveIntegerField(default=0)
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "gateway"], name="serving_pressure_once")
        ]

    def __str__(self) -> str:
        return f"{self.endpoint_id} {self.answering}+{self.waiting}"


# How a removal ends that has removed what it may: only what was changed since stays.
CLEARED = (Result.DONE, Result.PARTIAL)


def input_is_gone(load: Load) -> bool:
    """Whether what it brought was removed, or is being removed; not where that could not be."""
    return load.task == Task.CLEAR and (load.result in CLEARED or load.is_active)


class BatchPrediction(models.Model):
    """A job that predicts every instance of some files, and what it asks for that."""

    KIND = "batch-prediction"

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="predictions")
    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="prediction")
    # Its own server has the version; else the endpoint is asked. What it was stays in ``asked``.
    version = models.ForeignKey(
        ModelVersion, null=True, on_delete=models.SET_NULL, related_name="predictions"
    )
    endpoint = models.ForeignKey(
        Endpoint, null=True, on_delete=models.SET_NULL, related_name="predictions"
    )
    asked = models.CharField(max_length=101)  # MODEL/VERSION, or the name of the endpoint
    input = models.CharField(max_length=1024)
    output = models.CharField(max_length=1024)
    # That brings its input from a bucket; also of the one whose errors it tries again.
    load = models.ForeignKey(Load, null=True, on_delete=models.SET_NULL, related_name="predictions")
    # All that was said of it, to begin the same again.
    said = models.JSONField(default=dict, db_default=Value({}, JSONField()))
    # Only what that one could not predict.
    errors_of = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="tried_again"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.job.name

    def get_absolute_url(self) -> str:
        return self.job.get_absolute_url()

    @property
    def is_of_endpoint(self) -> bool:
        """Whether an endpoint was asked, also one that is gone."""
        return bool(self.said.get("endpoint"))

    @property
    def is_input_gone(self) -> bool:
        """Whether what was brought from its bucket was removed, or is being removed."""
        return self.load is not None and input_is_gone(self.load)

    @property
    def again(self) -> dict[str, Any]:
        """What to say for the same again; of one from before that was kept, its model is known."""
        model = {} if self.is_of_endpoint else {"model": self.asked}
        return {**model, **self.said, "input": self.input, "output": self.output}
