"""Where what a run leaves goes: the folder that its program writes to, and the copy of it.

The folder lies in a volume, so it outlives pod and process. A bucket gets a copy when the run has
ended, however it ended: that is a load which belongs to the job, so turns, limits, networks, tries
and faults of it are those of any load.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils.translation import gettext as _
from django.utils.translation import override

from accounts.principal import Principal
from clusters.options import options_of
from common.clock import now
from common.disk import DiskFull
from common.errors import BerthError, Conflict, Invalid, LimitExceeded, wrong
from credentials.selectors import credentials_usable
from files.below import Below, files_below
from jobs.choices import OutputState
from jobs.models import Job, Run
from loaders import policies
from loaders import services as loads
from loaders.choices import Direction, Result, Task
from loaders.models import Load
from loaders.services.resolve import find_credential
from loaders.states import SETTLED, state_of
from loaders.words import message_of, percent_of
from notifications.services import notify_owner
from runtime.protocol import Desired
from volumes.services.create import SHARED
from work.attached import attached_to, credentials_of
from work.services.base import locked, own

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusters.models import Cluster
    from credentials.models import Credential
    from projects.models import Project
    from volumes.models import Volume
    from work.attached import Attached, Seen

log = structlog.get_logger(__name__)

VOLUME = "volume:"
FOLDER = "job-outputs"  # in a volume, of what is copied elsewhere
BATCH = 50
PAUSE, LONGEST = timedelta(seconds=15), timedelta(days=1)  # while only a limit has no room
_LONGEST = 512  # of a run's folder (``Run.output_folder``)
_LONGEST_BELOW = 64  # in it: the name of the job, its id and the number of the run
_NO_PATH = re.compile(r"[^A-Za-z0-9._-]+")


# --- what may be said ----------------------------------------------------------------------------


def check(row: Job, attached: Attached) -> None:
    """Raise what is wrong with ``output``; which cluster has room for it is asked elsewhere."""
    if row.output_credential and not is_copied(row) and not row.checkpoints_to:
        raise wrong("output_credential", _("Only a bucket is opened by a credential."))
    if not row.output:
        return
    volume_of(row, attached)
    if len(row.output.encode()) + _LONGEST_BELOW > _LONGEST:
        raise wrong("output", _("This name or path is too long."))
    if is_copied(row):
        credential_of(row, attached.credentials)


def is_copied(row: Job) -> bool:
    return bool(row.output) and not row.output.startswith(VOLUME)


def copies(cluster: Cluster) -> bool:
    """Whether anything can be copied from the volumes of a cluster."""
    return not cluster.runs_images or bool(options_of(cluster.options).data_image)


def volume_of(row: Job, attached: Attached) -> Volume | None:
    """Return the volume that its program writes to; None: the project's own, not made yet."""
    writes = [seen for seen in attached.volumes if not seen.read_only]
    found: Seen | None
    if row.output.startswith(VOLUME):
        name = row.output.removeprefix(VOLUME).partition("/")[0]
        if attached.with_shared and name == SHARED:
            return None
        found = next((one for one in writes if one.volume.name == name), None)
        if found is None:
            names = ", ".join(one.volume.name for one in writes) or "-"
            message = _("It is none of the volumes that the job may write to: %(names)s.")
            raise wrong("output", message % {"names": names})
        return found.volume
    if attached.with_shared:
        return None
    writes.sort(key=lambda one: one.volume.name != SHARED)
    if not writes:
        said = _("Its files are kept in a volume until they are copied: give it one to write to.")
        raise wrong("output", said)
    return writes[0].volume


def credential_of(row: Job, attached: Iterable[Credential]) -> Credential:
    """Return what opens the bucket: what was named, else the one of the job's or project's."""
    who = Principal(user=row.owner)
    return credential_for(who, row.project, row.output, row.output_credential, attached)


