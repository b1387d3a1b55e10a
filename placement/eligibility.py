"""On which nodes a request may go, with which kinds of device, or why on none.

Everything that a tenant can choose is a name; labels, tolerations and resources come from rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from clusters.accelerators import is_part, terms
from clusters.options import options_of
from clusters.wording import work_words
from placement.decision import Reason
from placement.levels import LABELS
from runtime.spec import Network, Placement, Together

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from clusters.models import Flavor, NetworkProfile, Pool
    from placement.decision import Decision, Request


class RefusedError(Exception):
    """A request is not let in, whatever is free."""

    def __init__(self, reason: str, **params: Any) -> None:
        super().__init__(reason)
        self.reason = Reason(reason, params)


@dataclass(frozen=True)
class Offered:
    """What operators said of one cluster; networks and kinds of GPU only for who asks for them."""

    project_uid: Any
    pools: Sequence[Pool]
    networks: Sequence[NetworkProfile]
    flavors: Sequence[Flavor]

    def is_ours(self, row: Pool | NetworkProfile) -> bool:
        """What is another project's is the same as none (L3)."""
        return not row.project_uids or str(self.project_uid) in row.project_uids


def on_nodes(made: Decision, offered: Offered) -> Decision:
    """Decide where the cluster's own scheduler may put it; raise RefusedError.

    Taints of a pool are tolerated by work that names the pool, a network in it, or a kind of GPU
    that it lists.
    """
    request, devices = made.request, made.request.devices
    usable: list[Pool] = []
    foreign: list[Pool] = []
    for row in offered.pools:
        ours = row.admits(request.work_class, offered.project_uid)
        (usable if ours else foreign).append(row)
    chosen = _chosen(offered, request)
    bound = [chosen] if chosen else []
    network = Network()
    if request.network:
        profile = _profile(offered, request)
        if chosen is None:
            bound = _wired(profile, usable)
        network = _cards(profile, devices.count)
    made = replace(made, network=network)
    together = _together(made)
    if not devices.count:
        labels, found = nodes_with([], bound)
        nodes = Placement(
            node_labels=labels,
            any_of=tuple(term for _rank, term in found),
            tolerations=tolerations_of(bound),
            avoid=kept_off(foreign, bound),
        )
        return replace(made, nodes=nodes, bound=tuple(bound))
    there = set(made.cluster.kinds or {}) - hidden_kinds(usable, foreign)
    kinds, bound = _kinds(
        made, [flavor for flavor in offered.flavors if flavor.name in there], bound
    )
    labels, found = nodes_with(kinds, bound)
    resource = kinds[0].resource if kinds else Placement.resource
    names = {flavor.name for flavor in kinds}
    holding = [row for row in usable if names & {flavor.name for flavor in row.flavors.all()}]
    nodes = Placement(
        resource=resource,
        node_labels=labels,
        any_of=tuple(term for _rank, term in found),
        # "any kind" has no order; kinds that were named are liked as they were named (A3)
        ranks=tuple(rank for rank, _term in found) if len(devices.kinds) > 1 else (),
        # nodes with devices are often tainted by the device's own name
        tolerations=({"key": resource, "operator": "Exists"}, *tolerations_of(bound or holding)),
        avoid=kept_off(foreign, bound),
        together=together,
    )
    # no kind is known there: the first node with such a device will do
    limited = kinds or [flavor for flavor in offered.flavors if flavor.resource == resource]
    return replace(
        made,
        nodes=nodes,
        bound=tuple(bound),
        kinds=tuple(kinds),
        flavors=tuple(flavor.name for flavor in limited),
    )


def _together(made: Decision) -> Together | None:
    """Return what keeps its replicas together, by the label of nodes."""
    together = made.request.together
    if together is None:
        return None
    levels = options_of(made.cluster.options).levels
    if together.where not in levels:
        level = LABELS[together.where]
        raise RefusedError("no-level", cluster=made.cluster.label, level=level)
    if not made.request.devices.count:
        raise RefusedError("together-without-gpus")
    return replace(together, where=levels[together.where])


def _chosen(offered: Offered, request: Request) -> Pool | None:
    name = request.pool
    if not name:
        return None
    found = next((row for row in offered.pools if row.name == name), None)
    if found is None or not offered.is_ours(found):
        raise RefusedError("no-pool", name=name)
    if not found.admits(request.work_class, offered.project_uid):
        kinds = ", ".join(work_words(kind) for kind in found.kinds)
        raise RefusedError("pool-reserved", name=name, kinds=kinds)
    return found


def _profile(offered: Offered, request: Request) -> NetworkProfile:
    found = next((row for row in offered.networks if row.name == request.network), None)
    if found is None or not offered.is_ours(found):
        raise RefusedError("no-network", name=request.network)
    names = {row.name for row in found.pools.all()}
    if request.pool and names and request.pool not in names:
        raise RefusedError("network-not-in-pool", pool=request.pool, name=request.network)
    return found


def _wired(profile: NetworkProfile, usable: Iterable[Pool]) -> list[Pool]:
    """Without a chosen pool, work with an extra network goes to one of those that have it."""
    wired = {row.pk for row in profile.pools.all()}
    inside = [row for row in usable if row.pk in wired]
    if wired and not inside:
        raise RefusedError("network-in-no-pool", name=profile.name)
    return inside


