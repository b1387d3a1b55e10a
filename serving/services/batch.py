"""Beginning a batch prediction: the job that predicts, and the row that says what it asks.

The job has the program with it, so it is that of this portal whatever its image has. Instances of a
bucket are brought by a load that the job waits for; what it writes goes where outputs of jobs go.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

import serving
from clusters import registry
from clusters.options import options_of
from common.errors import BerthError, Conflict, Invalid, wrong
from common.ids import new_uid
from events import services as events
from jobs.kind import JOB
from jobs.packages import PREFIX, package_keep, packed
from loaders import policies
from loaders import services as loads
from projects.access import Permission, project_enter
from serving.choices import Files
from serving.kind import version_named
from serving.models import BatchPrediction, Endpoint
from serving.programs.files import FRAMEWORKS
from serving.runtimes import runtimes_for
from serving.services.sources import BUCKETS, VOLUME
from volumes.choices import VolumeKind
from volumes.selectors import volume_for_use, volume_named, volumes_mountable
from volumes.services.create import project_volume_ensure
from work.services import workload_create

if TYPE_CHECKING:
    from accounts.principal import Principal
    from jobs.models import Job
    from loaders.models import Load
    from projects.models import Project
    from serving.models import ModelVersion
    from volumes.models import Volume

PROGRAM = ("python3", "-m", "serving.programs.batch_predict")
INPUTS, PROGRESS = "batch-inputs", "batch-progress"  # folders of a volume
RETRIES = 2
BATCH, AT_ONCE = 32, 4  # instances in a request, requests at a time
MAX_BATCH, MAX_AT_ONCE = 10_000, 64
# Of its job, as they are said for any: what is not said is as jobs have it.
BESIDE = (
    *("name", "image", "environment", "cluster", "pool", "replicas"),
    *("cpu_milli", "memory_mib", "gpus", "gpu_flavor", "time_limit_minutes"),
)


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


@dataclass(frozen=True)
class _Place:
    """A folder of a volume, or ``url``: a bucket."""

    volume: Volume | None = None
    folder: str = ""
    url: str = ""


def batch_create(
    *, principal: Principal, project: Project, said: Mapping[str, Any]
) -> BatchPrediction:
    """Begin one. ``said``: model, input, output, credential, output_credential, batch, at_once,
    instances (whether predictions have their instance beside them), and ``BESIDE``.
    """
    for right in (Permission.MODEL_READ, Permission.JOB_CREATE):
        project_enter(principal, project.slug, right)
    version = _version(project, str(said.get("model") or ""))
    job = _Job({name: said[name] for name in BESIDE if said.get(name)})
    cluster = job.said.setdefault("cluster", version.volume.cluster_key if version.volume else "")
    job.said.setdefault("name", f"predict-{version.model.name}-{new_uid().hex[-5:]}")
    source = _place(principal, project, "input", str(said.get("input") or ""), cluster)
    target = _place(principal, project, "output", str(said.get("output") or ""), cluster)
    _check_apart(source, target)
    _serve_beside(principal, project, job, version)
    work = target.volume or project_volume_ensure(
        principal=principal, project=project, cluster_key=cluster
    )
    job.mount(work, read_only=False)
    job.args += ["--batch", str(said.get("batch") or BATCH)]
    job.args += ["--at-once", str(said.get("at_once") or AT_ONCE)]
    job.args += [] if said.get("instances", True) else ["--no-instances"]
    package = package_keep(principal=principal, project=project, stream=io.BytesIO(package_of()))
    load = _bring(principal, project, job, source, work, str(said.get("credential") or ""))
    made: list[BatchPrediction] = []

    def keep(row: Job) -> None:
        one = BatchPrediction(project=project, job=row, version=version, asked=str(version))
        one.input, one.output = str(said["input"]), str(said["output"])
        one.save(force_insert=True)
        made.append(one)
        _record(principal, one, version)

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
        "needs": [str(load.uid)] if load else None,
    }
    try:
        workload_create(principal=principal, project=project, kind=JOB, said=whole, beside=keep)
    except BerthError:
        if load is not None:
            loads.made_drop(load)
        raise
    return made[0]


def _record(principal: Principal, row: BatchPrediction, version: ModelVersion) -> None:
    events.record(
        actor=principal,
        verb="model.batch-begun",
        target=version.model,
        project_uid=row.project.uid,
        data={"version": version.name, "job": row.job.name, "input": row.input},
    )


def _version(project: Project, name: str) -> ModelVersion:
    """Return what MODEL or MODEL/VERSION means, where its own server can run in a job."""
    if not name:
        raise wrong("model", _("The name of a model, or MODEL/VERSION."))
    version = version_named(Endpoint(project=project, model=name))
    if version.files != Files.THERE:
        said = _("The files of %(name)s are being brought.")
        raise Conflict(said % {"name": version}, code="files-coming")
    if version.framework not in FRAMEWORKS or version.volume is None:
        said = _("A batch prediction serves %(names)s by itself, and %(name)s is %(framework)s.")
        names = ", ".join(one.title for one in FRAMEWORKS.values())
        told = {"names": names, "name": version, "framework": version.get_framework_display()}
        raise wrong("model", said % told)
    return version


def _serve_beside(principal: Principal, project: Project, job: _Job, version: ModelVersion) -> None:
    """Have the version's files read-only, and what can load them."""
    assert version.volume is not None  # noqa: S101 - looked at before
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


