"""Would it start now? Advice for cards, forms and plans; the queue itself decides.

``CapacitySnapshot`` is one look at the machine (a constant number of queries), then asked for any
number of sizes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from clusters import placement
from clusters.admission import Line
from clusters.eligibility import Reaches
from clusters.kind_use import uses
from clusters.models import CheckResult, Cluster
from clusters.node_room import NodeRooms
from clusters.node_selection import any_kind
from clusters.options import options_of
from clusters.wording import never_sentence, things
from notebooks.program import flavors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from uuid import UUID

    from clusters.kind_use import KindUse
    from clusters.node_selection import Work
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


class CapacitySnapshot:
    """What is free on a cluster at this moment, and who waits for it.

    On a cluster that has nodes, ``kinds``: of GPU that may be asked for; ``anything``: those of
    them that somebody may get who names none; ``most``: how many of one are free on one node, None
    where nobody knows; ``plain``: the most CPU and memory of a node for work without GPUs, 0 where
    nobody knows; ``stuck``: no new volume can be used there.
    """

    def __init__(
        self,
        cluster: Cluster | None,
        kinds: Sequence[KindUse] = (),
        anything: Sequence[str] = (),
        most: Callable[[str], int | None] = lambda _kind: None,
        *,
        plain: tuple[int, int] = (0, 0),
        stuck: bool = False,
    ) -> None:
        self._cluster, self._most, self._stuck = cluster, most, stuck
        self._total: Counter[str] = Counter()
        self._free: Counter[str] = Counter()
        self._largest: Counter[str] = Counter()  # most on one node
        self._sizes: dict[str, tuple[int, int]] = {}  # most CPU and memory of a node, by kind
        self._labels: dict[str, str] = {}  # of the kinds, in the order in which they are shown
        self._any = list(anything)
        self._line: Line | None = None
        self._is_one_machine = True
        self._cpu_total = self._memory_total = 0
        if cluster is None:
            return
        self._is_one_machine = cluster.driver in placement.QUEUED_HERE
        if self._is_one_machine:
            self._look(cluster)
        else:
            self._look_at_kinds(cluster, kinds, plain)

    def _look_at_kinds(
        self, cluster: Cluster, kinds: Sequence[KindUse], plain: tuple[int, int]
    ) -> None:
        """A cluster's own scheduler decides; what is known of it is the kinds of its nodes, and
        how large the largest one is that such work may get.
        """
        promised = options_of(cluster.options).cpu_overcommit
        self._cpu_total, self._memory_total = plain[0] * promised, plain[1]
        for use in kinds:
            name = use.flavor.name
            self._labels[name] = use.flavor.label
            self._sizes[name] = (use.cpu_milli * promised, use.memory_mib)
            for key in ("", name) if name in self._any else (name,):
                self._total[key] += use.total
                self._free[key] += use.free
                self._largest[key] = max(self._largest[key], use.largest)

    def _look(self, cluster: Cluster) -> None:
        self._line = line = Line(cluster)
        flavors = {device.flavor for device in line.devices if device.flavor}
        for flavor in sorted(flavors, key=lambda one: one.position):
            self._labels[flavor.name] = flavor.label
        for device in line.devices:
            for key in {"", device.flavor.name if device.flavor else ""}:
                self._total[key] += 1
                self._free[key] += line.is_free(device)
        self._any = list(self._labels)

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
        if self._line is not None:
            return self._ask_line(self._line, wanted, uid)
        if lacking := self._lacking(wanted):
            return Forecast(False, 1, False, self._never_sentence(lacking, wanted))
        if silent := self._silent_sentence():
            return Forecast(False, 1, True, silent)
        if self._stuck and self._cluster is not None:
            said = _(
                "It would wait: no new volume can be used on %(cluster)s, as an operator sees."
            )
            return Forecast(False, 1, True, said % {"cluster": self._cluster.label})
        if self._has_room(wanted):
            return Forecast(True, 0, True, _("It would start now."))
        return Forecast(
            False, 1, True, _("It would wait as the next one: what it asks for is in use.")
        )

    def _ask_line(self, line: Line, wanted: Resources, uid: UUID | None) -> Forecast:
        """One machine: what its queue itself would decide."""
        verdict = line.would(wanted, uid=uid)
        if verdict.never:
            most = line.most(wanted.gpu_flavor)
            said = never_sentence(_("This machine"), verdict.lacking, wanted, most)
            return Forecast(False, 1, False, said)
        if verdict.fits:
            return Forecast(True, 0, True, _("It would start now."))
        if line.is_oversized(wanted):
            said = _(
                "It asks for more than this machine has (%(cpus)g CPU, %(memory)g GiB of memory): "
                "it would wait until nearly nothing else runs, and others pass it."
            ) % {"cpus": line.cpu_milli / 1000, "memory": round(line.memory_mib / 1024, 1)}
        elif verdict.ahead:
            said = ngettext(
                "It would wait: %(n)d workload is ahead of it.",
                "It would wait: %(n)d workloads are ahead of it.",
                verdict.ahead,
            ) % {"n": verdict.ahead}
        else:
            said = _("It would wait as the next one: what it asks for is in use.")
        return Forecast(False, verdict.ahead + 1, True, said)

    def _silent_sentence(self) -> str:
        """Return that nobody answers there, or ''; of one that was just attached nobody knows.

        One machine is asked by what would start it.
        """
        cluster = self._cluster
        if cluster is None or self._is_one_machine or cluster.reachable or not cluster.checked_at:
            return ""
        return _("It would wait: %(cluster)s does not answer.") % {"cluster": cluster.label}

    def _never_sentence(self, lacking: list[str], wanted: Resources) -> str:
        assert self._cluster is not None  # noqa: S101 - of no cluster nothing is lacking
        return _("No node of %(cluster)s has %(things)s.") % {
            "cluster": self._cluster.label,
            "things": things(lacking, wanted),
        }

    def _lacking(self, wanted: Resources) -> list[str]:
        """Return what the largest node has less of than is asked for.

        0: it was not looked at yet; of no cluster nothing is known: say nothing wrong.
        """
        if self._cluster is None:
            return []
        cpu_milli, memory_mib = self._largest_for(wanted)
        found = ["cpu"] if 0 < cpu_milli < wanted.cpu_milli else []
        if 0 < memory_mib < wanted.memory_mib:
            found.append("memory")
        if self._lacks_gpus(wanted):
            found.append("gpu")
        return found

    def _largest_for(self, wanted: Resources) -> tuple[int, int]:
        """Return the most CPU and memory of a node, with GPUs of one that has such."""
        if not wanted.gpus:
            return self._cpu_total, self._memory_total
        names = flavors_of(wanted.gpu_flavor) or self._any
        sizes = [self._sizes.get(name, (0, 0)) for name in names]
        cpu = max((cpu for cpu, _memory in sizes), default=0)
        return cpu, max((memory for _cpu, memory in sizes), default=0)

    def _lacks_gpus(self, wanted: Resources) -> bool:
        names = flavors_of(wanted.gpu_flavor) or [""]
        return wanted.gpus > max(self._largest[name] for name in names)

    def _has_room(self, wanted: Resources) -> bool:
        return wanted.gpus <= self.free_gpus(wanted.gpu_flavor) and self._is_together(wanted)

    def _is_together(self, wanted: Resources) -> bool:
        """Whether one node has as many free ones; what is not known is in nobody's way."""
        if wanted.gpus <= 1:
            return True
        names = flavors_of(wanted.gpu_flavor) or self._any
        most = [self._most(name) for name in names]
        return any(free is None or free >= wanted.gpus for free in most)


