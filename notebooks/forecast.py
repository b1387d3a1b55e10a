"""Would it start now? Advice for cards, forms and plans; the queue itself decides.

``Room`` is one look at the machine (a constant number of queries), then asked for any number
of sizes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from clusters import placement
from clusters import selectors as clusters
from clusters.choosing import any_kind
from clusters.kind_use import uses
from clusters.models import Claim, Cluster
from clusters.node_room import NodeRooms
from clusters.options import options_of
from clusters.reach import Reaches
from clusters.wording import things
from notebooks.program import flavors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from uuid import UUID

    from clusters.choosing import Work
    from clusters.kind_use import KindUse
    from notebooks.spec import Spec
    from runtime.protocol import Resources


@dataclass(frozen=True)
class Forecast:
    """``position`` 0: it would start now. ``fits`` False: never on this machine."""

    starts_now: bool
    position: int
    fits: bool
    sentence: str


@dataclass(frozen=True)
class KindFree:
    """How much of one kind of GPU is free at this moment."""

    label: str
    free: int
    total: int

    @property
    def words(self) -> str:
        return _("%(kind)s: %(free)d of %(total)d free") % {
            "kind": self.label,
            "free": self.free,
            "total": self.total,
        }


class Room:
    """What is free on a cluster at this moment, and who waits for it.

    On a cluster that has nodes, ``kinds``: of GPU that may be asked for; ``anything``: those of
    them that somebody may get who names none; ``most``: how many of one are free on one node, None
    where nobody knows.
    """

    def __init__(
        self,
        cluster: Cluster | None,
        kinds: Sequence[KindUse] = (),
        anything: Sequence[str] = (),
        most: Callable[[str], int | None] = lambda _kind: None,
    ) -> None:
        self._cluster, self._most = cluster, most
        self._total: Counter[str] = Counter()
        self._free: Counter[str] = Counter()
        self._largest: Counter[str] = Counter()  # most on one node
        self._labels: dict[str, str] = {}  # of the kinds, in the order in which they are shown
        self._any = list(anything)
        self._waiting: list[Claim] = []
        self._is_one_machine = True
        self._cpu_left = self._memory_left = 0
        self._cpu_total = self._memory_total = 0
        if cluster is None:
            return
        self._is_one_machine = cluster.driver in placement.QUEUED_HERE
        if self._is_one_machine:
            self._look(cluster)
        else:
            self._look_at_kinds(cluster, kinds)

    def _look_at_kinds(self, cluster: Cluster, kinds: Sequence[KindUse]) -> None:
        """A cluster's own scheduler decides; what is known of it is the kinds of its nodes, and
        how large the largest one is.
        """
        capacity = cluster.capacity or {}
        promised = options_of(cluster.options).cpu_overcommit
        self._cpu_total = int(capacity.get("largest_cpu_milli") or 0) * promised
        self._memory_total = int(capacity.get("largest_memory_mib") or 0)
        for use in kinds:
            name = use.flavor.name
            self._labels[name] = use.flavor.label
            for key in ("", name) if name in self._any else (name,):
                self._total[key] += use.total
                self._free[key] += use.free
                self._largest[key] = max(self._largest[key], use.largest)

    def _look(self, cluster: Cluster) -> None:
        rows = clusters.devices_there(cluster)
        columns = ("flavor__name", "flavor__label", "hold__id", "healthy")
        for flavor, label, hold, healthy in rows.order_by("flavor__position").values_list(*columns):
            if flavor:
                self._labels[flavor] = label
            for key in {"", flavor or ""}:
                self._total[key] += 1
                self._free[key] += healthy and hold is None
        self._any = list(self._labels)
        use = clusters.machine_use(cluster)
        self._cpu_total = int(use.cpu_milli_total * _factor("BERTH_CPU_OVERCOMMIT", 4.0))
        self._memory_total = int(use.memory_mib_total * _factor("BERTH_MEMORY_OVERCOMMIT", 1.0))
        self._cpu_left = self._cpu_total - use.cpu_milli
        self._memory_left = self._memory_total - use.memory_mib
        self._waiting = list(clusters.queue(cluster.key))

    def free_gpus(self, flavor: str = "") -> int:
        return self._sum(self._free, flavor)

    def total_gpus(self, flavor: str = "") -> int:
        return self._sum(self._total, flavor)

    def kinds(self, flavor: str = "") -> list[KindFree]:
        """Return what there is of each of some kinds; when none is named, of those that will do."""
        names = flavors_of(flavor) or self._any
        return [
            KindFree(self._labels.get(name, name), self._free[name], self._total[name])
            for name in names
            if self._total[name]
        ]

    def _sum(self, counted: Counter[str], flavor: str) -> int:
        """Return how many of any of some kinds; of all that will do when none is named."""
        return sum(counted[name] for name in flavors_of(flavor) or [""])

    def ask(self, wanted: Resources, *, uid: UUID | None = None) -> Forecast:
        """Say whether a workload of this size would start now, and if not, where it stands."""
        if self._never(wanted):
            sentence = self._never_sentence(wanted)
            return Forecast(False, self._ahead(wanted, uid) + 1, False, sentence)
        if silent := self._silent_sentence():
            return Forecast(False, 1, True, silent)
        ahead = self._ahead(wanted, uid)
        if not ahead and self._room(wanted):
            return Forecast(True, 0, True, _("It would start now."))
        if ahead:
            sentence = ngettext(
                "It would wait: %(n)d workload is ahead of it.",
                "It would wait: %(n)d workloads are ahead of it.",
                ahead,
            ) % {"n": ahead}
        else:
            sentence = _("It would wait as the next one: what it asks for is in use.")
        return Forecast(False, ahead + 1, True, sentence)

    def _silent_sentence(self) -> str:
        """Return that nobody answers there, or ''; of one that was just attached nobody knows.

        One machine is asked by what would start it.
        """
        cluster = self._cluster
        if cluster is None or self._is_one_machine or cluster.reachable or not cluster.checked_at:
            return ""
        return _("It would wait: %(cluster)s does not answer.") % {"cluster": cluster.label}

    def _never_sentence(self, wanted: Resources) -> str:
        lacking = things(self._lacking(wanted), wanted)
        if self._cluster is None or self._is_one_machine:
            said = _(
                "This machine has less than it asks for: %(things)s. It would wait without end."
            )
            return said % {"things": lacking}
        return _("No node of %(cluster)s has %(things)s.") % {
            "cluster": self._cluster.label,
            "things": lacking,
        }

    def _never(self, wanted: Resources) -> bool:
        # of no cluster nothing is known yet: say nothing wrong
        return self._cluster is not None and bool(self._lacking(wanted))

    def _lacking(self, wanted: Resources) -> list[str]:
        """Return what the machine, or the largest node, has less of than is asked for.

        0: it was not looked at yet.
        """
        found = ["cpu"] if 0 < self._cpu_total < wanted.cpu_milli else []
        if 0 < self._memory_total < wanted.memory_mib:
            found.append("memory")
        if self._lacks_gpus(wanted):
            found.append("gpu")
        return found

    def _lacks_gpus(self, wanted: Resources) -> bool:
        if self._is_one_machine:
            return wanted.gpus > self.total_gpus(wanted.gpu_flavor)
        names = flavors_of(wanted.gpu_flavor) or [""]
        return wanted.gpus > max(self._largest[name] for name in names)

    def _room(self, wanted: Resources) -> bool:
        if wanted.gpus > self.free_gpus(wanted.gpu_flavor):
            return False
        if not self._is_one_machine:
            return self._is_together(wanted)
        if not self._cpu_total:
            return True
        return wanted.cpu_milli <= self._cpu_left and wanted.memory_mib <= self._memory_left

    def _is_together(self, wanted: Resources) -> bool:
        """Whether one node has as many free ones; what is not known is in nobody's way."""
        if wanted.gpus <= 1:
            return True
        names = flavors_of(wanted.gpu_flavor) or self._any
        most = [self._most(name) for name in names]
        return any(free is None or free >= wanted.gpus for free in most)

    def _ahead(self, wanted: Resources, uid: UUID | None) -> int:
        """Count the waiting ones that want something this one wants too and lack it."""
        return sum(
            1
            for claim in self._waiting
            if claim.workload_uid != uid and self._competes(claim, wanted)
        )

    def _competes(self, claim: Claim, wanted: Resources) -> bool:
        lacks_gpu = claim.gpus > self.free_gpus(claim.gpu_flavor)
        same_kind = not claim.gpu_flavor or not wanted.gpu_flavor
        if wanted.gpus and lacks_gpu and (same_kind or claim.gpu_flavor == wanted.gpu_flavor):
            return True
        return claim.cpu_milli > self._cpu_left or claim.memory_mib > self._memory_left


