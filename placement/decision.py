"""What decides where work may go: the request, why it may not or waits, and the decision."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from django.utils.translation import gettext, ngettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from clusters.accelerators import closed_by
from common.errors import BerthError, Conflict, Forbidden, Invalid
from runtime.spec import Network, Placement, Resources, Together

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from uuid import UUID

    from clusters.models import Cluster, Flavor, Node, Pool
    from placement.fleet import Fleet
    from runtime.spec import PodGroup


def names_in(text: str) -> tuple[str, ...]:
    """Return the kinds of GPU that a text names as a size does: ``a100, h100``."""
    return Resources(gpu_flavor=text).kinds


@dataclass(frozen=True)
class DeviceRequest:
    """Devices that must be on one node: ``count`` of one of ``kinds``, the first liked most.

    No kind named: a whole device of any kind. A part of a device is a kind of its own.
    """

    count: int = 0
    kinds: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The kinds as a size names them."""
        return ",".join(self.kinds)


@dataclass(frozen=True)
class Request:
    """What one workload asks of a cluster. ``work_class``: what pools are reserved for."""

    work_class: str
    devices: DeviceRequest = field(default_factory=DeviceRequest)
    cpu_milli: int = 0
    memory_mib: int = 0
    pool: str = ""
    network: str = ""
    replicas: int = 1  # each of this size; none of them starts without the others
    purpose: str = ""  # what rules of queues go by: build, train, inference
    priority: str = ""  # "": that of its purpose
    together: Together | None = None  # by the level
    since: datetime | None = None  # of a ticket: it stands in line as of then
    others: PodGroup | None = None  # those of it that have a size of their own, besides replicas

    @classmethod
    def of_size(  # noqa: PLR0913 - all by name
        cls,
        work_class: str,
        size: Resources,
        *,
        pool: str = "",
        network: str = "",
        replicas: int = 1,
        others: PodGroup | None = None,
        purpose: str = "",
        priority: str = "",
        together: Together | None = None,
        since: datetime | None = None,
    ) -> Request:
        return cls(
            work_class,
            DeviceRequest(size.gpus, size.kinds if size.gpus else ()),
            cpu_milli=size.cpu_milli,
            memory_mib=size.memory_mib,
            pool=pool,
            network=network,
            replicas=replicas,
            others=others,
            purpose=purpose,
            priority=priority,
            together=together,
            since=since,
        )

    @property
    def size(self) -> Resources:
        """What one replica has."""
        return Resources(self.cpu_milli, self.memory_mib, self.devices.count, self.devices.text)

    @property
    def total(self) -> Resources:
        """What all replicas take together."""
        alike = self.size.times(self.replicas)
        if self.others is None or self.others.resources is None:
            return alike
        return alike.plus(self.others.resources.times(self.others.replicas))

    @property
    def sizes(self) -> tuple[Resources, ...]:
        """What must be on one node, each."""
        other = self.others.resources if self.others else None
        return (self.size, other) if other else (self.size,)


@dataclass(frozen=True)
class Reason:
    """An entry of the table with what it is about; ``str`` says it to whoever reads."""

    id: str
    params: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return str(_TEXTS[self.id] % self.params)

    @property
    def error(self) -> BerthError:
        """The same as the error of the field that is wrong."""
        kind, name = _ERRORS.get(self.id, (Conflict, ""))
        return kind(str(self), fields={name: [str(self)]} if name else {})


@dataclass(frozen=True)
class Amounts:
    """What of a size is lacking, as in ``runtime.ports.Waiting``, in words."""

    lacking: tuple[str, ...]
    size: Resources

    def __str__(self) -> str:
        return ", ".join(self._one(word) for word in self.lacking)

    def _one(self, word: str) -> str:
        size = self.size
        if word == "cpu":
            return gettext("%(n)g CPU") % {"n": size.cpu_milli / 1000}
        if word == "memory":
            gib = round(size.memory_mib / 1024, 1)
            return gettext("%(n)g\N{NO-BREAK SPACE}GiB of memory") % {"n": gib}
        if not size.gpu_flavor:
            return ngettext("%(n)d GPU", "%(n)d GPUs", size.gpus) % {"n": size.gpus}
        return gettext("%(n)d × %(flavor)s") % {"n": size.gpus, "flavor": size.gpu_flavor}  # noqa: RUF001 - the sign


def waiting(lacking: Iterable[str], position: int, size: Resources) -> Reason:
    """Return what a workload waits for in a queue. ``lacking`` as in ``runtime.ports.Waiting``."""
    params = {"things": Amounts(tuple(lacking), size), "position": position, "n": position - 1}
    return Reason("waiting-behind" if position > 1 else "waiting", params)


STARTS_NOW = Reason("starts-now")
IN_USE = Reason("in-use")

