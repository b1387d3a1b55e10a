"""Which kinds of GPU and which nodes work may get, by the pools of its cluster: for advice.

``placement_for`` decides by the same rules and says what is wrong; nothing raises here. What
names a pool or a network that is not there reaches as far as if it had named none.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from clusters.accelerators import closed_by
from clusters.models import NetworkProfile, Pool
from clusters.node_selection import hidden_kinds, kept_off, kinds_in, tolerations_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clusters.models import Cluster, Node
    from clusters.node_selection import Work


class Reach:
    """How far such work of a project gets on one cluster.

    ``bound``: the pools of which it needs one; none: it may go wherever nothing is reserved.
    """

    def __init__(
        self, pools: Sequence[Pool], bound: Sequence[Pool], kind: str, project: Any
    ) -> None:
        self._admitting = [row for row in pools if row.admits(kind, project)]
        foreign = [row for row in pools if not row.admits(kind, project)]
        self.is_everywhere = not pools
        self._bound = list(bound)
        self._avoid = kept_off(foreign, self._bound)
        self._hidden = hidden_kinds(pools, kind, project)

    def kinds(self, names: Iterable[str]) -> set[str]:
        """Return which of these kinds it may ask for."""
        left = set(names) - self._hidden
        return kinds_in(self._bound, left) if self._bound else left

    def is_known_by(self, nodes: Iterable[Node]) -> bool:
        """Whether a node of its pools is among them; a pool may grow from none."""
        return not self._bound or any(self._is_inside(node) for node in nodes)

    def admits(self, node: Node, kind: str) -> bool:
        """Whether it may get a device of this kind there, were one free."""
        if not self._is_inside(node) or self._is_avoided(node):
            return False
        return not closed_by(node.taints, node.accelerators, self._tolerations[kind])

    def admits_plain(self, node: Node) -> bool:
        """The same for work without devices, which tolerates no taint for a device's sake."""
        if not self._is_inside(node) or self._is_avoided(node):
            return False
        return not closed_by(node.taints, {}, tolerations_of(self._bound))

    def _is_avoided(self, node: Node) -> bool:
        return any(node.labels.get(name) in values for name, values in self._avoid.items())

    def _is_inside(self, node: Node) -> bool:
        return not self._bound or any(
            row.node_labels.items() <= node.labels.items() for row in self._bound
        )

    @cached_property
    def _tolerations(self) -> dict[str, list[Any]]:
        """By kind: work that names no pool tolerates the taints of those that list its kind."""
        if self._bound:
            every = list(tolerations_of(self._bound))
            return defaultdict(lambda: every)
        found: dict[str, list[Any]] = defaultdict(list)
        for row in self._admitting:
            for flavor in row.flavors.all():
                found[flavor.name] += row.tolerations
        return found


class Reaches:
    """Of any work of a project on some clusters; a constant number of queries."""

    def __init__(self, clusters: Iterable[Cluster], project_uid: Any) -> None:
        self._clusters = list(clusters)
        self._project_uid = project_uid

    def of(self, cluster: Cluster, work: Work) -> Reach:
        pools = self._pools.get(cluster.pk, [])
        return Reach(pools, self._bound(cluster, pools, work), work.kind, self._project_uid)

    def pools(self, cluster: Cluster) -> list[str]:
        """Return the pools of a cluster that some work of the project may name."""
        there = self._pools.get(cluster.pk, [])
        uid = str(self._project_uid)
        return [row.name for row in there if not row.project_uids or uid in row.project_uids]

    def _bound(self, cluster: Cluster, pools: list[Pool], work: Work) -> list[Pool]:
        usable = [row for row in pools if row.admits(work.kind, self._project_uid)]
        if work.pool:
            return [row for row in usable if row.name == work.pool]
        if not work.network:
            return []
        wired = self._wired.get((cluster.pk, work.network), set())
        return [row for row in usable if row.pk in wired]

    @cached_property
    def _pools(self) -> dict[int, list[Pool]]:
        found: dict[int, list[Pool]] = defaultdict(list)
        rows = Pool.objects.filter(cluster__in=self._clusters).prefetch_related("flavors")
        for row in rows:
            found[row.cluster_id].append(row)
        return dict(found)

    @cached_property
    def _wired(self) -> dict[tuple[int, str], set[int]]:
        """Return the pools that have a network, by cluster and its name."""
        found: dict[tuple[int, str], set[int]] = defaultdict(set)
        rows = NetworkProfile.objects.filter(cluster__in=self._clusters, pools__isnull=False)
        for cluster, name, pool in rows.order_by().values_list("cluster_id", "name", "pools"):
            found[cluster, name].add(pool)
        return dict(found)
