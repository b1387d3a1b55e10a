"""How far a file browser is, as pages, API and command line are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings

from files.selectors import why
from runtime.protocol import Phase

if TYPE_CHECKING:
    from files.models import FileSession
    from files.selectors import Place

CLOSED = "closed"


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
