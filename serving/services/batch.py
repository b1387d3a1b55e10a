"""Beginning a batch prediction: the job that predicts, and the row that says what it asks.

The job has the program with it, so it is that of this portal whatever its image has. It asks a
model server of its own, or a live endpoint through the gateway (``batch_access``). Instances of a
bucket are brought first (``batch_places``); what it writes goes where outputs of jobs go.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

import serving
from clusters import registry
from clusters.options import options_of
from common.errors import BerthError, Conflict, wrong
from common.ids import new_uid
from events import services as events
from jobs.choices import State as JobState
from jobs.kind import JOB
from jobs.models import Run
from jobs.packages import PREFIX, package_keep, packed
from jobs.states import OVER, state_of
from loaders import services as loads
from projects.access import Permission, project_enter
from serving import selectors
from serving.address import address_of
from serving.choices import Files, State
from serving.kind import version_named
from serving.models import BatchPrediction, Endpoint
from serving.programs.files import FRAMEWORKS
from serving.runtimes import runtime_of, runtimes_for
from serving.services.batch_places import Place, bring, check_apart, hold_input, place_of
from serving.states import STATES
from volumes.selectors import volume_for_use, volume_named
from volumes.services.create import project_volume_ensure
from work.kinds import kind_of
from work.selectors import visible_to
from work.services import workload_create

if TYPE_CHECKING:
    from accounts.principal import Principal
    from jobs.models import Job
    from loaders.models import Load
    from projects.models import Project
    from serving.models import ModelVersion
    from volumes.models import Volume

PROGRAM = ("python3", "-m", "serving.programs.batch_predict")
PROGRESS = "batch-progress"  # a folder of a volume
RETRIES = 2
BATCH, AT_ONCE = 32, 4  # instances in a request, requests at a time
MAX_BATCH, MAX_AT_ONCE = 10_000, 64
# How the program writes and reads, the usual first.
FORMATS, ENCODINGS = ("jsonl", "parquet"), ("utf-8", "cp932", "euc_jp")
# Of its job, as they are said for any: what is not said is as jobs have it.
BESIDE = (
    *("name", "image", "environment", "cluster", "pool", "replicas"),
    *("cpu_milli", "memory_mib", "gpus", "gpu_flavor", "time_limit_minutes"),
)
# What is kept, to begin the same again.
SAID = (
    *("model", "endpoint", "credential", "output_credential", "batch", "at_once", "instances"),
    *("format", "encoding", *BESIDE),
)


@dataclass(frozen=True)
class _Asked:
    """What predicts: ``endpoint``, else a server of its own with ``version``."""

    called: str
    label: str
    cluster: str
    version: ModelVersion | None
    endpoint: Endpoint | None = None


@dataclass
class _Job:
    """What becomes of what was said, step by step."""

    said: dict[str, Any]
    args: list[str] = field(default_factory=list)
    mounted: dict[int, tuple[Volume, bool]] = field(default_factory=dict)  # True: only read

    def mount(self, volume: Volume, *, read_only: bool) -> None:
        _volume, before = self.mounted.get(volume.pk, (volume, True))
        self.mounted[volume.pk] = (volume, before and read_only)

    def volumes(self, who: Principal, project: Project) -> list[dict[str, Any]]:
        return [
            {"volume": volume_named(who, project, volume), "read_only": read_only}
            for volume, read_only in self.mounted.values()
        ]


def batch_create(
    *, principal: Principal, project: Project, said: Mapping[str, Any]
) -> BatchPrediction:
    """Begin one. ``said``: model or endpoint, input, output, credential, output_credential, batch,
    at_once, instances (whether predictions have their instance beside them), format, encoding, and
    ``BESIDE``; errors_of: one of which only what it could not predict is tried again.
    """
    for right in (Permission.MODEL_READ, Permission.JOB_CREATE):
        project_enter(principal, project.slug, right)
    asked = _asked(principal, project, said)
    job = _Job({name: said[name] for name in BESIDE if said.get(name)})
    cluster = job.said.setdefault("cluster", asked.cluster)
    job.said.setdefault("name", f"predict-{asked.called[:48]}-{new_uid().hex[-5:]}")
    source = place_of(principal, project, "input", str(said.get("input") or ""), cluster)
    target = place_of(principal, project, "output", str(said.get("output") or ""), cluster)
    check_apart(source, target)
    if asked.endpoint is not None:
        _ask(job, asked.endpoint)
    else:
        _serve_beside(principal, project, job, asked.version)
    work = target.volume or project_volume_ensure(
        principal=principal, project=project, cluster_key=cluster
    )
    job.mount(work, read_only=False)
    job.args += _how(said)
    own = settings.BERTH_OUTBOUND_CA_FILE if asked.endpoint is not None else ""
    package = package_keep(principal=principal, project=project, stream=io.BytesIO(package_of(own)))
    load = _instances(principal, project, job, source, work, said)
    comes = load if said.get("errors_of") is None else None
    whole = {
        **job.said,
        "code": f"{PREFIX}{package.sha256}",
        "command": list(PROGRAM),
        "args": job.args,
        "volumes": job.volumes(principal, project),
        "output": said["output"],
        "output_credential": said.get("output_credential") or None,
        "checkpoints": f"{work.mount_name}/{PROGRESS}",
        "retries": RETRIES,
        "needs": [str(comes.uid)] if comes else None,
    }
    row = BatchPrediction(project=project, asked=asked.label, version=asked.version, load=load)
    row.endpoint, row.errors_of = asked.endpoint, said.get("errors_of")
    row.input, row.output = str(said["input"]), str(said["output"])
    row.said = {name: said[name] for name in SAID if said.get(name) not in (None, "")}
    try:
        with transaction.atomic():
            hold_input(load)
            workload_create(
                principal=principal,
                project=project,
                kind=JOB,
                said=whole,
                beside=lambda job: _keep(principal, row, job),
            )
    except BerthError:
        if comes is not None:
            loads.made_drop(comes)
        raise
    return row


def batch_again(
    *, principal: Principal, row: BatchPrediction, errors_only: bool = False
) -> BatchPrediction:
    """Begin the same once more, of what its input is now; or only what it could not predict."""
    said: dict[str, Any] = row.again
    said.pop("name", None)  # of its job: that one is there
    if errors_only:
        said["errors_of"] = row
    return batch_create(principal=principal, project=row.project, said=said)


def _keep(principal: Principal, row: BatchPrediction, job: Job) -> None:
    row.job = job
    row.save(force_insert=True)
    target = row.endpoint or (row.version.model if row.version is not None else job)
    events.record(
        actor=principal,
        verb=f"{target.KIND}.batch-begun",
        target=target,
        project_uid=row.project.uid,
        data={"asked": row.asked, "job": job.name, "input": row.input},
    )


def _how(said: Mapping[str, Any]) -> list[str]:
    """Return the options by which the program reads, asks and writes."""
    words = ["--batch", str(said.get("batch") or BATCH)]
    words += ["--at-once", str(said.get("at_once") or AT_ONCE)]
    for name, may in (("format", FORMATS), ("encoding", ENCODINGS)):
        value = said.get(name) or may[0]
        if value not in may:
            raise wrong(name, _("One of: %(names)s.") % {"names": ", ".join(may)})
        words += [f"--{name}", value] if value != may[0] else []
    return words if said.get("instances", True) else [*words, "--no-instances"]


def _asked(principal: Principal, project: Project, said: Mapping[str, Any]) -> _Asked:
    """Return what is asked: an endpoint that answers or wakes, or a version of a model."""
    if not (name := str(said.get("endpoint") or "")):
        version = _version(project, str(said.get("model") or ""))
        cluster = version.volume.cluster_key if version.volume is not None else ""
        return _Asked(version.model.name, str(version), cluster, version)
    if said.get("model"):
        raise wrong("endpoint", _("Say a model or an endpoint, not both."))
    project_enter(principal, project.slug, Permission.ENDPOINT_CALL)
    rows = visible_to(principal, kind_of(Endpoint.KIND), project)
    row = rows.filter(name=name).select_related("version__model", "project").first()
    if row is None:
        raise wrong(
            "endpoint", _("There is no such endpoint here: %(name)s.") % {"name": name[:63]}
        )
    state = STATES.of(row)
    if state in {State.STOPPED, State.STOPPING, State.FAILED, State.DELETING}:
        told = {"name": row.name, "state": state.label}
        raise wrong("endpoint", _("%(name)s answers nobody: %(state)s. Start it first.") % told)
    return _Asked(row.name, row.name, row.cluster_key, row.version, row)


def _ask(job: _Job, row: Endpoint) -> None:
    """Have it asked through the gateway, by a program that needs Python only."""
    runtime = runtime_of(row)
    cluster = registry.row_for(job.said["cluster"])
    if not cluster.runs_images:
        if runtime.environment:
            job.said.setdefault("environment", runtime.environment)
    elif _is_here_only(settings.BERTH_GATEWAY_URL):
        said = _("Pods do not reach the gateway at %(url)s; an operator names another address.")
        raise wrong("endpoint", said % {"url": settings.BERTH_GATEWAY_URL})
    elif not job.said.get("image"):
        options = options_of(cluster.options)
        images = options.serving_images
        there = images.get(runtime.image) or next(iter(images.values()), options.data_image)
        if not there:
            said = _("Say an image with Python: this cluster names none that could be taken.")
            raise wrong("image", said)
        job.said["image"] = there
    called = (row.model or row.name).partition("/")[0]
    job.args += ["--endpoint", address_of(row), "--name", called, "--what", f"endpoint {row.name}"]


def _is_here_only(url: str) -> bool:
    """Whether only programs of this machine reach an address."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or host.startswith("127.") or host == "::1"