class Rooms:
    """One look at clusters of a project, for work of any kind; a constant number of queries."""

    def __init__(self, project_uid: UUID, clusters: Iterable[Cluster]) -> None:
        self._clusters = [c for c in clusters if c.driver not in placement.QUEUED_HERE]
        self._reaches = Reaches(self._clusters, project_uid)
        self._nodes = NodeRooms(self._clusters)
        self._rooms: dict[tuple[str, Work | None], Room] = {}

    def of(self, cluster: Cluster, spec: Spec) -> Room:
        on_nodes = cluster.driver not in placement.QUEUED_HERE
        # one machine has no pools, and without GPUs nobody asks for nodes that have some
        work = spec.work if on_nodes and spec.gpus else None
        key = (cluster.key, work)
        if key not in self._rooms:
            self._rooms[key] = self._look(cluster, work) if work else Room(cluster)
        return self._rooms[key]

    def _look(self, cluster: Cluster, work: Work) -> Room:
        reach, there = self._reaches.of(cluster, work), self._kinds[cluster.key]
        names = reach.kinds(use.flavor.name for use in there)
        there = [use for use in there if use.flavor.name in names]
        # as the placement does, or "starts now" would count what is never given
        anything = any_kind((use.flavor, use.total) for use in there)
        return Room(
            cluster,
            [self._nodes.narrowed(use, reach) for use in there],
            [flavor.name for flavor in anything],
            lambda kind: self._nodes.most(cluster, kind, reach),
        )

    @cached_property
    def _kinds(self) -> dict[str, list[KindUse]]:
        found: dict[str, list[KindUse]] = defaultdict(list)
        for use in uses(self._clusters):
            found[use.cluster.key].append(use)
        return found

    def ranked(self, clusters: Iterable[Cluster], spec: Spec) -> list[tuple[Cluster, Forecast]]:
        """Return those where it ever fits, those that answer first; of these where it starts now.

        All of them where it fits nowhere.
        """
        asked = [(row, self.of(row, spec).ask(spec.size)) for row in clusters]
        fitting = [pair for pair in asked if pair[1].fits] or asked
        return sorted(fitting, key=lambda pair: (not pair[0].reachable, not pair[1].starts_now))


def forecast(spec: Spec, *, project_uid: UUID, uid: UUID | None = None) -> Forecast:
    """Say whether it would start now on its cluster; ``uid``: of the row, where there is one."""
    cluster = Cluster.objects.filter(key=spec.cluster).first()
    room = Rooms(project_uid, [cluster]).of(cluster, spec) if cluster else Room(None)
    return room.ask(spec.size, uid=uid)


def _factor(name: str, default: float) -> float:
    return float(getattr(settings, name, default))
