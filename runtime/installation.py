"""Which Berth this is, and whether it may remove what it does not know.

Another Berth's work looks like an orphan, and so does everything that is newer than a backup. So
what is removed for having no row carries this installation's mark, and nothing is removed while
the rows may be older than the world (``Installation.held_why``).
"""

from datetime import timedelta
from typing import Any

from django.db import transaction

from common.clock import now
from events.services import record
from runtime.models import Installation

# It looks every minute. A database that says it did not for so long may be a copy of that time.
QUIET = timedelta(minutes=15)
SHOWN = 200  # of what has no row


def own_id() -> str:
    """Return the mark of this installation, "" before it was set up."""
    uid = Installation.objects.values_list("uid", flat=True).first()
    return "" if uid is None else str(uid)


def hold(why: Installation.Hold) -> None:
    """From now on nothing is removed for having no row; a reason that stands already stays."""
    Installation.objects.filter(held_why="").update(held_why=why, held_since=now(), unknown=[])


def awake() -> Installation | None:
    """Return the row, with the hold that begins where it was long not at work; note that it is."""
    own = Installation.objects.first()
    if own is None:
        return None
    if own.alive_at is not None and now() - own.alive_at > QUIET:
        hold(Installation.Hold.QUIET)
    Installation.objects.update(alive_at=now())
    own.refresh_from_db()
    return own


def note_unknown(own: Installation, found: list[dict[str, str]], *, whole: bool) -> None:
    """Write down what was seen without a row. Nothing anywhere ends a hold for long silence."""
    if own.held_why == Installation.Hold.QUIET and whole and not found:
        Installation.objects.update(held_why="", held_since=None, unknown=[])
    elif own.unknown != found[:SHOWN]:
        Installation.objects.update(unknown=found[:SHOWN])


@transaction.atomic
def release(actor: Any = None, *, by: str = "") -> Installation:
    """An operator has looked: what carries our mark and has no row is removed from now on."""
    own = Installation.objects.select_for_update().get()
    record(
        actor=actor,
        verb="installation.orphans-released",
        target=own,
        message=f"By {by} on the machine itself." if by else "",
        data={"held": own.held_why, "unknown": own.unknown},
    )
    own.held_why, own.held_since = "", None
    own.save(update_fields=["held_why", "held_since"])
    return own