def _only_errors(job: _Job, before: BatchPrediction) -> None:
    """Have only those instances asked that are in the errors of another one's latest run."""
    if state_of(before.job) not in OVER:
        said = _("%(name)s is not over yet: what failed is known then.")
        raise Conflict(said % {"name": before.job.name}, code="not-over")
    told = selectors.progress_of([before]).get(before.job_id)
    runs = Run.objects.filter(job=before.job).select_related("output_volume__owner")
    run = runs.order_by("-launch").first()
    # Of several replicas only the first one's were counted once; where none is left, none is asked.
    is_all = before.job.replicas == 1
    is_told = told is not None and told.is_whole and not told.failed
    if is_all and is_told and state_of(before.job) == JobState.SUCCEEDED:
        raise Conflict(
            _("Everything was predicted: nothing is left to try again."), code="no-errors"
        )
    if run is None or run.output_volume is None or run.output_cleared_at is not None:
        said = _("Its folder was removed, and errors.jsonl with it. Run all of it again.")
        raise Conflict(said, code="errors-gone")
    job.mount(run.output_volume, read_only=True)
    job.args += ["--only", f"{run.output_volume.mount_name}/{run.output_folder}"]
    job.args += ["--only-state", f"{before.job.checkpoints}/{before.job.short_id}"]


