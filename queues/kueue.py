"""Clusters whose queues Berth keeps in Kueue: what they are made from, and who may stand in them.

Kueue decides who starts. Here work is only kept from being made before its project has a queue:
it would start past all of them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from clusters import accelerators
from clusters.models import Cluster, Flavor, NetworkProfile, Node, Pool
from clusters.options import HOST_LABEL, options_of
from clusters.where import names_on
from common.clock import now
from common.errors import BerthError
from placement.decision import Reason as Decided
from projects.models import ProjectNamespace
from queues.choices import OVER_BUDGET, Beyond
from queues.models import ClusterQueues, Queue
from queues.tree import Look, priority_of
from runtime import gateway
from runtime.capabilities.queues import QueueKind, QueuePart, QueueShare, QueueTree, SupportsQueues
from runtime.hints import hint_uids
from runtime.models import ONE_MACHINE
from runtime.ports import AdmissionRequest, Granted, Waiting, cluster_provider
from runtime.protocol import Desired, DriverError, Phase
from runtime.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from queues.line import Verdict
    from runtime.reconcilers import Transition


# --- who may stand in line (``queues.admission.Admitter``) ----------------------------------------
def admit(request: AdmissionRequest) -> Granted | Waiting:
    row = ClusterQueues.objects.filter(
        cluster_key=request.cluster_key, deleted_at__isnull=True
    ).first()
    if row is None:
        row = wanted_on(request.cluster_key)
    if request.over_budget == Beyond.WAITS:
        return Waiting(1, 0, Reason.BUDGET, str(Decided("budget-waits")))
    if row.phase == Phase.RUNNING and request.project_uid in row.external_ref.get("projects", ()):
        return Granted()
    said = _("The project's queue on the cluster is being made.")
    return Waiting(1, 0, Reason.NO_QUEUE, row.message or said)


def labels_of(
    cluster: Cluster, purpose: str, priority: str, queue: str = "", *, over_budget: str = ""
) -> dict[str, Any]:
    """Return the fields of a workload's description that say how it stands in line.

    Where others manage the queues, both words are theirs. What only borrows stands behind all else.
    """
    options = options_of(cluster.options)
    if not options.manages_queues:
        return {"queue": queue, "priority": priority}
    borrows = over_budget == Beyond.BORROWS
    chosen = priority_of(purpose, OVER_BUDGET if borrows else priority)
    prefix = options.namespace_prefix
    name = names_on(cluster).queue_object(prefix, chosen.name) if chosen else ""
    return {"queue": "", "priority": name}


def reclaim_of(uid: str) -> None:
    """Kueue asks by what it does to the pods."""


def release(uid: str) -> None:
    """Kueue sees that the pods are gone."""


def line(cluster: Cluster) -> Sequence[Verdict]:  # noqa: ARG001 - it stands in Kueue
    return ()


WAITING = "queues/waiting"  # asked of the process that holds the cluster's credential
_ASKED_S = 2.5


def position(cluster: Cluster, placed: Mapping[str, Any]) -> int | None:
    """Return the place of work among all of its project that waits there; None: not known.

    ``placed``: where its objects are (``namespace`` and ``name``).
    """
    if not cluster.reachable or not placed.get("name"):
        return None
    asked = {"cluster": cluster.key, "namespace": placed.get("namespace", "")}
    try:
        found = gateway.ask(WAITING, asked, timeout_s=_ASKED_S)["names"]
    except (BerthError, DriverError):
        return None
    return found.index(placed["name"]) + 1 if placed["name"] in found else None


def answer_waiting(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    driver = cluster_provider().driver_for(str(payload["cluster"]))
    if not isinstance(driver, SupportsQueues):
        return {"names": []}
    return {"names": list(driver.waiting_in(str(payload["namespace"])))}


# --- what they are made from ----------------------------------------------------------------------
def tree_on(cluster: Cluster) -> QueueTree:
    """Return the tree as the cluster is to have it; a constant number of queries."""
    look = Look(cluster)
    parts = [_part(queue, look) for queue in look.queues if queue.project_id is None]
    own = {queue.project_id: queue for queue in look.queues}
    for place in _places(cluster.key):
        found = own.get(place.project_id)
        if found is None:
            project = place.project
            parts.append(QueuePart(str(project.uid), project.slug, namespace=place.namespace))
        else:
            parts.append(_part(found, look, place.namespace))
    kinds, plain = _nodes(cluster)
    priorities = {row.name: row.value for row in look.priorities}
    plain_levels = (HOST_LABEL,) if options_of(cluster.options).levels else ()
    return QueueTree(tuple(parts), kinds, plain, plain_levels, priorities)


def _places(cluster_key: str) -> list[ProjectNamespace]:
    """Return the namespaces that are made, and wanted.

    One that is in trouble keeps its queue: Kueue would not take it back before all work in it ends.
    """
    rows = ProjectNamespace.objects.filter(
        cluster_key=cluster_key,
        deleted_at__isnull=True,
        desired=Desired.RUNNING,
        external_ref__has_key="namespace",
    )
    return list(rows.select_related("project").order_by("namespace"))


def _part(queue: Queue, look: Look, namespace: str = "") -> QueuePart:
    shares = look.shares.get(queue.pk, {}).items()
    return QueuePart(
        key=queue.key,
        name=str(queue),
        parent=queue.parent.key if queue.parent else "",
        namespace=namespace,
        weight=queue.weight,
        shares={kind: QueueShare(one.guaranteed, one.most, one.lends) for kind, one in shares},
    )


def _nodes(cluster: Cluster) -> tuple[tuple[QueueKind, ...], dict[str, int]]:
    """Return the devices that can be given out, and what nodes without any have.

    A kind of nodes that are all down stays, with nothing of it: work for it waits. Of the levels at
    which nodes stand together each has those that any of its nodes names; to the queue, a node that
    lacks one of them is not there.
    """
    flavors = list(Flavor.objects.order_by("position", "name"))
    order = {flavor.name: n for n, flavor in enumerate(flavors)}
    known = {flavor.name: flavor for flavor in flavors}
    pools = Pool.objects.filter(cluster=cluster).values_list("tolerations", flat=True)
    tolerations = [entry for entries in pools for entry in entries]
    cards = {
        resource
        for profile in NetworkProfile.objects.filter(cluster=cluster)
        for _attachment, resource in profile.pairs
        if resource
    }
    devices: Counter[tuple[str, str]] = Counter()
    beside: dict[tuple[str, str], Counter[str]] = {}
    labels: dict[tuple[str, str], dict[str, str]] = {}
    is_open: dict[tuple[str, str], bool] = {}
    plain: Counter[str] = Counter()
    nodes = list(Node.objects.filter(cluster=cluster))
    levels = [one for one in options_of(cluster.options).levels.values() if one != HOST_LABEL]
    carried = accelerators.levels_carried(nodes, known, levels)
    for node in nodes:
        closed = accelerators.closed_by(node.taints, node.accelerators, tolerations)
        usable = node.ready and node.schedulable and not closed
        has = Counter({"cpu": node.cpu_milli, "memory": node.memory_mib})
        has.update({name: node.accelerators.get(name, 0) for name in cards})
        offers = {name: count for name, count in node.offers.items() if name in known}
        if not offers and usable and accelerators.is_plain(node.taints):
            plain.update(has)
        taken = accelerators.held_by_kind(
            offers,
            (cluster.held or {}).get(node.name, {}),
            {name: known[name].resource for name in offers},
        )
        for name, count in offers.items():
            key = (name, accelerators.variant_of(known[name], node.labels))
            labels[key] = {n: node.labels.get(n, "") for n in known[name].node_labels}
            is_open[key] = is_open.get(key, False) or accelerators.is_plain(node.taints)
            sums = beside.setdefault(key, Counter())
            if usable and all(node.labels.get(one) for one in carried[key]):
                devices[key] += count - taken.get(name, 0)
                sums.update({what: amount // len(offers) for what, amount in has.items()})
    kinds = tuple(
        QueueKind(
            name=name,
            resource=known[name].resource,
            labels=labels[name, variant],
            devices=devices[name, variant],
            variant=variant,
            levels=(
                (*(one for one in levels if one in carried[name, variant]), HOST_LABEL)
                if levels
                else ()
            ),
            open=is_open[name, variant],
            beside=dict(beside[name, variant]),
        )
        for name, variant in sorted(labels, key=lambda key: (order[key[0]], key[1]))
    )
    return kinds, dict(plain)


# --- when they are made anew ----------------------------------------------------------------------
def wanted_on(cluster_key: str) -> ClusterQueues:
    """Return the row that stands for them on a cluster, wanted from now on."""
    row, _made = ClusterQueues.objects.get_or_create(cluster_key=cluster_key, deleted_at=None)
    if row.desired != Desired.RUNNING:
        row.desired = Desired.RUNNING
        row.generation += 1
        row.save(update_fields=["desired", "generation", "updated_at"])
    hint_uids(ClusterQueues.KIND, [row.uid])
    return row


def cluster_changed(cluster_key: str) -> None:
    """Make or remove the queues of a cluster as its options say now."""
    rows = ClusterQueues.objects.filter(cluster_key=cluster_key, deleted_at__isnull=True)
    cluster = Cluster.objects.filter(key=cluster_key).first()
    if cluster is None:  # let go of: what is there stays there
        rows.update(deleted_at=now(), next_reconcile_at=None, phase=Phase.DELETED)
    elif options_of(cluster.options).manages_queues:
        wanted_on(cluster_key)
    else:
        for row in rows.exclude(desired=Desired.ABSENT):
            row.desired = Desired.ABSENT
            row.generation += 1
            row.save(update_fields=["desired", "generation", "updated_at"])
            hint_uids(ClusterQueues.KIND, [row.uid])


def tree_changed() -> None:
    """Write the tree anew on every cluster whose queues are Berth's."""
    for row in ClusterQueues.objects.filter(deleted_at__isnull=True, desired=Desired.RUNNING):
        row.generation += 1
        row.save(update_fields=["generation", "updated_at"])
        hint_uids(ClusterQueues.KIND, [row.uid])


def place_changed(transition: Transition) -> None:
    """Listener: a project has a namespace on a cluster, or none any more."""
    row = transition.row
    if not isinstance(row, ProjectNamespace) or row.cluster_key == ONE_MACHINE:
        return
    if transition.gone or (transition.before == Phase.RUNNING) != (
        transition.after == Phase.RUNNING
    ):
        hint_on([row.cluster_key])


def hint_on(cluster_keys: Iterable[str]) -> None:
    rows = ClusterQueues.objects.filter(cluster_key__in=list(cluster_keys), deleted_at__isnull=True)
    hint_uids(ClusterQueues.KIND, list(rows.values_list("uid", flat=True)))
