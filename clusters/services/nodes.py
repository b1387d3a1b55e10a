"""Nodes as reported: one bulk write for any number, and what each cluster has of each kind."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from django.db import transaction

from clusters import accelerators, hooks
from clusters.models import Cluster, Flavor, Node, Pool
from clusters.options import options_of
from clusters.where import commonest
from common.clock import now
from dataplane.addresses import is_public
from runtime import bus

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from runtime.capabilities.clusters import NodeChanges, NodeFacts

_FACTS = (
    "ready",
    "schedulable",
    "cpu_milli",
    "memory_mib",
    "accelerators",
    "flavor_id",
    "offers",
    "labels",
    "taints",
    "version",
    "message",
)
MOST_RANGES = 200
_SUMS = ("total", "out", "held", "nodes", "largest")
# Of one node, since nothing is split over several: of all, and of those for work without devices.
_LARGEST = ("largest_cpu_milli", "largest_memory_mib")
_PLAIN = ("plain_cpu_milli", "plain_memory_mib")
_SIZES = (*_LARGEST, *_PLAIN, "architectures")  # what earlier versions did not keep
_UPDATED = [name.removesuffix("_id") for name in _FACTS] + ["seen_at"]


@transaction.atomic
def nodes_store(*, cluster_key: str, changes: NodeChanges) -> int:
    """Write down what changed; a constant number of queries. Return how many rows changed."""
    cluster = Cluster.objects.select_for_update().filter(key=cluster_key).first()
    if cluster is None:
        return 0
    known = {node.name: node for node in Node.objects.filter(cluster=cluster)}
    flavors = _flavors_with_new(changes.seen)
    asked = Pool.objects.filter(cluster=cluster).values_list("node_labels", flat=True)
    wanted = {name for labels in (*(f.node_labels for f in flavors), *asked) for name in labels}
    wanted |= set(options_of(cluster.options).levels.values())
    changed = []
    for facts in changes.seen:
        node = _node(cluster, facts, flavors, wanted)
        before = known.get(facts.name)
        if before is None or any(getattr(before, n) != getattr(node, n) for n in _FACTS):
            changed.append(node)
            known[facts.name] = node
    gone = set(changes.gone) & set(known)
    if changes.full:
        gone |= set(known) - {facts.name for facts in changes.seen}
    news = _note_held(cluster, changes, gone)
    ranges = _note_ranges(cluster, changes)
    if not (changed or gone or news or ranges) and set(_SIZES) <= set(cluster.capacity):
        return 0
    Node.objects.bulk_create(
        changed,
        update_conflicts=True,
        unique_fields=["cluster", "name"],
        update_fields=_UPDATED,
        batch_size=500,
    )
    if gone:
        Node.objects.filter(cluster=cluster, name__in=gone).delete()
    _sum_up(cluster, [node for name, node in known.items() if name not in gone], flavors)
    if ranges:
        hooks.cluster_changed(cluster.key)  # network policies close them
    return len(changed) + len(gone)


def nodes_rematch(*, cluster: Cluster) -> None:
    """Recognise all nodes again, after flavors or pools were changed."""
    flavors = list(Flavor.objects.all())
    by_name = {f.name: f for f in flavors}
    nodes = list(Node.objects.filter(cluster=cluster))
    for node in nodes:
        node.offers = accelerators.offers(flavors, node.labels, node.accelerators)
        node.flavor = by_name.get(next(iter(node.offers), ""))
    Node.objects.bulk_update(nodes, ["offers", "flavor"], batch_size=500)
    _sum_up(cluster, nodes, flavors)


def _node(
    cluster: Cluster, facts: NodeFacts, flavors: Sequence[Flavor], wanted: Iterable[str]
) -> Node:
    devices = {k: v for k, v in facts.accelerators.items() if v > 0}
    offers = accelerators.offers(flavors, facts.labels, devices)
    first = next((f.pk for f in flavors if f.name == next(iter(offers), "")), None)
    return Node(
        cluster=cluster,
        name=facts.name,
        ready=facts.ready,
        schedulable=facts.schedulable,
        cpu_milli=facts.cpu_milli,
        memory_mib=facts.memory_mib,
        accelerators=devices,
        flavor_id=first,
        offers=offers,
        labels=accelerators.shown_labels(facts.labels, wanted),
        taints=[dict(taint) for taint in facts.taints],
        version=facts.version[:64],
        message=facts.message[:300],
        seen_at=now(),
    )


def _flavors_with_new(seen: Iterable[NodeFacts]) -> list[Flavor]:
    flavors = list(Flavor.objects.order_by("position", "name"))
    for facts in seen:
        for kind in accelerators.unknown(flavors, facts.labels, facts.accelerators):
            flavors.append(_flavor_made(kind, flavors))
    return flavors


def _flavor_made(kind: accelerators.NewKind, flavors: list[Flavor]) -> Flavor:
    """Make a flavor; one that a machine made by the same name learns to know cluster nodes."""
    same = next((f for f in flavors if f.name == kind.name), None)
    if same is None:
        same = Flavor(name=kind.name, label=kind.label, memory_mib=kind.memory_mib)
    elif same.node_labels and same.resource != kind.resource:
        same = Flavor(name=f"{kind.name[:58]}-{len(flavors)}", label=kind.label)
    else:
        flavors.remove(same)
    labels = dict(same.node_labels or {})
    for name, values in kind.node_labels.items():
        labels[name] = sorted({*labels.get(name, []), *values})
    same.node_labels, same.resource = labels, kind.resource
    same.memory_mib = same.memory_mib or kind.memory_mib
    same.save()
    return same


def _sum_up(cluster: Cluster, nodes: Collection[Node], flavors: Iterable[Flavor]) -> None:
    """Keep the sums with the cluster, so that no page adds up nodes."""
    kinds: dict[str, dict[str, int]] = {}
    known = Pool.objects.filter(cluster=cluster).values_list("tolerations", flat=True)
    tolerations = [entry for entries in known for entry in entries]
    resources = {flavor.name: flavor.resource for flavor in flavors}
    cpu = memory = ready = count = 0
    largest = dict.fromkeys((*_LARGEST, *_PLAIN), 0)
    for node in nodes:
        count += 1
        closed = accelerators.closed_by(node.taints, node.accelerators, tolerations)
        if not (node.ready and node.schedulable) or closed:
            _add(kinds, node, usable=False)
            continue
        ready += 1
        cpu += node.cpu_milli
        memory += node.memory_mib
        for names, counts in ((_LARGEST, True), (_PLAIN, accelerators.is_plain(node.taints))):
            for name, size in zip(names, (node.cpu_milli, node.memory_mib), strict=True):
                largest[name] = max(largest[name], size if counts else 0)
        _add(kinds, node, usable=True)
        taken = (cluster.held or {}).get(node.name, {})  # there, and not free
        for name, devices in accelerators.held_by_kind(node.offers, taken, resources).items():
            kinds[name]["held"] += devices
    cluster.kinds = kinds
    cluster.capacity = {
        **(cluster.capacity or {}),
        "cpu_milli": cpu,
        "memory_mib": memory,
        "nodes": count,
        "nodes_ready": ready,
        **largest,
        "architectures": commonest(node.labels for node in nodes),
    }
    cluster.save(update_fields=["kinds", "capacity", "held"])
    bus.publish(["operators"], {"kind": "cluster", "uid": str(cluster.uid)})


def _add(kinds: dict[str, dict[str, int]], node: Node, *, usable: bool) -> None:
    """``total`` counts devices that can be given out; ``out`` those of nodes that are not up."""
    for name, devices in node.offers.items():
        kind = kinds.setdefault(name, dict.fromkeys((*_SUMS, *_LARGEST), 0))
        if usable:
            kind["total"] += devices
            kind["nodes"] += 1
            kind["largest"] = max(kind["largest"], devices)
            for size, value in zip(_LARGEST, (node.cpu_milli, node.memory_mib), strict=True):
                kind[size] = max(kind[size], value)
        else:
            kind["out"] += devices


def _note_held(cluster: Cluster, changes: NodeChanges, gone: Iterable[str]) -> bool:
    """Keep, by node, what others hold; few nodes have any. Return whether it changed."""
    before = dict(cluster.held or {})
    held = {} if changes.full else dict(before)
    for facts in changes.seen:
        found = {name: count for name, count in (facts.held or {}).items() if count > 0}
        held.pop(facts.name, None)
        if found:
            held[facts.name] = found
    for name in gone:
        held.pop(name, None)
    cluster.held = held
    return held != before


def _note_ranges(cluster: Cluster, changes: NodeChanges) -> bool:
    """Keep the public addresses of nodes; those that left go with the next full list."""
    before = (cluster.capacity or {}).get("node_ranges") or []
    seen = [address for facts in changes.seen for address in facts.addresses]
    ranges = public_ranges([*seen, *([] if changes.full else before)])
    cluster.capacity = {**(cluster.capacity or {}), "node_ranges": ranges}
    return ranges != before


def public_ranges(addresses: Iterable[str]) -> list[str]:
    """Return the public ones among addresses as few ranges: a policy's list has an end.

    Private ones are closed to workloads anyway.
    """
    ranges: list[Any] = []
    for text in addresses:
        try:
            one = ipaddress.ip_network(text)
        except ValueError:
            continue
        if is_public(one.network_address):
            ranges.append(one)
    ranges = _joined(ranges)
    while len(ranges) > MOST_RANGES:
        widest = max(one.prefixlen for one in ranges)
        ranges = list({one.supernet() if one.prefixlen == widest else one for one in ranges})
    return [str(one) for one in _joined(ranges)]


def _joined(ranges: Iterable[Any]) -> list[Any]:
    both = [[r for r in ranges if r.version == version] for version in (4, 6)]
    return [one for family in both for one in ipaddress.collapse_addresses(family)]
