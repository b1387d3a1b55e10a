"""Parts of files that an export left half sent: given up when it is cancelled or removed.

A store keeps (and charges for) the parts of an upload until somebody ends it. The program that
copies knows them from its journal, so it is run once more, to give them up. Intent stays what it
was (stopped, absent): this is a part of the way there.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from common.clock import now
from events import services as events
from loaders.choices import Direction, Task, Uploads
from loaders.models import Load
from loaders.results import ended
from runtime.hints import hint

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


def note_begun(row: Load, task: Task) -> None:
    """A run begins that may leave parts behind; the caller saves."""
    sends = row.direction == Direction.OUT and task in {Task.LOAD, Task.RETRY}
    if sends or row.uploads == Uploads.CLOSING:  # it goes on with them instead
        row.uploads, row.uploads_at = Uploads.OPEN, None


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
    elif how.code in _AGAIN and waited < TRIED_FOR:
        row.launch += 1
        row.generation += 1
        _write(row, after=max(FIRST_PAUSE, waited))
    else:
        row.uploads = Uploads.LEFT
        _write(row)
        events.record(
            actor=None,
            verb="load.uploads-left",
            target=row,
            project_uid=row.project.uid,
            data={"code": how.code},
        )


def _write(row: Load, *, after: timedelta | None = None) -> None:
    Load.objects.filter(pk=row.pk).update(**{name: getattr(row, name) for name in COLUMNS})
    if after is None:
        hint(row)
    else:
        Load.objects.filter(pk=row.pk).update(next_reconcile_at=now() + after)