_TEXTS: dict[str, Any] = {
    # it may not go there
    "no-pool": _("There is no pool called %(name)s here."),
    "pool-reserved": _("The pool %(name)s is reserved for other kinds of work: %(kinds)s."),
    "no-network": _("There is no extra network called %(name)s here."),
    "network-not-in-pool": _("The pool %(pool)s has no network called %(name)s."),
    "network-in-no-pool": _("None of the pools that this work may use has the network %(name)s."),
    "network-without-gpus": _("The network %(name)s comes with GPUs: ask for at least one."),
    "no-kind": _("%(cluster)s has no GPU of the kind %(kind)s that this work may use."),
    "kinds-differ": _("These kinds of device can't stand for each other: choose one."),
    "no-level": _("%(cluster)s does not say what stands in one %(level)s: choose another level."),
    "together-without-gpus": _("Only work with GPUs can be kept together: ask for at least one."),
    # it never starts there
    "no-node-has": _("No node of %(cluster)s has %(things)s."),
    "machine-has-less": _(
        "%(place)s has less than it asks for: %(things)s. The most here: %(most)s."
    ),
    "not-in-one": _(
        "It does not fit into one %(level)s: %(asked)d GPUs are asked for, and the largest holds"
        " %(most)d."
    ),
    "not-in-one-but": _(
        "It does not fit into one %(level)s: %(asked)d GPUs are asked for, and the largest holds"
        " %(most)d. It fits into one %(wider)s."
    ),
    # it waits
    "in-pieces": _(
        "What is free is in pieces: the freest %(level)s has room for %(free)d of %(asked)d GPUs."
    ),
    "waiting": _("Waiting for %(things)s; position %(position)d in the queue."),
    # there may be enough: who came first waits for more of it
    "waiting-behind": ngettext_lazy(
        "Waiting for %(things)s, as %(n)d ahead of it does; position %(position)d.",
        "Waiting for %(things)s, as %(n)d ahead of it do; position %(position)d.",
        "n",
    ),
    "silent": _("It would wait: %(cluster)s does not answer."),
    "volumes-stuck": _(
        "It would wait: no new volume can be used on %(cluster)s, as an operator sees."
    ),
    "oversized": _(
        "It asks for more than this machine has (%(cpus)g CPU, %(memory)g GiB of memory): "
        "it would wait until nearly nothing else runs, and others pass it."
    ),
    "behind": ngettext_lazy(
        "It would wait: %(n)d workload is ahead of it.",
        "It would wait: %(n)d workloads are ahead of it.",
        "n",
    ),
    "ceiling": _("It would wait: its project may hold no more of this kind of GPU at a time."),
    "reclaims": _(
        "It would wait a moment: it is within what is guaranteed to its project, and others give "
        "back what they borrowed."
    ),
    "budget-waits": _("It would wait: the GPU-hours of its budget are spent."),
    # of GPU-hours that are spent; ``again`` says when there is room
    "budget": _("The GPU-hours of %(whose)s are spent: %(spent)s. %(again)s"),
    "over-budget": _(
        "The GPU-hours of %(whose)s are spent: %(spent)s. It gets only what nobody else needs, "
        "and gives it back first. %(again)s"
    ),
    "in-use": _("It would wait as the next one: what it asks for is in use."),
    "starts-now": _("It would start now."),
}

_ERRORS: dict[str, tuple[type[BerthError], str]] = {
    "no-pool": (Invalid, "pool"),
    "pool-reserved": (Forbidden, "pool"),
    "no-network": (Invalid, "network"),
    "network-not-in-pool": (Invalid, "network"),
    "network-in-no-pool": (Invalid, "network"),
    "network-without-gpus": (Invalid, "network"),
    "no-kind": (Invalid, "gpu_flavor"),
    "kinds-differ": (Invalid, "gpu_flavor"),
    "no-level": (Invalid, "topology_level"),
    "together-without-gpus": (Invalid, "topology"),
}


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
        return gettext("%(kind)s: %(free)d of %(total)d free") % {
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
class Estimate:
    """When a turn comes, as a range: half of all turns came within theirs, where it is honest.

    ``samples``: how many past turns it goes by. ``held``: what part of past estimates did hold;
    None: too few of them are over.
    """

    earliest: datetime
    latest: datetime
    samples: int
    held: float | None = None


class QueueSight(Protocol):
    """How the queue of one machine stands, looked at once and then asked."""

    def standing(self, made: Decision) -> Standing:
        """Say whether it starts at this moment, waits, or never fits."""

    def rooms(self, devices: DeviceRequest) -> list[KindRoom]:
        """Return what there is of each kind that is asked for."""

    def estimate(self, made: Decision) -> Estimate | None:
        """Return when its turn comes; None: never, or nobody can say."""

    def ahead(self, made: Decision) -> Mapping[str, int]:
        """Return how much is before it, by project (their uids), first come first."""


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
    nodes: Placement = field(default_factory=Placement)
    network: Network = field(default_factory=Network)
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

    @cached_property
    def estimate(self) -> Estimate | None:
        """When its turn comes, where the queue of its cluster can say."""
        return self.fleet.estimate(self)

    @property
    def ahead(self) -> Mapping[str, int]:
        """How much of which project is before it, where the queue of its cluster can say."""
        return self.fleet.ahead(self)

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