class Rooms:
    """One look at clusters of a project, for work of any kind; a constant number of queries."""

    def __init__(self, project_uid: UUID, clusters: Iterable[Cluster]) -> None:
        self._clusters = [c for c in clusters if c.driver not in placement.QUEUED_HERE]
        self._reaches = Reaches(self._clusters, project_uid)
        self._nodes = NodeRooms(self._clusters)
        self._rooms: dict[tuple[str, Work | None, bool], CapacitySnapshot] = {}

    def of(self, cluster: Cluster, spec: Spec) -> CapacitySnapshot:
        on_nodes = cluster.driver not in placement.QUEUED_HERE
        work = spec.work if on_nodes else None  # one machine has no pools
        with_gpus = on_nodes and bool(spec.gpus)
        key = (cluster.key, work, with_gpus)
        if key not in self._rooms:
            made = (
                self._look(cluster, work, with_gpus=with_gpus)
                if work
                else CapacitySnapshot(cluster)
            )
            self._rooms[key] = made
        return self._rooms[key]

    def _look(self, cluster: Cluster, work: Work, *, with_gpus: bool) -> CapacitySnapshot:
        reach, stuck = self._reaches.of(cluster, work), cluster.pk in self._stuck
        if not with_gpus:
            return CapacitySnapshot(cluster, plain=self._nodes.plain(cluster, reach), stuck=stuck)
        there = self._kinds[cluster.key]
        names = reach.kinds(use.flavor.name for use in there)
        there = [use for use in there if use.flavor.name in names]
        # as the placement does, or "starts now" would count what is never given
        anything = any_kind((use.flavor, use.total) for use in there)
        return CapacitySnapshot(
            cluster,
            [self._nodes.narrowed(use, reach) for use in there],
            [flavor.name for flavor in anything],
            lambda kind: self._nodes.most(cluster, kind, reach),
            stuck=stuck,
        )

    @cached_property
    def _stuck(self) -> set[int]:
        """Return the clusters whose self-check says that no volume can be used."""
        rows = CheckResult.objects.filter(cluster__in=self._clusters, name="storage", state="red")
        return set(rows.values_list("cluster_id", flat=True))

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
    room = Rooms(project_uid, [cluster]).of(cluster, spec) if cluster else CapacitySnapshot(None)
    return room.ask(spec.size, uid=uid)
