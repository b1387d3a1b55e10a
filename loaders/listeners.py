"""Listens to status changes: the result of a run, its history, who waited for it.

Runs inside the engine's apply transaction: what it writes is exact, once, or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from common.clock import now
from events import services as events
from loaders import concurrency, logs
from loaders.choices import Result, StopReason, Task, Uploads
from loaders.models import ENDED, Load, LoadRun, Progress
from loaders.notices import tell_ended
from loaders.results import Ended, ended
from loaders.services import retries, uploads
from runtime.hints import hint_uids
from runtime.protocol import Desired
from volumes.services.base import volume_measure_soon
from work import needs

if TYPE_CHECKING:
    from runtime.reconcilers import Transition

RUNS_KEPT = 100  # of one load
# A full run that ended so has brought the data; a dry run and a check have not.
_BRINGS = frozenset({Task.LOAD, Task.RETRY})


def on_transition(change: Transition) -> None:
    row = change.row
    if not isinstance(row, Load):
        return
    launch = change.seen.launch
    if change.gone:
        open_runs = LoadRun.objects.filter(load=row, result="")
        open_runs.update(result=Result.CANCELLED, ended_at=now())
    elif is_over(change, launch):
        if _is_closing(row, change.seen):
            uploads.closing_ended(change)
        else:
            _close(change, launch)
    if change.gone or change.after in ENDED:
        hint_uids(Load.KIND, concurrency.next_in_line(row.project))
        needs.changed([row.uid])


def is_over(change: Transition, launch: int) -> bool:
    """Whether this pass saw the end of that launch, and not merely an error on the way."""
    if change.after not in ENDED or launch == 0:
        return False
    ref = change.outcome.external_ref
    if ref is None:  # refused or set aside as a whole: nothing is tried again by itself
        return change.outcome.requeue_s is None
    return bool(ref.get("ended") == launch)


def _is_closing(row: Load, seen: Load) -> bool:
    """Whether what ended gave up parts at the store, and nothing else was wanted meanwhile."""
    return seen.uploads == row.uploads == Uploads.CLOSING and row.launch == seen.launch


def _close(change: Transition, launch: int) -> None:
    """Write the result once: into the history, and into the load while it is its latest run."""
    row: Load = change.row
    run = LoadRun.objects.filter(load=row, launch=launch, result="").first()
    if run is None:
        return
    how = _how(change, launch)
    latest = row.launch == launch
    if latest:
        _copy_progress(row, run)
        run.started_at = row.started_at
    run.manifest = _manifest(row, run, how) if latest else ""
    run.ended_at, run.result = now(), how.result
    run.code, run.message = how.code[:32], how.message[:500]
    run.save()
    logs.keep(run, getattr(change.seen, "said", None))
    if launch > RUNS_KEPT:
        LoadRun.objects.filter(load=row, launch__lte=launch - RUNS_KEPT).delete()
    events.record(
        actor=None,
        verb=f"load.ended-{how.result}",
        target=row,
        project_uid=row.project.uid,
        data={"run": launch, "code": how.code, "files": run.files_done, "bytes": run.bytes_done},
    )
    if latest:
        _close_load(row, run, how)
        if row.desired == Desired.STOPPED and row.stop_reason == StopReason.CANCELLED:
            uploads.close_later(row)


def _how(change: Transition, launch: int) -> Ended:
    row: Load = change.row
    ref = change.outcome.external_ref or {}
    seen = ref.get("exit") or {}
    stopped = change.seen.desired == Desired.STOPPED
    reason = seen.get("reason") or change.outcome.reason
    if row.credential_id is None and not row.anonymous:
        reason = "credential-gone"
    return ended(
        stopped_for=(row.stop_reason or "paused") if stopped else "",
        exit_code=seen.get("code"),
        reason=str(reason),
        message=change.outcome.message,
        final=row.final if row.launch == launch else None,
    )


def _copy_progress(row: Load, run: LoadRun) -> None:
    for field in Progress._meta.get_fields():  # noqa: SLF001 - Django's public way to columns
        setattr(run, field.name, getattr(row, field.name))


def _manifest(row: Load, run: LoadRun, how: Ended) -> str:
    """Return where this run wrote what it copied; others write none."""
    wrote = run.task in _BRINGS and how.result in {Result.DONE, Result.PARTIAL}
    return str((row.final or {}).get("manifest", "")) if wrote else ""


def _close_load(row: Load, run: LoadRun, how: Ended) -> None:
    values: dict[str, Any] = {
        "result": run.result,
        "result_code": run.code,
        "result_message": run.message,
        "stopped_at": run.ended_at,
        "eta_s": None,
        "rate_bytes_s": 0,
    }
    if run.manifest:
        values["manifest"] = run.manifest
    if run.result == Result.DONE and run.task in _BRINGS:
        values["loaded_at"] = run.ended_at
    if run.result == Result.DONE and run.task == Task.LOAD and not how.uploads:
        values["uploads"] = Uploads.NONE
    if run.task == Task.DRY_RUN and run.result in {Result.DONE, Result.PARTIAL}:
        values["dry_run"] = {
            "files": run.files_found,
            "bytes": run.bytes_found,
            "seconds": _seconds(row),
            "skipped": run.files_skipped,
            "at": run.ended_at.isoformat() if run.ended_at else "",
        }
    for name, value in values.items():
        setattr(row, name, value)
    goes_on = row.desired == Desired.RUNNING and retries.retry_later(row)
    if goes_on:
        values["retry_at"] = row.retry_at
    Load.objects.filter(pk=row.pk, launch=run.launch).update(**values)
    if run.task in _BRINGS | {Task.CLEAR}:
        volume_measure_soon(uids=[row.volume.uid])
    if not goes_on:
        tell_ended(row)


def _seconds(row: Load) -> int | None:
    """Return how long a run would take: as the dry run says, else as fast as this load was."""
    if row.eta_s is not None:
        return row.eta_s
    run = (
        LoadRun.objects.filter(
            load__project_id=row.project_id,
            load__store_kind=row.store_kind,
            task=Task.LOAD,
            bytes_done__gt=0,
        )
        .exclude(started_at=None)
        .order_by("-ended_at")
        .first()
    )
    if run is None or run.started_at is None or run.ended_at is None:
        return None
    seconds = max(1.0, (run.ended_at - run.started_at).total_seconds())
    return int(row.bytes_found * seconds / run.bytes_done)