def _cards(profile: NetworkProfile, gpus: int) -> Network:
    """Return what an extra network adds to a pod."""
    cards = profile.cards(gpus)
    if not cards:
        raise RefusedError("network-without-gpus", name=profile.name)
    # the first GPU has the first card, which is net1 inside, and so on
    taken = list(islice(cycle(profile.pairs), cards))
    attached: list[str] = []
    for name, resource in taken:
        if resource or name not in attached:  # what takes nothing of the node is attached once
            attached.append(name)
    return Network(
        attachments=tuple(attached),
        resources=dict(Counter(resource for _name, resource in taken if resource)),
        env={str(k): str(v) for k, v in (profile.env or {}).items()},
    )


def _kinds(
    made: Decision, there: Sequence[Flavor], bound: list[Pool]
) -> tuple[list[Flavor], list[Pool]]:
    """Return the kinds of those ``there`` that will do, and which of the pools may have one."""
    cluster, asked = made.cluster, made.request.devices.kinds
    names = {flavor.name for flavor in there}
    if bound:
        names = kinds_in(bound, names)
    rows = {flavor.name: flavor for flavor in there if flavor.name in names}
    if missing := [name for name in asked if name not in rows]:
        raise RefusedError("no-kind", cluster=cluster.label, kind=missing[0])
    found = [rows[name] for name in asked]
    if not found:
        found = any_kind((flavor, cluster.kinds[name]["total"]) for name, flavor in rows.items())
    if len({flavor.resource for flavor in found}) > 1:
        raise RefusedError("kinds-differ")
    if len(bound) > 1 and not (bound := pools_with(bound, found)):
        raise RefusedError("no-kind", cluster=cluster.label, kind=found[0].name)
    return found, bound


def any_kind(counted: Iterable[tuple[Flavor, int]]) -> list[Flavor]:
    """Return the kinds of which one will do for "any", given how many there are of each.

    Whole devices of one resource, since a pod names one: that of which there are the most; of
    equally many the first. What is free at the moment does not count: a program is made for one
    maker's devices, and limits are held for these kinds before anything is placed.
    """
    whole = [(flavor, n) for flavor, n in counted if flavor.node_labels and not is_part(flavor)]
    sums: Counter[str] = Counter()
    for flavor, n in whole:
        sums[flavor.resource] += n
    most = max(sums, key=lambda resource: sums[resource], default="")
    return [flavor for flavor, _n in whole if flavor.resource == most]


def hidden_kinds(usable: Iterable[Pool], foreign: Iterable[Pool]) -> set[str]:
    """Return the kinds of GPU that only pools have which are closed to such work."""
    ours = {flavor.name for pool in usable for flavor in pool.flavors.all()}
    return {flavor.name for pool in foreign for flavor in pool.flavors.all()} - ours


def kinds_in(pools: Sequence[Pool], names: Iterable[str]) -> set[str]:
    """Return which of these kinds work may ask for that goes into one of the pools."""
    listed = [{flavor.name for flavor in pool.flavors.all()} for pool in pools]
    # a pool that lists none may have any
    return {name for name in names if any(not some or name in some for some in listed)}


def pools_with(pools: Sequence[Pool], flavors: Sequence[Flavor]) -> list[Pool]:
    """Return the pools in which there may be one of the kinds; all of them when none is asked."""
    return [pool for pool in pools if not flavors or _terms(flavors, pool)]


def nodes_with(
    flavors: Sequence[Flavor], pools: Sequence[Pool]
) -> tuple[dict[str, str], list[tuple[int, dict[str, str]]]]:
    """Return the labels that each node must carry, and (rank, labels) of which it carries one.

    One pool's labels are for every node; of several each has its own nodes and its own kinds.
    """
    if len(pools) > 1 and not flavors:
        return {}, [(0, dict(pool.node_labels)) for pool in pools]
    if len(pools) > 1:
        found = [(rank, term) for pool in pools for rank, term in _terms(flavors, pool)]
        return {}, sorted(found, key=lambda pair: pair[0])
    labels = dict(pools[0].node_labels) if pools else {}
    return labels, [(rank, term) for rank, f in enumerate(flavors) for term in terms(f.node_labels)]


def tolerations_of(pools: Iterable[Pool]) -> tuple[Mapping[str, str], ...]:
    """Return those of all pools, each once."""
    found: list[Mapping[str, str]] = []
    for pool in pools:
        found += [entry for entry in pool.tolerations if entry not in found]
    return tuple(found)


def kept_off(foreign: Iterable[Pool], bound: Collection[Pool]) -> dict[str, tuple[str, ...]]:
    """Return the labels of pools that are reserved for others, less what work is bound to carry.

    A reserved pool has one label.
    """
    found: dict[str, tuple[str, ...]] = {}
    for pool in foreign:
        for name, value in list(pool.node_labels.items())[:1]:
            if bound and all(row.node_labels.get(name) == value for row in bound):
                continue
            if value not in found.get(name, ()):
                found[name] = (*found.get(name, ()), value)
    return found


def _terms(flavors: Sequence[Flavor], pool: Pool) -> list[tuple[int, dict[str, str]]]:
    """Labels of a kind and of the pool on one node, where they don't contradict each other."""
    inside = kinds_in([pool], (flavor.name for flavor in flavors))
    return [
        (rank, {**term, **pool.node_labels})
        for rank, flavor in enumerate(flavors)
        if flavor.name in inside
        for term in terms(flavor.node_labels)
        if _agree(term, pool.node_labels)
    ]


def _agree(some: Mapping[str, str], others: Mapping[str, str]) -> bool:
    return all(others.get(name, value) == value for name, value in some.items())
