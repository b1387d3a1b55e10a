"""TensorBoard of runs: a workspace of whoever looks, which reads the folders that runs write to.

How it is signed in to, stopped when nobody looks, counted and shared is that of any workspace.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from common.errors import Conflict
from common.ids import next_name
from jobs import runs
from jobs.models import Job, Run
from jobs.origin import KIND as WORKSPACE
from jobs.outputs import credential_for
from loaders.choices import Direction
from loaders.services import load_ensure
from projects.access import permissions_of
from runtime.protocol import Desired
from work import kinds
from work.selectors import names_taken
from work.services.edit import workload_edit
from work.services.launch import workload_create, workload_start

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from accounts.principal import Principal

MOST = 20  # runs beside each other
_NAMED = 40  # of a job's name in that of its TensorBoard
_NOTHING_KEPT = _lazy(
    "Nothing that it writes is kept: name an output or a folder for checkpoints in its "
    "settings, and have it write its event files there."
)


def tensorboard_open(
    *,
    principal: Principal,
    row: Job,
    launches: Sequence[int] = (),
    beside: Sequence[Run] = (),
    must_fit: bool = False,
) -> Any:
    """Return the person's workspace that shows these runs, the latest where none is said.

    It is begun where there is none, and started where it has stopped. Pressed twice at once it is
    one. ``beside``: runs of other jobs of the project. ``must_fit``: as ``workload_create`` has it.
    """
    if len({*launches}) + len(beside) > MOST:
        raise Conflict(_("At most %(n)d runs are shown at once.") % {"n": MOST}, code="too-many")
    found = {*_chosen(row, launches), *beside}
    shown = sorted(found, key=lambda run: (run.job_id, -run.launch))
    if len({run.job.cluster_key for run in shown}) > 1:
        text = _("What runs on different clusters wrote can't be shown at once.")
        raise Conflict(text, code="several-clusters")
    if any(run.job_id != row.pk for run in shown):
        name = ", ".join(f"{run.job.name} {run.launch}" for run in shown)[:_NAMED].strip(" ,")
    else:
        newest, oldest = shown[0].launch, shown[-1].launch
        number = newest if newest == oldest else f"{oldest}-{newest}"
        name = f"{row.name[:_NAMED].strip()} {number}"
    return _opened(principal, shown, name, must_fit=must_fit)


def tensorboard_of(
    *, principal: Principal, of: UUID, jobs: Sequence[Job], name: str, must_fit: bool = False
) -> Any:
    """Return the person's workspace that shows the latest run of each of these jobs beside each
    other: of the first that keep what they write, and only where the first of those ran.

    ``of``: whose jobs they are. Whatever the order, one set of runs is one workspace; where another
    set was shown before, that workspace restarts with this one.
    """
    rows = Run.objects.filter(job__in=[one for one in jobs if keeps(one)]).order_by("launch")
    latest = {run.job_id: run for run in rows.select_related("job__project", "output_volume")}
    found = [latest[one.pk] for one in jobs if one.pk in latest]
    there = [run for run in found if run.job.cluster_key == found[0].job.cluster_key]
    if not there:
        raise Conflict(_NOTHING_KEPT, code="no-output")
    shown = sorted(there[:MOST], key=lambda run: run.job_id)  # as they began
    return _opened(principal, shown, name[:_NAMED].strip(), of=of, must_fit=must_fit)


def _opened(
    principal: Principal,
    found: Sequence[Run],
    name: str,
    *,
    must_fit: bool,
    of: UUID | None = None,
) -> Any:
    """Return the person's workspace that shows these runs, begun or started where it has to be.

    ``of``: what it is of, whichever runs of that it showed before; None: of just these.
    """
    row = found[0].job
    folders, gone = _folders(found), [run for run in found if run.output_cleared_at]
    kind = kinds.kind_of(WORKSPACE)
    its = kind.model.objects.filter(project=row.project, owner=principal.user)
    key = of.hex if of else sha256(repr(folders).encode()).hexdigest()[:32]
    made = its.filter(nonce__startswith=f"tensorboard-{key}-") if of else its.filter(logdir=folders)
    there = made.filter(deleted_at=None, cluster_key=row.cluster_key)
    there = there.exclude(desired=Desired.ABSENT).first()
    is_same = there is not None and there.logdir == folders
    if is_same and there.is_on_its_way:
        return there
    volumes = dict.fromkeys(folder.partition("/")[0] for folder in folders)
    shows = {"logdir": folders, "volumes": [f"{volume}:ro" for volume in volumes]}
    needs = {"needs": [_brought_back(principal, run) for run in gone]}
    if there is not None:
        said = {**shows, **needs} if not is_same else needs if gone else {}
        there = workload_edit(principal=principal, row=there, said=said) if said else there
        return workload_start(principal=principal, row=there)  # where the edit did not
    name = next_name(f"TensorBoard {name}", names_taken(row.project, principal.user, kind))
    return workload_create(
        principal=principal,
        project=row.project,
        kind=kind,
        nonce=f"tensorboard-{key}-{made.count()}",
        must_fit=must_fit,
        said={
            "kind": "tensorboard",
            "name": name,
            "cluster": row.cluster_key,
            **shows,
            **needs,
        },
    )


def is_offered(who: Principal, row: Job) -> bool:
    """Whether a press on it may show something: what it writes is kept, and has been written."""
    kind = kinds.kind_of(WORKSPACE)
    may = kind.create in permissions_of(who, row.project) and not row.project.archived_at
    return may and row.launch > 0 and keeps(row)


def keeps(row: Job) -> bool:
    """Whether what its program writes is kept where TensorBoard can look."""
    return bool(row.output or row.checkpoints)


def shown_by(board: Any) -> list[tuple[Job, Run | None]]:
    """Return the runs whose folders a TensorBoard shows; with None a job's, of its checkpoints."""
    # A whole volume is nobody's folder: what keeps no output would all be looked at for it.
    at = {folder: below for folder in board.logdir if (below := folder.partition("/")[2])}
    wrote = Run.objects.filter(job__project=board.project, output_folder__in=at.values())
    wrote = wrote.filter(job__deleted_at=None).order_by("-launch")
    found: list[tuple[Job, Run | None]] = [
        (run.job, run)
        for run in wrote.select_related("job__project", "output_volume")
        if run.output_volume and f"{run.output_volume.name}/{run.output_folder}" in at
    ]
    saved = Job.objects.filter(project=board.project, deleted_at=None)
    saved = saved.filter(short_id__in=[folder.rpartition("/")[2] for folder in at])
    rows = saved.select_related("project")
    return [*found, *((row, None) for row in rows if f"{row.checkpoints}/{row.short_id}" in at)]


