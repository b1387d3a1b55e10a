"""Nodes as reported: one bulk write for any number, and what each cluster has of each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction

from clusters import accelerators
from clusters.models import Cluster, Flavor, Node, Pool
from common.clock import now
from runtime import bus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from runtime.protocol import NodeChanges, NodeFacts

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
_UPDATED = [name.removesuffix("_id") for name in _FACTS] + ["seen_at"]


@transaction.atomic
def nodes_store(*, cluster_key: str, changes: NodeChanges) -> int:
    """Write down what changed; a constant number of queries. Return how many rows changed."""
    cluster = Cluster.objects.select_for_update().filter(key=cluster_key).first()
    if cluster is None:
        return 0
    known = {node.name: node for node in Node.objects.filter(cluster=cluster)}
    flavors = _flavors_with_new(changes.seen)
    wanted = _wanted_labels(flavors, cluster)
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
    if not changed and not gone:
        return 0
    _write(cluster, changed, gone)
    _sum_up(cluster, [node for name, node in known.items() if name not in gone])
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
    _sum_up(cluster, nodes)


def _write(cluster: Cluster, changed: list[Node], gone: set[str]) -> None:
    Node.objects.bulk_create(
        changed,
        update_conflicts=True,
        unique_fields=["cluster", "name"],
        update_fields=_UPDATED,
        batch_size=500,
    )
    if gone:
        Node.objects.filter(cluster=cluster, name__in=gone).delete()


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


def _wanted_labels(flavors: Iterable[Flavor], cluster: Cluster) -> set[str]:
    wanted = {label for flavor in flavors for label in flavor.node_labels}
    for labels in Pool.objects.filter(cluster=cluster).values_list("node_labels", flat=True):
        wanted |= set(labels)
    return wanted


def _sum_up(cluster: Cluster, nodes: Iterable[Node]) -> None:
    """Keep the sums with the cluster, so that no page adds up nodes."""
    kinds: dict[str, dict[str, int]] = {}
    known = Pool.objects.filter(cluster=cluster).values_list("tolerations", flat=True)
    tolerations = [entry for entries in known for entry in entries]
    cpu = memory = ready = count = 0
    for node in nodes:
        count += 1
        closed = accelerators.closed_by(node.taints, node.accelerators, tolerations)
        if not (node.ready and node.schedulable) or closed:
            _add(kinds, node.offers, usable=False)
            continue
        ready += 1
        cpu += node.cpu_milli
        memory += node.memory_mib
        _add(kinds, node.offers, usable=True)
    cluster.kinds = kinds
    cluster.capacity = {
        **(cluster.capacity or {}),
        "cpu_milli": cpu,
        "memory_mib": memory,
        "nodes": count,
        "nodes_ready": ready,
    }
    cluster.save(update_fields=["kinds", "capacity"])
    bus.publish(["operators"], {"kind": "cluster", "uid": str(cluster.uid)})


def _add(kinds: dict[str, dict[str, int]], offers: Mapping[str, Any], *, usable: bool) -> None:
    """``total`` counts devices that can be given out; ``out`` those of nodes that are not up."""
    for name, devices in offers.items():
        kind = kinds.setdefault(name, {"total": 0, "out": 0, "nodes": 0, "largest": 0})
        if usable:
            kind["total"] += devices
            kind["nodes"] += 1
            kind["largest"] = max(kind["largest"], devices)
        else:
            kind["out"] += devices
