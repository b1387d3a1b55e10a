"""Where the files of a new version come from: what was written becomes a folder of a volume.

A folder of a volume and what a run left there are served in place. A bucket is copied by a load of
the version's own into the project's volume ``models``; so is what a run left in a bucket, and what
an MLflow registry names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from django.utils.translation import gettext as _

from common.errors import Conflict, Invalid, NotFound, wrong
from common.hooks import Hook
from jobs.kind import JOB
from jobs.models import Job, Run
from jobs.runs import run_number, runs_of
from loaders import policies
from serving import mlflow
from serving.choices import Source
from volumes.choices import VolumeKind
from volumes.selectors import volume_for_use, volumes_mountable
from volumes.services.classes import default_class
from volumes.services.create import NewVolume, volume_create
from work.selectors import visible_to

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project
    from serving.models import ModelVersion
    from volumes.models import Volume

T = TypeVar("T")
MODELS = "models"  # the volume that copied and uploaded models lie in
MODELS_MIB = 20 * 1024
VOLUME, RUN, UPLOAD, MLFLOW = "volume:", "run:", "upload:", "mlflow:"
BUCKETS = ("gs://", "s3://")
# What apps above know of how good the model of a run is: name → number.
metrics_of: Hook[[Run], Mapping[str, float]] = Hook()


@dataclass(frozen=True)
class Wanted:
    """What was said of where the files are."""

    origin: str
    credential: str = ""
    cluster: str = ""


@dataclass(frozen=True)
class Origin:
    """``volume`` None: of the project's volume of models, made with it. ``url``: copied from."""

    source: Source
    volume: Volume | None = None
    folder: str = ""
    url: str = ""
    run: Run | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    credential: str = ""  # that opens the url, where it is not the one that was said
    text: str = ""  # the origin as it is kept, where that is not as it was said
    signature: dict[str, Any] = field(default_factory=dict)
    registry: dict[str, Any] = field(default_factory=dict)


def origin_of(who: Principal, project: Project, wanted: Wanted) -> Origin:
    """Return what was written, looked up; Invalid, NotFound or Conflict say what is wrong."""
    text = wanted.origin.strip()
    if text.startswith(VOLUME):
        return _in_volume(who, project, text.removeprefix(VOLUME), wanted.cluster)
    if text.startswith(RUN):
        return _of_run(who, project, text.removeprefix(RUN))
    if text.startswith(MLFLOW):
        return _in_registry(who, project, text.removeprefix(MLFLOW))
    if text.startswith(UPLOAD):
        return Origin(Source.UPLOAD)
    if text.startswith(BUCKETS):
        place = _said_of_origin(policies.parse_url, text)
        if not place.prefix.strip("/"):
            raise wrong("origin", _("Name the folder in the bucket that the model lies in."))
        return Origin(Source.BUCKET, url=text)
    said = _(
        "Write it like volume:NAME/FOLDER, run:JOB/NUMBER/FOLDER, gs://…, s3://… or "
        "mlflow:SERVER/MODEL/VERSION."
    )
    raise wrong("origin", said)


def models_volume(who: Principal, project: Project, cluster: str) -> Volume:
    """Return the project's volume of models, to write to; the first version makes it."""
    rows = volumes_mountable(who, project, cluster or None)
    found = rows.filter(kind=VolumeKind.DATA, name=MODELS)[:2]
    if len(found) > 1:
        keys = ", ".join(row.cluster_key for row in found)
        raise wrong("cluster", _("There is a volume of models on several clusters: %s.") % keys)
    if found:
        return volume_for_use(who, project, found[0].uid, write=True)
    size, kind = MODELS_MIB, default_class(cluster) if cluster else None
    if kind is not None:
        size = max(kind.min_size_mib, min(size, kind.max_size_mib or size))
    wanted = NewVolume(
        name=MODELS, size_mib=size, cluster=cluster, description=_("Files of registered models")
    )
    return volume_create(principal=who, project=project, wanted=wanted)


def load_said(version: ModelVersion, url: str, credential: str, number: int) -> dict[str, Any]:
    """Return what the load of a version is made of."""
    assert version.volume is not None  # noqa: S101 - where it copies to
    said = {
        "name": f"model-{version.model.name[:24]}-{version.name[:24]}-{number}"[:63],
        "url": url,
        "volume": str(version.volume.uid),
        "folder": version.folder,
    }
    return {**said, "credential": credential} if credential else said


