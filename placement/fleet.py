"""One look at clusters: the decision that card, form, plan, limits and engine share."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.db.models import prefetch_related_objects
from django.utils.translation import gettext as _

from clusters.accelerators import held_by_kind, ours_by_kind
from clusters.demand import held_on
from clusters.device_use import KindUse, uses
from clusters.models import CheckResult, Cluster, Flavor, NetworkProfile, Node, Pool
from clusters.options import options_of
from clusters.usable import unproved_among
from common.errors import BerthError, Unavailable
from placement.decision import (
    IN_USE,
    STARTS_NOW,
    Amounts,
    Decision,
    DeviceRequest,
    Estimate,
    KindRoom,
    QueueSight,
    Reason,
    Request,
    Standing,
    bears,
)
from placement.eligibility import Offered, RefusedError, on_nodes
from placement.levels import Spot, apart
from runtime import reasons
from runtime.protocol import InvalidSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from uuid import UUID

    from runtime.spec import Resources

# How the queue of a machine stands; handed in once by the app that owns queues.
_sights: list[Callable[[Cluster], QueueSight]] = []


def provide_queues(sight: Callable[[Cluster], QueueSight]) -> None:
    _sights[:] = [sight]


# Of each kind: how many more a project may hold at this moment on a cluster whose queues are ours,
# and whether its ceiling is what bounds that; handed in by the same app.
Left = dict[str, tuple[int, bool]]
_lefts: list[Callable[[Cluster, str], Left]] = []


def provide_shares(left: Callable[[Cluster, str], Left]) -> None:
    _lefts[:] = [left]


_NODE = ("name", "ready", "schedulable", "cpu_milli", "memory_mib", "labels", "taints")


class Fleet:
    """One look at some clusters for the work of a project, then asked of any number of requests.

    A constant number of queries, each made when it first matters.
    """

    def __init__(self, clusters: Iterable[Cluster], project_uid: Any) -> None:
        self._clusters = {cluster.pk: cluster for cluster in clusters}
        self.project_uid = project_uid
        self._queues: dict[int, QueueSight] = {}
        self._lefts: dict[int, Left] = {}

    @property
    def clusters(self) -> list[Cluster]:
        return list(self._clusters.values())

    def decide(self, cluster: Cluster, request: Request, *, uid: UUID | None = None) -> Decision:
        """``uid``: of the workload where there is one; its own place in a queue is not counted."""
        made = Decision(cluster, request, self, uid)
        if not cluster.runs_images:  # its queue gives "any kind", which has no kind's limit
            return replace(made, flavors=request.devices.kinds)
        networks = self._networks if request.network else []
        offered = Offered(
            self.project_uid,
            self._pools_of(cluster, with_kinds=bool(request.devices.count)),
            [row for row in networks if row.cluster_id == cluster.pk],
            self._flavors if request.devices.count else [],
        )
        try:
            return on_nodes(made, offered)
        except RefusedError as refused:
            return replace(made, refusal=refused.reason)

    def ranked(self, clusters: Iterable[Cluster], request: Request) -> list[Decision]:
        """Return those where it ever fits, those that answer first; of these where it starts now.

        All of them where it fits nowhere.
        """
        asked = [self.decide(row, request) for row in clusters]
        fitting = [one for one in asked if one.fits] or asked
        return sorted(fitting, key=lambda one: (not one.cluster.reachable, not one.starts_now))

    def unproved(self, cluster: Cluster) -> str:
        """Return why the cluster lets no work in yet, or ''."""
        return self._unproved.get(cluster.pk, "")

    def pools(self, work_classes: Collection[str]) -> list[Pool]:
        """Return the pools that any of this work may choose."""
        uid = self.project_uid
        return [row for row in self._pools if any(row.admits(one, uid) for one in work_classes)]

    def networks(self) -> list[NetworkProfile]:
        """Return the extra networks that the project may ask for."""
        uid = str(self.project_uid)
        return [row for row in self._networks if not row.project_uids or uid in row.project_uids]

    def offers(self, work_classes: Collection[str]) -> list[tuple[KindRoom, Flavor, list[str]]]:
        """Return of each kind what work gets that names no pool.

        Where that is nothing, all of it, with the pools of which one must be named.
        """
        found: list[tuple[KindRoom, Flavor, list[str]]] = []
        for use in (use for rows in self._uses.values() for use in rows):

            def there(pool: str = "", use: KindUse = use) -> list[KindRoom]:
                device = DeviceRequest(1, (use.flavor.name,))
                asked = (Request(one, device, pool=pool) for one in work_classes)
                rooms = (room for one in asked for room in self.decide(use.cluster, one).rooms)
                return [room for room in rooms if room.total]

            if rooms := there():
                found.append((max(rooms, key=lambda one: one.total), use.flavor, []))
            elif names := [row.name for row in self._pools_of(use.cluster) if there(row.name)]:
                found.append((_room_of(use), use.flavor, names))
        return found

    def standing(self, made: Decision) -> Standing:
        """Say whether it starts at this moment, waits, or never fits."""
        if made.refusal is not None:
            return Standing(made.refusal, fits=False)
        if not made.cluster.runs_images:
            return self._queue(made.cluster).standing(made)
        name = {"cluster": made.cluster.label}
        for size in made.request.sizes:
            if lacking := self._lacking(made, size):
                things = {"things": Amounts(lacking, size)}
                return Standing(Reason("no-node-has", name | things), fits=False, waits_for=lacking)
        pieces = self._apart(made)
        if pieces is not None and not pieces.fits:
            return pieces
        silent = made.cluster.checked_at and not made.cluster.reachable  # one just attached is not
        if silent or made.cluster.pk in self._stuck:
            return Standing(Reason("silent" if silent else "volumes-stuck", name))
        free = sum(room.free for room in made.rooms)
        together = made.request.together
        if made.request.total.gpus > free and not (together and together.required):
            pieces = Standing(IN_USE, waits_for=("gpu",))
        return pieces or self._shared(made) or Standing(STARTS_NOW, position=0)

    def _shared(self, made: Decision) -> Standing | None:
        """Return how it waits for what is free, but not for its project."""
        wanted = made.request.total.gpus
        if not wanted or not options_of(made.cluster.options).manages_queues:
            return None
        if made.cluster.pk not in self._lefts:
            self._lefts[made.cluster.pk] = _lefts[0](made.cluster, str(self.project_uid))
        left = self._lefts[made.cluster.pk]
        shares = [left.get(room.name, (0, False)) for room in made.rooms]
        if any(wanted <= count for count, _at_ceiling in shares):
            return None
        full = bool(shares) and all(at_ceiling for _count, at_ceiling in shares)
        return Standing(Reason("ceiling") if full else IN_USE, waits_for=("gpu",))

    def rooms(self, made: Decision) -> list[KindRoom]:
        """Return what there is of each kind that it may get: on the nodes that it may get."""
        if not made.request.devices.count:
            return []
        if not made.cluster.runs_images:
            return self._queue(made.cluster).rooms(made.request.devices)
        names = {flavor.name for flavor in made.kinds}
        rows = [use for use in self._uses[made.cluster.pk] if use.flavor.name in names]
        return [self._room(made, use) for use in rows]

    def estimate(self, made: Decision) -> Estimate | None:
        if made.refusal is not None or made.cluster.runs_images:
            return None
        return self._queue(made.cluster).estimate(made)

    def ahead(self, made: Decision) -> Mapping[str, int]:
        return {} if made.cluster.runs_images else self._queue(made.cluster).ahead(made)

    def _room(self, made: Decision, use: KindUse) -> KindRoom:
        room, kind = _room_of(use), use.flavor.name
        known = self._known(made) if self._pools_of(made.cluster) else []
        if not known:
            return room
        there = [node for node in known if node.offers.get(kind) and made.admits(node)]
        cpu_milli, memory_mib = _largest(node for node in there if _is_up(node))
        return replace(
            room,
            total=sum(int(node.offers[kind]) for node in there),
            # what starts at this moment is seen on no node yet
            free=min(room.free, sum(self._free[node.pk][kind] for node in there)),
            largest=max((int(node.offers[kind]) for node in there), default=0),
            cpu_milli=cpu_milli,
            memory_mib=memory_mib,
        )

    def _lacking(self, made: Decision, size: Resources) -> tuple[str, ...]:
        """Return what the largest node has less of than a part of this size; 0 says nothing."""
        promised = options_of(made.cluster.options).cpu_overcommit
        if size.gpus:
            cpu_milli = max((room.cpu_milli for room in made.rooms), default=0)
            memory_mib = max((room.memory_mib for room in made.rooms), default=0)
        else:
            cpu_milli, memory_mib = self._plain(made)
        found = ["cpu"] if 0 < cpu_milli * promised < size.cpu_milli else []
        if 0 < memory_mib < size.memory_mib:
            found.append("memory")
        if size.gpus > max((room.largest for room in made.rooms), default=0):
            found.append("gpu")
        return tuple(found)

    def _plain(self, made: Decision) -> tuple[int, int]:
        """Return the most CPU and memory of a node for what has no devices; 0: not known.

        Servers without any of work that has some stand on any node (``operated.of_role``).
        """
        if made.request.devices.count and self._pools_of(made.cluster):
            return _largest(node for node in self._nodes[made.cluster.pk] if _is_up(node))
        if self._pools_of(made.cluster):
            return _largest(node for node in self._known(made) if made.admits(node))
        known = made.cluster.capacity or {}
        return int(known.get("plain_cpu_milli") or 0), int(known.get("plain_memory_mib") or 0)

    def _apart(self, made: Decision) -> Standing | None:
        """Return how it stands where devices are in too small pieces; what is not known is in
        nobody's way.
        """
        request = made.request
        single = request.devices.count == request.total.gpus == 1
        if not request.devices.count or (single and request.together is None):
            return None
        known = self._known(made)
        if not any(_is_up(node) for node in known):
            return None
        there = [node for node in known if made.admits(node)]
        kinds = [
            [
                Spot(node.name, node.labels, int(devices), self._free[node.pk][kind.name])
                for node in there
                if (devices := node.offers.get(kind.name))
            ]
            for kind in made.kinds
        ]
        return apart(request, kinds, options_of(made.cluster.options).levels)

    def _known(self, made: Decision) -> list[Node]:
        """Return the nodes that matter, none where no node of its pools is: they may grow."""
        rows = self._nodes[made.cluster.pk]
        of = (lambda n: n.offers) if made.request.devices.count else _is_up
        rows = [node for node in rows if of(node)]
        inside = not made.bound or any(bears(n, row) for n in rows for row in made.bound)
        return rows if inside else []

    # --- what is looked at, once ------------------------------------------------------------

    @cached_property
    def _pools(self) -> list[Pool]:
        return list(Pool.objects.filter(cluster__in=list(self._clusters)))

    @cached_property
    def _pools_with_kinds(self) -> list[Pool]:
        prefetch_related_objects(self._pools, "flavors")
        return self._pools

    def _pools_of(self, cluster: Cluster, *, with_kinds: bool = False) -> list[Pool]:
        rows = self._pools_with_kinds if with_kinds else self._pools
        return [row for row in rows if row.cluster_id == cluster.pk]

    @cached_property
    def _networks(self) -> list[NetworkProfile]:
        rows = NetworkProfile.objects.filter(cluster__in=list(self._clusters))
        return list(rows.prefetch_related("pools"))

    @cached_property
    def _flavors(self) -> list[Flavor]:
        return list(Flavor.objects.order_by("position", "name"))

    @cached_property
    def _uses(self) -> dict[int, list[KindUse]]:
        found: dict[int, list[KindUse]] = defaultdict(list)
        rows = [row for row in self._clusters.values() if row.runs_images]
        for use in uses(rows, flavors=self._flavors):
            found[use.cluster.pk].append(use)
        return found

    @cached_property
    def _nodes(self) -> dict[int, list[Node]]:
        found: dict[int, list[Node]] = defaultdict(list)
        rows = Node.objects.filter(cluster__in=list(self._clusters))
        for node in rows.only("cluster_id", "accelerators", "offers", *_NODE):
            found[node.cluster_id].append(node)
        return found

    @cached_property
    def _free(self) -> dict[int, Counter[str]]:
        """Return how many devices of each kind are free on a node: none while it is not up."""
        ours = held_on([cluster.key for cluster in self._clusters.values()])
        resources = {flavor.name: flavor.resource for flavor in self._flavors}
        found: dict[int, Counter[str]] = defaultdict(Counter)
        for node in (node for rows in self._nodes.values() for node in rows if _is_up(node)):
            cluster = self._clusters[node.cluster_id]
            others = (cluster.held or {}).get(node.name, {})
            taken = Counter(held_by_kind(node.offers, others, resources))
            taken.update(ours_by_kind(node.offers, ours[cluster.key, node.name]))
            found[node.pk].update({k: max(0, int(n) - taken[k]) for k, n in node.offers.items()})
        return found

    @cached_property
    def _stuck(self) -> set[int]:
        """Return the clusters whose self-check says that no new volume can be used."""
        clusters = list(self._clusters)
        rows = CheckResult.objects.filter(cluster__in=clusters, name="storage", state="red")
        return set(rows.values_list("cluster_id", flat=True))

    @cached_property
    def _unproved(self) -> dict[int, str]:
        return unproved_among(self._clusters.values())

    def _queue(self, cluster: Cluster) -> QueueSight:
        if cluster.pk not in self._queues:
            self._queues[cluster.pk] = _sights[0](cluster)
        return self._queues[cluster.pk]


def decision_on(cluster_key: str, request: Request, project_uid: Any) -> Decision:
    """Return what is decided for a cluster as its row is now, or raise why it is not let in."""
    cluster = Cluster.objects.filter(key=cluster_key).first()
    if cluster is None:
        raise Unavailable(_("There is no such cluster."))
    return Fleet([cluster], project_uid).decide(cluster, request).required()


def engine_decision(cluster_key: str, request: Request, project_uid: Any) -> Decision:
    """The same in the engine's words: what was allowed at launch may be gone."""
    try:
        return decision_on(cluster_key, request, project_uid)
    except BerthError as error:
        raise InvalidSpec(error.message, reason=reasons.Reason.INVALID_SPEC) from error


def _room_of(use: KindUse) -> KindRoom:
    flavor, size = use.flavor, (use.largest, use.cpu_milli, use.memory_mib)
    return KindRoom(flavor.name, flavor.label, use.total, use.free, *size)


def _is_up(node: Node) -> bool:
    return node.ready and node.schedulable


def _largest(nodes: Iterable[Node]) -> tuple[int, int]:
    """Return the most CPU and the most memory that one of them has."""
    sizes = [(node.cpu_milli, node.memory_mib) for node in nodes]
    cpu_milli = max((cpu for cpu, _memory in sizes), default=0)
    return cpu_milli, max((memory for _cpu, memory in sizes), default=0)
