"""Reading the files of a version: a job of the project opens them, never the portal.

What the job tells is its tenant's word about its own files: it is shown, and decides nothing.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import structlog
from django.conf import settings
from django.db import DatabaseError, transaction
from django.utils.translation import gettext as _
from django.utils.translation import override

from accounts.principal import Principal
from clusters import registry
from clusters.options import options_of
from common.clock import now
from common.errors import BerthError, Conflict, NotFound, wrong
from common.ids import new_uid
from jobs.kind import JOB
from jobs.packages import PREFIX, package_keep
from placement.decision import STARTS_NOW
from projects.access import Permission, require
from serving import environments
from serving.choices import Files
from serving.models import ModelVersion
from serving.programs.files import FRAMEWORKS
from serving.runtimes import RUNTIMES, runtimes_for
from serving.services import version_files
from serving.services.batch import package_of
from serving.services.model_rules import fitting_signature
from volumes.selectors import volume_for_use, volume_named
from work.services import workload_create, workload_delete
from work.services.plan import workload_plan

if TYPE_CHECKING:
    from jobs.models import Job
    from volumes.models import Volume

log = structlog.get_logger(__name__)

BATCH = 20
BY_ITSELF_MIB = 2048  # to read more holds a place and a disk for minutes: a press begins that
PROGRAM = ("python3", "-m", "serving.programs.read_model")
CPU_MILLI, LEAST_MIB = 500, 1024
MINUTES = 60
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def versions_step() -> int:
    """Look at the files of versions that are due, and read those that have come."""
    seen = version_files.versions_look()
    waiting = ModelVersion.objects.filter(read_when_there=True, files=Files.THERE)
    for row in waiting.select_related("model__project", "volume", "read_by", "created_by")[:BATCH]:
        ModelVersion.objects.filter(pk=row.pk).update(read_when_there=False)
        try:
            _read_by_itself(row)
        except (BerthError, DatabaseError) as error:  # whoever wants it presses
            log.info("model-reading.not-begun", version=row.pk, why=str(error)[:200])
    return seen


def _read_by_itself(row: ModelVersion) -> None:
    """Begin it as who registered it, where a place, limits and budgets have room this moment."""
    if row.created_by is None or row.read_by is not None or row.digest:
        return
    if row.volume is None or (row.size_bytes or 0) > BY_ITSELF_MIB * 2**20:
        return
    principal, project = Principal(user=row.created_by), row.model.project
    said = _job_of(principal, row, row.volume)
    name = said.get("environment", "")
    if name and (not environments.is_there(name) or environments.is_of_before(name)):
        return  # nothing is downloaded for it
    plan = workload_plan(principal=principal, project=project, kind=JOB, said=said)
    if plan.allowed and plan.decision and plan.decision.standing.reason == STARTS_NOW:
        version_read(principal=principal, row=row)


def version_read(*, principal: Principal, row: ModelVersion) -> ModelVersion:
    """Begin the job that reads its files; one that is on its way goes on."""
    project = row.model.project
    require(principal, project, Permission.MODEL_MANAGE)
    if row.files != Files.THERE or row.volume is None:
        text = _("The files of %(name)s are not there.")
        raise Conflict(text % {"name": row}, code="files-coming")
    if row.read_by is not None and row.read_by.is_on_its_way:
        return row
    said = _job_of(principal, row, row.volume)

    def keep(job: Job) -> None:
        rows = ModelVersion.objects.select_for_update(of=("self",)).select_related("read_by")
        there = rows.filter(pk=row.pk).first()
        if there is None:
            raise NotFound(_("There is no such thing, or you may not see it."))
        if there.read_by is not None and there.read_by.is_on_its_way:  # another press was sooner
            raise Conflict(_("Its files are being read."), code="reading")
        row.read_by, row.read_at, row.read_problem = job, None, ""
        row.save(update_fields=["read_by", "read_at", "read_problem"])

    workload_create(principal=principal, project=project, kind=JOB, said=said, beside=keep)
    return row


def _job_of(principal: Principal, row: ModelVersion, kept_in: Volume) -> dict[str, Any]:
    """Return what the job that reads it is made of."""
    project = row.model.project
    volume = volume_for_use(principal, project, kept_in.uid, write=False)
    runtime = runtimes_for(row.framework)[0] if row.framework in FRAMEWORKS else RUNTIMES[0]
    cluster = registry.row_for(volume.cluster_key)
    where = {"environment": runtime.environment}
    if cluster.runs_images:
        where = {"image": options_of(cluster.options).serving_images.get(runtime.image, "")}
        if not where["image"]:
            text = _("This cluster names no image for %(name)s; an operator can (serving_images).")
            raise wrong("image", text % {"name": runtime.label})
    package = package_keep(principal=principal, project=project, stream=io.BytesIO(package_of()))
    folder = f"{volume.mount_name}/{row.folder}".rstrip("/")
    return {
        "name": f"read-{row.model.name[:30]}-{row.name[:20]}-{new_uid().hex[-5:]}",
        "cluster": volume.cluster_key,
        **where,
        "code": f"{PREFIX}{package.sha256}",
        "command": list(PROGRAM),
        "args": ["--framework", row.framework, "--model-dir", folder],
        "volumes": [{"volume": volume_named(principal, project, volume), "read_only": True}],
        "cpu_milli": CPU_MILLI,
        "memory_mib": max(LEAST_MIB, 2 * (row.size_bytes or 0) // 2**20),
        "time_limit_minutes": MINUTES,
    }


def reports(job: Job) -> bool:
    """Whether a job reads a version, and so tells what it found."""
    return ModelVersion.objects.filter(read_by=job.pk).exists()


def note_told(job: Job, told: Mapping[str, Any]) -> None:
    """Keep what the job says, in the transaction that heard it; once it is done the job goes."""
    rows = ModelVersion.objects.select_for_update(of=("self",)).filter(read_by=job.pk)
    row = rows.first()
    if row is None:
        return
    digest, said = str(told.get("digest") or ""), told.get("described")
    if _DIGEST.fullmatch(digest):
        if row.digest not in {"", digest}:
            row.problem = _changed(job.owner.reads_in)
        elif row.problem in {_changed(language) for language, _name in settings.LANGUAGES}:
            row.problem = ""  # only what a reading wrote
        row.digest = row.digest or digest
    if isinstance(said, dict):
        found = {side: said[side] for side in ("inputs", "outputs") if _is_side(said.get(side))}
        may_replace = row.signature_found or not row.signature  # what a person wrote stays
        if may_replace and found.get("inputs") and (fits := fitting_signature(found)):
            row.signature, row.signature_found = fits, True
        row.made_with = _line(said.get("made_with"), 80)
    if told.get("problem"):
        row.read_problem = _line(told["problem"], 500)
    if told.get("done") is True:
        row.read_at = now()
    row.save()
    if told.get("done") is True and not row.read_problem:
        principal = Principal(user=job.owner)
        with suppress(BerthError), transaction.atomic():  # whoever read it may have left
            workload_delete(principal=principal, row=job)


def _changed(language: str) -> str:
    with override(language):
        return _("Its files are not what was registered: their digest is another.")


def _is_side(said: object) -> bool:
    return isinstance(said, list) and all(isinstance(one, dict) and "name" in one for one in said)


def _line(said: object, most: int) -> str:
    text = str(said or "").encode(errors="replace").decode()
    return "".join(c if c.isprintable() else " " for c in text)[:most].strip()