def credential_for(
    who: Principal, project: Project, url: str, name: str, attached: Iterable[Credential]
) -> Credential:
    try:
        place = policies.parse_url(url)
        found = _credential(who, project, place, name, attached)
        policies.check_bucket(found.kind, place.bucket)
    except Invalid as error:  # said of a load's own field
        raise wrong(
            "output_credential" if "output_credential" in error.fields else "output", error.message
        ) from error
    return found


def _credential(
    who: Principal,
    project: Project,
    place: policies.Place,
    name: str,
    attached: Iterable[Credential],
) -> Credential:
    if name:
        named = find_credential(who, project, name)
        if named is None or named.kind not in place.kinds:
            said = _("“%(name)s” does not open %(scheme)s:// addresses.")
            raise wrong("output_credential", said % {"name": name, "scheme": place.scheme})
        return named
    fits = [one for one in attached if one.kind in place.kinds]
    fits = fits or list(credentials_usable(who, project, place.kinds))
    if len(fits) == 1:
        return fits[0]
    if fits:
        said = _("Say which credential opens the bucket: %(names)s.")
        names = ", ".join(one.name for one in fits)
        raise wrong("output_credential", said % {"names": names})
    said = _("No credential of the project opens %(scheme)s:// addresses: add one first.")
    raise wrong("output", said % {"scheme": place.scheme})


# --- a run ---------------------------------------------------------------------------------------


def planned(row: Job) -> dict[str, Any]:
    """Return the columns of a new run: where its program writes, and where that is copied."""
    if not row.output:
        return {}
    volume = volume_of(row, attached_to(row))
    word = f"{_NO_PATH.sub('-', row.name).strip('-.')[:40] or 'job'}-{row.short_id}"
    below = f"{word}/{row.launch}"
    base = FOLDER if is_copied(row) else row.output.removeprefix(VOLUME).partition("/")[2]
    return {
        "output_volume": volume,
        "output_folder": f"{base}/{below}" if base else below,
        "output_url": f"{row.output.rstrip('/')}/{below}/" if is_copied(row) else "",
    }


def written_to(row: Job) -> str:
    """Return the folder of the run that is on its way, below those of its volumes; "": none."""
    if not row.output or row.smoke_of is not None:
        return ""
    runs = Run.objects.filter(job=row, launch__lte=row.launch).select_related("output_volume")
    run = runs.order_by("-launch").first()
    if run is None or run.output_volume is None:
        return ""
    return f"{run.output_volume.mount_name}/{run.output_folder}"


def outputs_copy() -> int:
    """Begin the copies that are due; return how many. One question where none is."""
    due = Run.objects.filter(output_due_at__lte=now()).order_by("output_due_at")
    return sum(_begin(pk) for pk in list(due.values_list("pk", flat=True)[:BATCH]))


def _begin(pk: int) -> bool:
    try:
        with transaction.atomic():
            run = _locked(pk)
            if run.output_due_at is None or run.output_due_at > now():
                return False  # another worker was faster, or a person
            with override(run.job.owner.reads_in):
                _copy(Principal(user=run.job.owner), run)
    except BerthError as error:
        _not_now(pk, error)
        return False
    except Exception:
        log.exception("job-output", run=pk)  # it holds up no other
        Run.objects.filter(pk=pk).update(output_due_at=now() + timedelta(minutes=10))
        return False
    return True


def _locked(pk: int) -> Run:
    """Its load is locked first: who sees a load end holds it, and then writes to its run."""
    its = Run.objects.filter(pk=pk).values("output_load")
    if (load := Load.objects.filter(pk__in=its).first()) is not None:
        locked(load)
    rows = Run.objects.select_for_update(of=("self",))
    return rows.select_related("job__project", "job__owner", "output_volume").get(pk=pk)


