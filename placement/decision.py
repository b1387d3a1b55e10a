"""What is decided of one request on one cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from clusters.accelerators import closed_by
from runtime import protocol as p

if TYPE_CHECKING:
    from uuid import UUID

    from clusters.models import Cluster, Flavor, Node, Pool
    from placement.fleet import Fleet
    from placement.reasons import Reason
    from placement.request import Request


@dataclass(frozen=True)
class KindRoom:
    """What there is of one kind of device for such work. ``largest``: most on one node.

    CPU and memory are the most that a node with some of them has; 0: not known.
    """

    name: str
    label: str
    total: int
    free: int
    largest: int = 0
    cpu_milli: int = 0
    memory_mib: int = 0

    @property
    def words(self) -> str:
        return _("%(kind)s: %(free)d of %(total)d free") % {
            "kind": self.label,
            "free": self.free,
            "total": self.total,
        }


@dataclass(frozen=True)
class Standing:
    """How work stands at this moment. ``position`` 0: it starts now.

    ``waits_for``: what it lacks, as in ``runtime.ports.Waiting``; known where it is known.
    """

    reason: Reason
    position: int = 1
    fits: bool = True
    waits_for: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """Whether a cluster takes a request, on which nodes, with which kinds of device, and when.

    ``refusal``: it is not let in, whatever is free. ``kinds``: of which it gets one; ``flavors``:
    the names whose limits hold for it, each of them, because which one it gets is not known yet.
    """

    cluster: Cluster
    request: Request
    fleet: Fleet = field(repr=False, compare=False)
    uid: UUID | None = None  # of the workload, where it may have a place in a queue
    refusal: Reason | None = None
    nodes: p.Placement = field(default_factory=p.Placement)
    network: p.Network = field(default_factory=p.Network)
    bound: tuple[Pool, ...] = ()  # it needs one of these; none: wherever nothing is reserved
    kinds: tuple[Flavor, ...] = ()
    flavors: tuple[str, ...] = ()

    @cached_property
    def standing(self) -> Standing:
        """The same moment's answer, looked at when somebody asks for it."""
        return self.fleet.standing(self)

    @cached_property
    def rooms(self) -> list[KindRoom]:
        return self.fleet.rooms(self)

    @property
    def fits(self) -> bool:
        return self.standing.fits

    @property
    def position(self) -> int:
        return self.standing.position

    @property
    def starts_now(self) -> bool:
        return not self.position

    @property
    def sentence(self) -> str:
        return str(self.standing.reason)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Return what stands against it at this moment."""
        return () if self.starts_now else (self.standing.reason,)

    @property
    def waits_for(self) -> tuple[str, ...]:
        return self.standing.waits_for

    def required(self) -> Decision:
        """Return it, or raise the error of the field that is wrong."""
        if self.refusal is not None:
            raise self.refusal.error
        return self

    def admits(self, node: Node) -> bool:
        """Whether the request may come to this node, were it empty."""
        if self.bound and not any(bears(node, row) for row in self.bound):
            return False
        if any(node.labels.get(name) in values for name, values in self.nodes.avoid.items()):
            return False
        own = node.accelerators if self.request.devices.count else {}
        return not closed_by(node.taints, own, self.nodes.tolerations)


def bears(node: Node, pool: Pool) -> bool:
    """Whether a node is in a pool."""
    return pool.node_labels.items() <= node.labels.items()