def _version(project: Project, name: str) -> ModelVersion:
    """Return what MODEL or MODEL/VERSION means, where its own server can run in a job."""
    if not name:
        raise wrong("model", _("Say a model, or an endpoint."))
    version = version_named(Endpoint(project=project, model=name))
    if version.files != Files.THERE:
        said = _("The files of %(name)s are not all there yet: begin it when they are.")
        raise Conflict(said % {"name": version}, code="files-coming")
    if version.framework not in FRAMEWORKS or version.volume is None:
        said = _("A batch prediction serves %(names)s by itself, and %(name)s is %(framework)s.")
        instead = _("Ask an endpoint that serves it instead.")
        names = ", ".join(one.title for one in FRAMEWORKS.values())
        told = {"names": names, "name": version, "framework": version.get_framework_display()}
        raise wrong("model", f"{said % told} {instead}")
    return version


def _serve_beside(
    principal: Principal, project: Project, job: _Job, version: ModelVersion | None
) -> None:
    """Have the version's files read-only, and what can load them."""
    assert version is not None  # noqa: S101 - looked at before
    assert version.volume is not None  # noqa: S101
    volume = volume_for_use(principal, project, version.volume.uid, write=False)
    runtime = runtimes_for(version.framework)[0]
    cluster = registry.row_for(job.said["cluster"])
    if not cluster.runs_images:
        job.said.setdefault("environment", runtime.environment)
    elif not job.said.get("image"):
        job.said["image"] = options_of(cluster.options).serving_images.get(runtime.image)
        if not job.said["image"]:
            said = _("This cluster names no image for %(name)s; an operator can (serving_images).")
            raise wrong("image", said % {"name": runtime.label})
    job.mount(volume, read_only=True)
    folder = f"{volume.mount_name}/{version.folder}".rstrip("/")
    job.args += ["--framework", version.framework, "--model-dir", folder]
    job.args += ["--name", version.model.name, "--what", str(version)]


def _instances(
    who: Principal,
    project: Project,
    job: _Job,
    source: Place,
    work: Volume,
    said: Mapping[str, Any],
) -> Load | None:
    """Have the instances in a volume; return the load that brings or brought them."""
    before: BatchPrediction | None = said.get("errors_of")
    if before is not None:
        _only_errors(job, before)
    load = None
    if source.volume is not None:
        job.mount(source.volume, read_only=True)
        place = f"{source.volume.mount_name}/{source.folder}".rstrip("/")
    elif before is not None:  # what was brought then: the errors are of it
        load = before.load
        place = dict(itertools.pairwise(before.job.args)).get("--input", "")
    else:
        key = str(said.get("credential") or "")
        load = bring(who, project, job.said["name"], source.url, work, key)
        place = f"{work.mount_name}/{load.folder}"
    job.args += ["--input", place]
    return load


def package_of(authority: str = "") -> bytes:
    """Return the program as the code of a job; it believes those of the file ``authority``, too."""
    root = Path(serving.__file__).parent
    paths = [root / "__init__.py", *(root / "programs").glob("*.py")]
    files = {f"serving/{path.relative_to(root)}": path.read_bytes() for path in paths}
    if authority:
        try:
            files["serving/programs/authority.pem"] = Path(authority).read_bytes()
        except OSError as problem:
            said = _("The gateway can't be believed: BERTH_OUTBOUND_CA_FILE can't be read.")
            instead = _("An operator can make it readable for the portal.")
            raise Conflict(f"{said} {instead}", code="no-authority") from problem
    return packed(files)
