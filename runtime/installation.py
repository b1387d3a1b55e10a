"""Which Berth this is, and whether it may remove what has no row.

All that it makes outside of the database carries its mark. A reason to hold stands where the rows
may be older than the world: until an operator releases it, nothing goes for having no row.
"""

from datetime import timedelta
from typing import Any

from django.db import transaction

from common.clock import now
from events.services import record
from runtime.models import Installation

# Orphans are looked for every minute. A database that says they were not for so long may be a
# copy of that time.
QUIET = timedelta(minutes=15)


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