def _copy(who: Principal, run: Run) -> None:
    """Start the load of a run that is locked, or make it."""
    job, volume = run.job, run.output_volume
    if volume is None:
        raise Conflict(_("The volume with its files is gone."), code="volume-gone")
    credential = credential_for(
        Principal(user=job.owner),
        job.project,
        run.output_url,
        job.output_credential,
        credentials_of(job),
    )  # of where the run began to be kept, whatever its job says by now
    if run.output_load is not None:
        old = run.output_load
        run.output_load = loads.made_start(principal=who, row=old, credential=credential)
    else:
        run.output_load = loads.load_create(
            principal=who,
            project=job.project,
            made_for=job.uid,
            said={
                "name": f"output-{job.short_id}-{run.launch}",
                "direction": Direction.OUT.value,
                "url": run.output_url,
                "credential": str(credential.uid),
                "volume": str(volume.uid),
                "folder": run.output_folder,
            },
        )
    run.output_due_at, run.output_how, run.output_note = None, "", ""
    run.save(update_fields=["output_load", "output_due_at", "output_how", "output_note"])


def _not_now(pk: int, error: BerthError) -> None:
    """Keep why it can't begin; what may pass by itself is tried again for a day."""
    with transaction.atomic():
        run = _locked(pk)
        waited = now() - (run.ended_at or now())
        run.output_note = error.message[:500]
        run.output_due_at = None
        if isinstance(error, LimitExceeded | DiskFull) and waited < LONGEST:
            run.output_due_at = now() + max(PAUSE, min(waited, timedelta(minutes=10)))
        else:
            run.output_how = Result.FAILED
            _tell(run, error.message)
        run.save(update_fields=["output_note", "output_due_at", "output_how"])


@transaction.atomic
def output_again(*, principal: Principal, row: Job, launch: int) -> Run:
    """Copy once more what a run left: what is there already is not sent again."""
    own(principal, row)
    found = Run.objects.filter(job=row, launch=launch).values_list("pk", flat=True).first()
    run = _locked(found) if found is not None else None
    if run is None or not run.output_url or run.ended_at is None:
        raise Conflict(_("Nothing of this run is to be copied."), code="no-output")
    if run.output_cleared_at is not None:
        said = _("It was copied, and its folder was removed since.")
        raise Conflict(said, code="output-cleared")
    if _state(run) == OutputState.COMPLETE:
        raise Conflict(_("All of it was copied already."), code="output-complete")
    _copy(principal, run)
    return run


def note_ended(load: Load) -> None:
    """Write down how a copy ended, in the transaction that saw it; its owner hears what lacks."""
    run = Run.objects.filter(output_load=load).select_related("job__project", "job__owner").first()
    if run is None:
        return
    if load.task == Task.CLEAR:
        if load.result == Result.DONE:
            Run.objects.filter(pk=run.pk).update(output_cleared_at=now())
        elif load.result == Result.PARTIAL:
            with override(run.job.owner.reads_in):
                said = _("Files that were not copied, or changed since, stay in its folder.")
            Run.objects.filter(pk=run.pk).update(output_note=said)
        return
    told = {
        "files": load.files_done + load.files_unchanged,
        "bytes": load.bytes_done,
        "named": (load.final or {}).get("files", []),
    }
    Run.objects.filter(pk=run.pk).update(output_how=load.result, output_told=told)
    if load.result in {Result.PARTIAL, Result.FAILED}:
        with override(run.job.owner.reads_in):
            _tell(run, message_of(load))


def _tell(run: Run, reason: str) -> None:
    notify_owner(run.job, "job.output", run=run.launch, reason=reason)


def files_of(principal: Principal, run: Run) -> Below:
    """Return what lies in the folder that a run writes to, as it is now; opens its file browser."""
    if run.output_volume is None or not run.output_folder or run.output_cleared_at is not None:
        raise Conflict(_("The folder of this run is not there."), code="no-output")
    return files_below(
        principal=principal,
        project=run.job.project,
        volume_uid=run.output_volume.uid,
        folder=run.output_folder,
    )


# --- what is left here ---------------------------------------------------------------------------


