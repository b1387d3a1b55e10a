"""Who may look into which volume, and how far its file browser is, as pages and API are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from django.conf import settings
from django.utils.translation import gettext as _

from common.errors import Forbidden
from files.models import FileSession
from runtime import reasons
from runtime.protocol import Desired, Phase
from volumes import selectors as volumes
from volumes.models import Volume

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project

CLOSED = "closed"


@dataclass(frozen=True)
class Place:
    """A volume that somebody may look into now, and whether he may change its files.

    Full is not the same as read-only: who may write may delete.
    """

    volume: Volume
    may_write: bool
    room: int | None  # bytes that its size still leaves; None: no limit, or not measured


def place_get(
    who: Principal, uid: UUID | str, project: Project | None = None, *, write: bool = False
) -> Place:
    """Return the place, or raise: NotFound for strangers, Forbidden or Conflict with the reason."""
    volume = volumes.volume_for_use(who, project, uid, write=False)
    may_write = volumes.may_write(who, volume) and not (
        who.token is not None and who.token.read_only
    )
    if write and not may_write:
        raise Forbidden(
            _("You may look into “%(name)s”, not change its files.") % {"name": volume.name}
        )
    return Place(volume, may_write, volumes.room_left(volume))


def session_of(who: Principal, volume: Volume) -> FileSession | None:
    """Return the person's session there that is wanted, whatever its state."""
    rows = FileSession.objects.filter(
        volume=volume,
        person=who.user,
        project=volume.project_id,  # one of before it was handed over is on its way out
        deleted_at__isnull=True,
        desired=Desired.RUNNING,
    )
    return rows.select_related("project", "person", "volume").first()


def any_wanted() -> bool:
    """Whether the gate is needed for files."""
    return FileSession.objects.filter(deleted_at__isnull=True, desired=Desired.RUNNING).exists()


def why(row: FileSession) -> str:
    """Return the sentence about its state in the reader's language; '' while all is well."""
    return row.message or str(reasons.info(row.reason).text)


@dataclass(frozen=True)
class State:
    """``phase`` is ``closed`` or the server's; ``url`` is where the gate answers."""

    phase: str
    message: str
    is_open: bool
    read_only: bool
    url: str
    room_bytes: int | None


def state_of(place: Place, row: FileSession | None, *, for_page: bool = False) -> State:
    """``for_page``: with the address that browsers are led to; programs have tokens."""
    gate = settings.BERTH_GATE_PAGES_URL if for_page else settings.BERTH_GATE_URL
    phase = CLOSED if row is None else Phase(row.phase).value
    return State(
        phase=phase,
        message=why(row) if row is not None and not row.is_open else "",
        is_open=row is not None and row.is_open,
        read_only=not place.may_write,
        url=f"{gate}/gate/volumes/{place.volume.uid}",
        room_bytes=place.room,
    )
