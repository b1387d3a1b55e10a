"""What is said beforehand to whoever wants the GPUs again that they gave back."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from placement.clusters import known_cluster
from placement.fleet import Fleet
from runtime.protocol import Desired, Phase
from work import kinds
from work.choices import Void
from work.services.resolve import request_of
from work.services.tickets import ticket_of, why_void
from work.waits import when_of

if TYPE_CHECKING:
    from datetime import datetime

_ENDED = frozenset({Phase.STOPPED, Phase.FAILED})


@dataclass(frozen=True)
class WayBack:
    """``when``: how long it waits for its GPUs if they are asked for now, in words."""

    gpus: int
    when: str
    starts_now: bool
    before: int  # so many stand before it
    ticket_until: datetime | None  # None: it has no ticket that counts
    void: str  # why the one that it has does not

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        said = [self.when]
        if self.before:
            said.append(ngettext("%(n)d before you", "%(n)d before you", self.before))
            said[-1] %= {"n": self.before}
        if self.ticket_until is not None:
            said.append(_("by your ticket"))
        return " · ".join(said)


def way_back(row: Any) -> WayBack | None:
    """Return what a press would bring; None where it asks for no GPU, or has those it wants."""
    ended = row.phase in _ENDED and row.is_seen and row.desired != Desired.ABSENT
    gpus = row.wish_gpus or (row.gpus if ended else 0)
    if not gpus or row.project.archived_at is not None:
        return None
    wanted = copy(row)
    if row.wish_gpus:
        wanted.gpus, wanted.gpu_flavor = row.wish_gpus, row.wish_flavor
    ticket = ticket_of(row)
    void = why_void(ticket, wanted) if ticket else ""
    good = ticket is not None and not void
    wanted.ticket_at = ticket.parked_at if ticket and good else None
    cluster = known_cluster(row.cluster_key)
    kind = kinds.kind_of(row.kind)
    made = Fleet([cluster], row.project.uid).decide(cluster, request_of(kind, wanted), uid=row.uid)
    return WayBack(
        gpus=gpus,
        when=_("ready about now") if made.starts_now else when_of(made.estimate),
        starts_now=made.starts_now,
        before=max(0, made.position - 1),
        ticket_until=ticket.valid_until if ticket and good else None,
        void=str(Void(void).label) if void else "",
    )