def _in_volume(who: Principal, project: Project, text: str, cluster: str) -> Origin:
    name, _slash, folder = text.partition("/")
    if name == VolumeKind.HOME:
        raise wrong("origin", _("A home is private: copy the model into a volume of the project."))
    rows = volumes_mountable(who, project, cluster or None).exclude(kind=VolumeKind.HOME)
    found = list(rows.filter(name=name)[:2])
    if not found:
        raise wrong("origin", _("There is no volume “%s” here that you may use.") % name[:63])
    if len(found) > 1:
        raise wrong("cluster", _("Volumes on several clusters have this name: say which cluster."))
    volume = volume_for_use(who, project, found[0].uid, write=False)
    return Origin(Source.VOLUME, volume, _folder(folder))


def _of_run(who: Principal, project: Project, text: str) -> Origin:
    """What a run left: in place where it is kept in a volume, else copied back from its bucket."""
    name, _slash, rest = text.partition("/")
    number, _slash, folder = rest.partition("/")
    run = _run_named(who, project, name, number)
    if run.ended_at is None:
        raise Conflict(_("The run has not ended: register what it leaves then."), code="not-over")
    if not run.output_folder:
        raise Conflict(_("This run left nothing: its job has no output."), code="no-output")
    folder = _folder(folder)
    metrics = {name: value for known in metrics_of(run) for name, value in known.items()}
    if run.output_url:
        url = f"{run.output_url.rstrip('/')}/{folder}".rstrip("/") + "/"
        return Origin(Source.RUN, url=url, run=run, metrics=metrics)
    if run.output_volume is None:
        raise Conflict(_("The volume with its files is gone."), code="volume-gone")
    if run.output_volume.kind == VolumeKind.HOME:
        raise wrong("origin", _("A home is private: copy the model into a volume of the project."))
    volume = volume_for_use(who, project, run.output_volume.uid, write=False)
    below = f"{run.output_folder}/{folder}".rstrip("/")
    return Origin(Source.RUN, volume, below, run=run, metrics=metrics)


def _run_named(who: Principal, project: Project, name: str, number: str) -> Run:
    rows = visible_to(who, JOB, project)
    jobs: list[Job] = list(rows.filter(short_id=name)) or list(rows.filter(name=name)[:2])
    mine = [one for one in jobs if one.owner_id == who.user.pk]
    jobs = mine if len(jobs) > 1 and len(mine) == 1 else jobs
    if not jobs:
        raise NotFound(_("There is no job “%s” here.") % name[:63])
    if len(jobs) > 1:
        raise wrong("origin", _("Jobs of several people have this name: write the job's id."))
    runs = runs_of(jobs[0]).select_related("output_volume", "job__project")
    if number in {"", "latest"}:
        found = runs.filter(ended_at__isnull=False).order_by("-launch").first()
    else:
        found = runs.filter(launch=run_number(number, "origin")).first()
    if found is None:
        raise NotFound(_("There is no such run of “%s”.") % name[:63])
    return found


def _in_registry(who: Principal, project: Project, text: str) -> Origin:
    """A version in MLflow: its files come from where it has them, a bucket or its own proxy."""
    server, _slash, number = text.rpartition("/")
    server, _slash, name = server.rpartition("/")
    if not (server and name and number):
        message = _("Write it like mlflow:SERVER/MODEL/VERSION: a number, latest or @ALIAS.")
        raise wrong("origin", message)
    credential = mlflow.server_named(who, project, server)
    found = mlflow.version(credential, name, number)
    by_proxy = found["url"].startswith(mlflow.PROXY)
    return Origin(
        Source.REGISTRY,
        url=found["url"],
        metrics=found["metrics"],
        credential=str(credential.uid) if by_proxy else "",
        text=f"{MLFLOW}{server}/{name}/{found['version']}",
        signature=found["signature"],
        registry={name: found[name] for name in ("url", "model", "version", "run", "framework")},
    )


def _folder(text: str) -> str:
    return _said_of_origin(policies.clean_folder, text)


def _said_of_origin(rule: Callable[[str], T], text: str) -> T:
    """Return what a load's own rule makes of it; its refusal is said of the origin."""
    try:
        return rule(text)
    except Invalid as error:
        raise wrong("origin", error.message) from error
