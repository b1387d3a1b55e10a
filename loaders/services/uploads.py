"""Parts of files that an export left half sent: given up when it is cancelled or removed.

A store keeps (and charges for) the parts of an upload until somebody ends it. The program that
copies knows them from its journal, so it is run once more, to give them up. Intent stays what it
was (stopped, absent): this is a part of the way there.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction

from common.clock import now
from events import services as events
from loaders import concurrency
from loaders.choices import Direction, Task, Uploads
from loaders.models import Load
from loaders.results import ended
from runtime.hints import hint, hint_uids
from runtime.protocol import Desired
from work.models import Workload

if TYPE_CHECKING:
    from runtime.reconcilers import Transition

# Long enough for a store that is being restarted; short enough for whoever waits for a removal.
TRIED_FOR = timedelta(minutes=5)
FIRST_PAUSE = timedelta(seconds=5)
COLUMNS = ("uploads", "uploads_at", "launch", "generation")
# Another try could end otherwise; a refusal stays one.
_AGAIN = frozenset(
    ["unreachable", "internal", "stopped", *("killed", "vanished", "evicted", "preempted")]
)


def _sends(row: Load, task: Task) -> bool:
    return row.direction == Direction.OUT and task in {Task.LOAD, Task.RETRY}


def note_begun(row: Load, task: Task) -> None:
    """A run is wanted: what was to be given up, it goes on with; the caller saves."""
    if row.uploads == Uploads.CLOSING or (row.uploads == Uploads.LEFT and _sends(row, task)):
        row.uploads, row.uploads_at = Uploads.OPEN, None


def note_placed(row: Load) -> bool:
    """A run is about to be made that may leave parts behind; False: it is not wanted any more.

    Not sooner: who was cancelled while it waited has nothing to give up. Not later either: one
    that ends before anybody saw it run has.
    """
    if row.uploads != Uploads.NONE or not _sends(row, Task(row.task)):
        return True
    rows = Load.objects.filter(
        pk=row.pk, launch=row.launch, desired=Desired.RUNNING, uploads=Uploads.NONE
    )
    if not rows.update(uploads=Uploads.OPEN):
        return False
    row.uploads = Uploads.OPEN
    return True


def begin_closing(row: Load) -> bool:
    """Ask for a run that gives them up, where there may be some; the caller saves and hints."""
    if row.uploads not in {Uploads.OPEN, Uploads.LEFT}:
        return False
    row.uploads, row.uploads_at = Uploads.CLOSING, now()
    row.launch += 1
    row.generation += 1
    return True


def close_later(row: Load) -> None:
    """The same from a listener, in the transaction in which the cancelled run was seen to end."""
    if begin_closing(row):
        _write(row)


def hopeless(row: Load) -> str:
    """Return why no run will give them up (a code), "" while one may. None was begun yet.

    A project that goes takes its place on the cluster, its credentials and its volumes along,
    and waits for its loads: whoever waited for these here would wait for ever.
    """
    if row.project.desired == Desired.ABSENT:
        return "project-gone"
    if row.volume.is_being_deleted or row.volume.project_id != row.project_id:
        return "volume-gone"
    if row.credential is None and not row.anonymous:
        return "credential-gone"
    late = row.uploads_at is not None and now() - row.uploads_at > TRIED_FOR
    return "no-place" if late else ""


@transaction.atomic
def leave(row: Load, code: str) -> None:
    """They stay at the store, and people are told; the load goes its way."""
    rows = Load.objects.filter(pk=row.pk, launch=row.launch, uploads=Uploads.CLOSING)
    if rows.update(uploads=Uploads.LEFT):
        row.uploads = Uploads.LEFT
        _tell_left(row, code)
        wake_next(row)


def _tell_left(row: Load, code: str) -> None:
    events.record(
        actor=None,
        verb="load.uploads-left",
        target=row,
        project_uid=row.project.uid,
        data={"code": code},
    )


def wake_next(row: Load) -> None:
    """One of the project gives nothing up any more: the next ones may."""
    hint_uids(Load.KIND, concurrency.closing_in_line(row.project))


def closing_ended(change: Transition) -> None:
    """A run that gave up parts is over: all are gone, or it is tried again, or people are told."""
    row: Load = change.row
    seen = (change.outcome.external_ref or {}).get("exit") or {}
    how = ended(
        stopped_for="",
        exit_code=seen.get("code"),
        reason=str(seen.get("reason") or change.outcome.reason),
        message=change.outcome.message,
        final=None,
    )
    waited = now() - (row.uploads_at or now())
    if how.code == "done":
        row.uploads, row.uploads_at = Uploads.NONE, None
        _write(row)
        wake_next(row)
    elif how.code in _AGAIN and waited < TRIED_FOR:
        row.launch += 1
        row.generation += 1
        # the last try begins before its time is over
        _write(row, after=max(FIRST_PAUSE, min(waited, (TRIED_FOR - waited) / 2)))
    else:
        row.uploads = Uploads.LEFT
        _write(row)
        _tell_left(row, how.code)
        wake_next(row)


def _write(row: Load, *, after: timedelta | None = None) -> None:
    Load.objects.filter(pk=row.pk).update(**{name: getattr(row, name) for name in COLUMNS})
    if after is None:
        hint(row)
    else:
        Workload.objects.filter(pk=row.pk).update(next_reconcile_at=now() + after)
