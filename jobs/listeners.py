"""Listens to status changes: the end of a launch, news for its owner.

Runs inside the engine's apply transaction: what it writes is exact, once, or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.clock import now
from common.hooks import Hook
from events import services as events
from jobs import checkpoints, smoke, told
from jobs.models import Job
from jobs.replicas import moment
from jobs.runs import place_note, run_end
from jobs.states import ENDED
from notifications.services import notify_owner
from runtime import reasons
from runtime.protocol import Desired, Phase
from volumes.services.base import volume_note_written

if TYPE_CHECKING:
    from runtime.reconcilers import Transition

# Whether its end is told with that of something that it is a part of: then it tells nobody itself.
is_told_with: Hook[[Job], bool] = Hook()


def on_transition(change: Transition) -> None:
    row = change.row
    if not isinstance(row, Job):
        return
    ends = _has_ended(change)
    loses_its_place = change.outcome.updates.get("launch", change.seen.launch) != change.seen.launch
    begins = change.after == Phase.RUNNING != change.before
    is_asked = change.after == Phase.STOPPING != change.before  # it may tell of its checkpoint now
    if row.smoke_of is None and (ends or loses_its_place or begins or is_asked):
        told.due(change.seen)
    if row.smoke_of is None and begins:
        place_note(change)
        checkpoints.begins(row)
    elif ends or loses_its_place:
        checkpoints.ends(row)
    if not ends:
        return
    launch, seen = change.seen.launch, (change.outcome.external_ref or {}).get("exit") or {}
    at = min(moment(seen.get("at")) or now(), now())
    latest = Job.objects.filter(pk=row.pk, launch=launch)
    latest.update(stopped_at=at, finished_at=at, ends_at=None)
    if row.smoke_of is not None:
        smoke.tell(row)
        told.smoke_note(row, at)
        return
    written = row.mounts.filter(read_only=False).values_list("volume__uid", flat=True)
    volume_note_written(uids=list(written))
    how = _how(change)
    run_end(change, at, how)
    events.record(
        actor=None,
        verb=f"job.ended-{how}",
        target=row,
        project_uid=row.project.uid,
        data={"run": launch, "exit_code": change.outcome.updates.get("exit_code", row.exit_code)},
    )
    if how != "cancelled" and not any(is_told_with(row)):
        notify_owner(row, f"job.{how}", reason=reasons.info(change.outcome.reason).text)


def _has_ended(change: Transition) -> bool:
    """Whether this pass is the one that saw the end of its launch, and no error on the way."""
    launch, ref = change.seen.launch, change.outcome.external_ref
    if change.gone or change.after not in ENDED or launch == 0:
        return False
    if ref is None:  # refused or set aside as a whole
        return change.outcome.requeue_s is None
    return ref.get("ended") == launch != (change.seen.external_ref or {}).get("ended")


def _how(change: Transition) -> str:
    if change.seen.desired != Desired.RUNNING:
        return "cancelled"
    return "failed" if change.after == Phase.FAILED else "succeeded"
