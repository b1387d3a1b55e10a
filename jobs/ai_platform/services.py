"""Submitting a training job as AI Platform Training is told it, and what would come of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils.translation import gettext as _

from clusters.models import Flavor
from common.errors import BerthError, Conflict, no_such_field, wrong
from jobs import outputs
from jobs.ai_platform.documents import FILE, cleaned, merged, read, refusal
from jobs.ai_platform.machines import Tables
from jobs.ai_platform.searches import searches
from jobs.ai_platform.sheet import Here, Line
from jobs.ai_platform.translation import translate
from jobs.kind import JOB
from jobs.models import Job, TrainingInput
from loaders.services.resolve import find_credential
from placement.clusters import clusters_of
from work.services import Plan, workload_create, workload_plan

if TYPE_CHECKING:
    from accounts.principal import Principal
    from clusters.models import Cluster
    from jobs.ai_platform.sheet import Translation
    from projects.models import Project

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
MAX_LABELS = 64
# Fields of a job that its file has no words for: said beside it.
BESIDE = ("environment", "cluster", "pool", "env", "volumes", "credentials", "needs")


def training_submit(
    *, principal: Principal, project: Project, asked: Mapping[str, Any]
) -> Job | None:
    """Make and start a job of ``asked``: jobId, config, trainingInput, labels, package, job.

    None: it asks for a search, which begins.
    """
    document, translation = _translated(principal, project, asked)
    if translation.refused:
        raise refusal(translation.refused)

    _require_unused(principal, project, translation)
    if translation.search is not None:
        searches().submit(
            principal=principal,
            project=project,
            said=_of_search(translation),
            document=document["trainingInput"],
            labels=document.get("labels", {}),
        )
        return None

    def keep(row: Job) -> None:
        said = {"document": document["trainingInput"], "labels": document.get("labels", {})}
        row.training_input = TrainingInput.objects.create(job=row, **said)

    made: Job = workload_create(
        principal=principal, project=project, kind=JOB, said=translation.said, beside=keep
    )
    return made


def training_plan(
    *, principal: Principal, project: Project, asked: Mapping[str, Any]
) -> tuple[tuple[Line, ...], Plan | None, str]:
    """Return what becomes of each field, the plan of the job, and why it would be refused."""
    _document, translation = _translated(principal, project, asked)
    if translation.refused:
        said = ", ".join(translation.refused)
        return tuple(translation.lines), None, _("Not supported: %(names)s") % {"names": said}
    translation.said.pop("code", None)  # for a plan nothing is sent
    try:
        if translation.search is not None:
            plan, refusal = searches().plan(
                principal=principal, project=project, said=_of_search(translation)
            )
            return tuple(translation.lines), plan, refusal
        plan = workload_plan(principal=principal, project=project, kind=JOB, said=translation.said)
    except BerthError as error:  # a field of the job itself: the table is of use all the same
        return tuple(translation.lines), None, error.message
    return tuple(translation.lines), plan, plan.refusal


def _of_search(translation: Translation) -> dict[str, Any]:
    """Return a search as its own API takes it: trials are jobs of the file's."""
    said = dict(translation.said)
    found = translation.search
    return {"name": said.pop("name"), "job": said, **(found.said if found else {})}


def _require_unused(principal: Principal, project: Project, translation: Translation) -> None:
    """Raise Conflict where a job has the name of a search, or a search that of a job."""
    name = translation.said["name"]
    if translation.search is not None:
        is_taken = Job.objects.filter(project=project, name=name, deleted_at__isnull=True).exists()
    else:
        is_taken = searches().listed(principal, project).filter(name=name).exists()
    if is_taken:
        raise Conflict(_("This name is taken in this project."), code="name-taken")


def _translated(
    principal: Principal, project: Project, asked: Mapping[str, Any]
) -> tuple[dict[str, Any], Translation]:
    """Return the whole document, of file and request, and the job that it is."""
    file = read(asked.get("config") or "")
    above = {name: asked[name] for name in FILE if asked.get(name)}
    document = merged(file, cleaned(above, FILE))
    document.setdefault("trainingInput", {})
    if not _NAME.fullmatch(document.get("jobId", "")):
        message = _("A letter, then letters, digits, “_” and “-”; at most 63 in all.")
        raise wrong("jobId", message)
    if len(document.get("labels", {})) > MAX_LABELS:
        raise wrong("labels", _("At most %(n)d labels.") % {"n": MAX_LABELS})
    beside = dict(asked.get("job") or {})
    if strange := next((name for name in beside if name not in BESIDE), None):
        raise wrong(f"job.{strange}", no_such_field(strange, BESIDE))
    usable = clusters_of(project)
    if beside.get("cluster"):
        usable = [one for one in usable if one.key == beside["cluster"]]
    fields = frozenset(field.name for field in JOB.table)
    folder = document["trainingInput"].get("jobDir", "")
    if not _keeps_output(principal, project, usable, folder, beside.get("credentials") or ()):
        fields -= {"output"}
    here = Here(
        tables=Tables.of(settings.BERTH_AI_PLATFORM),
        kinds=dict(Flavor.objects.order_by("position", "name").values_list("name", "label")),
        images=any(one.runs_images for one in usable),
        machine=any(not one.runs_images for one in usable),
        fields=fields,
    )
    translation = translate(document["trainingInput"], here, package=asked.get("package") or "")
    translation.said |= {**beside, "name": document["jobId"]}
    return document, translation


def _keeps_output(
    principal: Principal,
    project: Project,
    usable: Iterable[Cluster],
    folder: str,
    names: Iterable[str],
) -> bool:
    """Whether what a job leaves can be copied to ``folder``: a file with one runs in any case."""
    if "://" not in folder or not any(map(outputs.copies, usable)):
        return False
    try:
        said = [find_credential(principal, project, name) for name in names]
        attached = [one for one in said if one is not None]
        outputs.credential_for(principal, project, folder, "", attached)
    except BerthError:
        return False
    return True