def outputs_tidy() -> int:
    """Remove folders that were copied as a whole long enough ago, and loads of jobs that are gone.

    The copying program removes them, as their owner: only files that are as they were copied.
    """
    before = now() - timedelta(days=settings.BERTH_OUTPUT_DAYS)
    rows = Run.objects.filter(output_how=Result.DONE, output_cleared_at=None, ended_at__lt=before)
    rows = rows.filter(output_load__deleted_at=None, output_load__isnull=False)
    rows = rows.filter(job__deleted_at=None, output_volume__isnull=False)
    rows = rows.exclude(output_load__task=Task.CLEAR).exclude(output_load__desired=Desired.ABSENT)
    cleared = sum(_clear(pk) for pk in list(rows.values_list("pk", flat=True)[:BATCH]))
    # Not merely none that is there: loads are made for other things than jobs, too.
    ended = Job.objects.filter(uid=OuterRef("made_for"), deleted_at__isnull=False)
    over = Load.objects.filter(made_for__isnull=False, deleted_at=None).exclude(result="")
    over = over.exclude(desired=Desired.ABSENT)
    gone = over.filter(Exists(ended)) | over.filter(task=Task.CLEAR, result=Result.DONE)
    for load in list(gone.distinct()[:BATCH]):
        loads.made_drop(load)
    return cleared


def _clear(pk: int) -> bool:
    try:
        with transaction.atomic():
            run = _locked(pk)
            load, who = run.output_load, Principal(user=run.job.owner)
            if load is not None and load.task != Task.CLEAR:
                loads.made_start(principal=who, row=load, task=Task.CLEAR)
    except BerthError:
        return False  # another time: it only takes room
    return True


# --- as people read it ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Output:
    """What a run left. ``named``: path and size of its files, not all where ``more``."""

    run: Run
    state: OutputState
    sentence: str = ""
    percent: int | None = None
    files: int = 0
    bytes: int = 0
    named: list[tuple[str, int]] = field(default_factory=list)

    @property
    def more(self) -> int:
        return max(0, self.files - len(self.named))

    @property
    def moves(self) -> bool:
        return self.state in {OutputState.WAITING, OutputState.COPYING}

    @property
    def is_here(self) -> bool:
        """Whether its folder can be looked into."""
        return self.run.output_volume is not None and self.run.output_cleared_at is None

    @property
    def is_copied_again(self) -> bool:
        """Whether a press on "try again" makes sense."""
        return self.state in {OutputState.PARTIAL, OutputState.FAILED} and self.is_here


_OF_RESULT = {Result.DONE: OutputState.COMPLETE, Result.PARTIAL: OutputState.PARTIAL}


def output_of(run: Run) -> Output:
    """Return what a run left and how far its copy is."""
    if _state(run) == OutputState.FAILED and not run.output_how:  # its load ended since it was read
        run.refresh_from_db(fields=("output_how", "output_told", "output_note"))
    told = run.output_told or {}
    output = Output(
        run,
        _state(run),
        files=told.get("files", 0),
        bytes=told.get("bytes", 0),
        named=[(str(path), int(size)) for path, size in told.get("named", ())],
    )
    load = run.output_load
    if output.state == OutputState.COPYING and load is not None:
        done = load.files_done + load.files_unchanged
        counted = replace(output, files=done, bytes=load.bytes_done)
        return replace(counted, sentence=message_of(load), percent=percent_of(load))
    if output.state == OutputState.COMPLETE:
        return replace(output, sentence=run.output_note)
    if output.state in {OutputState.WAITING, OutputState.PARTIAL, OutputState.FAILED}:
        said = run.output_note or (message_of(load) if load is not None else "")
        return replace(output, sentence=said)
    return output


def _state(run: Run) -> OutputState:
    if not run.output_folder:
        return OutputState.NONE
    if run.ended_at is None or not run.output_url:
        return OutputState.WRITING if run.ended_at is None else OutputState.KEPT
    if run.output_how:
        return _OF_RESULT.get(Result(run.output_how), OutputState.FAILED)
    if run.output_due_at is not None:
        return OutputState.WAITING
    if run.output_load is None:
        return OutputState.NOTHING
    is_over = state_of(run.output_load) in SETTLED
    return OutputState.FAILED if is_over else OutputState.COPYING