def _place(who: Principal, project: Project, field: str, text: str, cluster: str) -> _Place:
    text = text.strip()
    try:
        if text.startswith(BUCKETS):
            return _Place(url=policies.parse_url(text).url)
        folder = policies.clean_folder(text.removeprefix(VOLUME).partition("/")[2])
    except Invalid as error:  # said of a load's own field
        raise wrong(field, error.message) from error
    name = text.removeprefix(VOLUME).partition("/")[0]
    if not text.startswith(VOLUME) or not name:
        raise wrong(field, _("Write it like volume:NAME/FOLDER, gs://… or s3://…."))
    rows = volumes_mountable(who, project, cluster or None).exclude(kind=VolumeKind.HOME)
    found = rows.filter(name=name).first()
    if found is None:
        said = _("There is no volume “%(name)s” beside the model that you may use.")
        raise wrong(field, said % {"name": name[:63]})
    volume = volume_for_use(who, project, found.uid, write=field == "output")
    return _Place(volume, folder)


def _check_apart(source: _Place, target: _Place) -> None:
    """What is written must not be read as instances by the next one."""
    if source.volume is None or source.volume != target.volume:
        return
    if f"{target.folder}/".startswith(f"{source.folder}/" if source.folder else ""):
        said = _("The input has this folder in it: write the predictions to another one.")
        raise wrong("output", said)


def _bring(
    who: Principal, project: Project, job: _Job, source: _Place, work: Volume, credential: str
) -> Load | None:
    """Have the instances in a volume; return the load that brings them from a bucket."""
    if source.volume is not None:
        job.mount(source.volume, read_only=True)
        place = f"{source.volume.mount_name}/{source.folder}".rstrip("/")
        job.args += ["--input", place]
        return None
    folder = f"{INPUTS}/{job.said['name']}"
    job.args += ["--input", f"{work.mount_name}/{folder}"]
    said = {
        "name": f"{job.said['name'][:57]}-input",
        "url": source.url,
        "volume": str(work.uid),
        "folder": folder,
    }
    if credential:
        said["credential"] = credential
    try:
        return loads.load_create(principal=who, project=project, said=said)
    except Invalid as error:
        raise wrong(
            "credential" if "credential" in error.fields else "input", error.message
        ) from error


@cache
def package_of() -> bytes:
    """Return the model server and what asks it, as the code of a job."""
    root = Path(serving.__file__).parent
    files = [root / "__init__.py", *(root / "programs").glob("*.py")]
    return packed({f"serving/{path.relative_to(root)}": path.read_bytes() for path in files})