def _chosen(row: Job, launches: Sequence[int]) -> list[Run]:
    """Return the runs, the newest first."""
    if not launches:
        latest = runs.runs_of(row).first()
        found = [latest] if latest is not None else []
    else:
        found = [runs.run_get(row, launch) for launch in sorted(set(launches), reverse=True)]
    if not found:
        raise Conflict(_("It has no run yet."), code="no-run")
    return found


def _folders(found: Sequence[Run]) -> list[str]:
    """Return the folders that these runs write to, as VOLUME/FOLDER."""
    folders = [
        f"{run.output_volume.name}/{run.output_folder}"
        for run in found
        if run.output_volume is not None and run.output_folder
    ]
    jobs = dict.fromkeys(run.job for run in found)
    folders += [f"{one.checkpoints}/{one.short_id}" for one in jobs if one.checkpoints]
    if not folders:
        raise Conflict(_NOTHING_KEPT, code="no-output")
    return folders


def _brought_back(principal: Principal, run: Run) -> str:
    """Return the load that brings a folder back that went once it was copied to a bucket.

    TensorBoard waits for it: to read the bucket itself it would need programs and keys of its own.
    """
    job, volume = run.job, run.output_volume
    opens = credential_for(principal, job.project, run.output_url, job.output_credential, ())
    said = {
        "direction": Direction.IN.value,
        "url": run.output_url,
        "credential": str(opens.uid),
        "volume": str(volume.uid) if volume else "",
        "folder": run.output_folder,
    }
    return str(load_ensure(principal=principal, project=job.project, said=said).uid)
