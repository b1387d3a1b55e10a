"""The copy of what a run left: when it begins, how it ended, and what is removed after it.

It is a load which belongs to the job, so turns, limits, networks, tries and faults of it are those
of any load.
"""

from __future__ import annotations

from datetime import timedelta

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils.translation import gettext as _
from django.utils.translation import override

from accounts.principal import Principal
from common.clock import now
from common.disk import DiskFull
from common.errors import BerthError, Conflict, LimitExceeded
from jobs.choices import OutputState
from jobs.models import Job, Run
from jobs.output_states import state_of_output
from jobs.outputs import credential_for
from loaders import services as loads
from loaders.choices import Direction, Result, Task
from loaders.models import Load
from loaders.words import message_of
from notifications.services import notify_owner
from runtime.protocol import Desired
from work.attached import credentials_of
from work.services.base import locked, own

log = structlog.get_logger(__name__)

BATCH = 50
PAUSE, LONGEST = timedelta(seconds=15), timedelta(days=1)  # while only a limit has no room


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
    if state_of_output(run) == OutputState.COMPLETE:
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
