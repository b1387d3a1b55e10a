"""Who may look into a volume now, and where the server is that shows it to him."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.utils.translation import gettext as _

from common.clock import now
from common.errors import Conflict, NotFound
from common.ids import is_uid
from events import services as events
from files import selectors, services
from files.models import FileSession
from files.runtime_spec import token_of
from gate.access import Demand
from gate.callers import Caller, principal_of
from gate.db import later
from runtime.protocol import Phase
from volumes.services import base

NOTED_EVERY = timedelta(seconds=60)


@dataclass(frozen=True)
class VolumeTarget:
    """One volume as one person may use it, as plain values; ``short_id`` is the volume's uid."""

    uid: str  # of the session
    short_id: str
    person_uid: str
    address: str
    token: str
    room: int | None
    phase: str
    launch: int

    def end_of(self, before: VolumeTarget, demand: Demand) -> str:
        """Return why a stream to ``before`` is over, now that this is what there is."""
        del demand
        return "" if self.uid == before.uid else _("The file browser was ended.")


def volume_target(caller: Caller, uid: str, demand: Demand) -> VolumeTarget:
    """Return it, or raise: NotFound for strangers, Forbidden with the reason, Conflict when
    no server runs for this person.
    """
    if not is_uid(uid):
        raise NotFound(_("There is no such volume, or you may not see it."))
    who = principal_of(caller)
    place = selectors.place_get(who, uid, write=demand is Demand.CHANGE)
    row = selectors.session_of(who, place.volume)
    if row is None or not row.is_open:
        raise Conflict(
            _("The files of this volume are not open. %(why)s") % {"why": _why(row)},
            code="files-closed",
            extra={"phase": Phase(row.phase).value if row is not None else "closed"},
        )
    if demand is Demand.CHANGE and row.read_only:
        raise Conflict(_("Your rights changed: open the files again."), code="files-closed")
    if now() - row.last_used_at > NOTED_EVERY:
        session = row.uid
        later(f"used {session}", lambda: services.session_touch(uid=session))
    return VolumeTarget(
        uid=str(row.uid),
        short_id=str(place.volume.uid),
        person_uid=str(who.user.uid),
        address=row.address,
        token=token_of(row),
        room=place.room,
        phase=row.phase,
        launch=row.launch,
    )


def _why(row: FileSession | None) -> str:
    return selectors.why(row) if row is not None else ""


def note_written(volume_uid: str) -> None:
    """Its size is to be measured anew; nobody waits for that."""
    later(f"written {volume_uid}", lambda: base.volume_measure_soon(uids=[volume_uid]))


def note_deleted(caller: Caller, volume_uid: str) -> None:
    who = principal_of(caller)
    place = selectors.place_get(who, volume_uid)
    events.record(
        actor=who,
        verb="volume.files-deleted",
        target=place.volume,
        project_uid=place.volume.project.uid,
    )
