"""Reading what is free, what is used and who waits."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q, QuerySet
from django.utils.translation import gettext as _

from clusters.accelerators import sources_of
from clusters.device_use import held_by
from clusters.models import CheckResult, Claim, Cluster, Device, Flavor, NetworkProfile, Node, Pool
from common.errors import NotFound
from runtime.use_sources import UseSource


@dataclass(frozen=True)
class FlavorUse:
    """One kind of GPU: how many there are, are free now, and are waited for."""

    flavor: Flavor
    total: int
    free: int
    waiting: int


def clusters() -> QuerySet[Cluster]:
    return Cluster.objects.order_by("name")


def devices() -> QuerySet[Device]:
    """Devices with flavor and holder, in the order of the machine."""
    return Device.objects.select_related("cluster", "flavor", "hold__claim").order_by(
        "cluster__name", "index"
    )


def devices_there(cluster: Cluster) -> QuerySet[Device]:
    """The devices that a machine has, also those that it told and could not read.

    What its last listing left out is gone. While nobody can ask the machine, nothing is.
    """
    rows = Device.objects.filter(cluster=cluster)
    if cluster.reachable and cluster.checked_at is not None:
        rows = rows.filter(Q(healthy=True) | Q(seen_at__gte=cluster.checked_at))
    return rows


def flavor_use(cluster_key: str | None = None) -> list[FlavorUse]:
    """Return each kind of GPU that exists, with what is free. Two queries."""
    mine = Q(device__healthy=True)
    if cluster_key:
        mine &= Q(device__cluster__key=cluster_key)
    rows = Flavor.objects.annotate(
        total=Count("device", filter=mine, distinct=True),
        free=Count("device", filter=mine & Q(device__hold__isnull=True), distinct=True),
    ).order_by("position", "name")
    waiting: Counter[str] = Counter()
    for claim in Claim.objects.filter(granted_at__isnull=True, gpus__gt=0):
        for kind in claim.size.kinds or ("",):
            waiting[kind] += claim.gpus
    return [FlavorUse(f, f.total, f.free, waiting[f.name] + waiting[""]) for f in rows if f.total]


def queue(cluster_key: str | None = None) -> QuerySet[Claim]:
    """Who waits, in the order of asking."""
    rows = Claim.objects.filter(granted_at__isnull=True).select_related("cluster")
    if cluster_key:
        rows = rows.filter(cluster__key=cluster_key)
    return rows.order_by("asked_at", "pk")


def cluster_get(key: str) -> Cluster:
    row = Cluster.objects.filter(key=key).first()
    if row is None:
        raise NotFound(_("There is no such cluster."))
    return row


def node_ranges(key: str) -> list[str]:
    """Return the public addresses of a cluster's nodes, as ranges that nobody need reach."""
    capacity = Cluster.objects.filter(key=key).values_list("capacity", flat=True).first()
    return list((capacity or {}).get("node_ranges") or ())


def nodes(
    cluster: Cluster, *, search: str = "", kind: str = "", pool: str = "", ready: bool | None = None
) -> QuerySet[Node]:
    """Return nodes by name, narrowed by what is asked for.

    ``search``: part of the name, of a label, or of who holds devices there.
    """
    rows = Node.objects.filter(cluster=cluster).select_related("flavor")
    if search:
        held = Q(name__in=held_by(cluster, search))
        rows = rows.filter(Q(name__icontains=search) | Q(labels__icontains=search) | held)
    if kind:
        rows = rows.filter(offers__has_key=kind)
    if pool and (chosen := Pool.objects.filter(cluster=cluster, name=pool).first()):
        rows = rows.filter(*[Q(**{f"labels__{k}": v}) for k, v in chosen.node_labels.items()])
    if ready is not None:
        up = Q(ready=True, schedulable=True)
        rows = rows.filter(up if ready else ~up)
    return rows.order_by("name", "id")


def pools(cluster: Cluster) -> list[Pool]:
    return list(Pool.objects.filter(cluster=cluster).prefetch_related("flavors"))


def networks(cluster: Cluster) -> list[NetworkProfile]:
    return list(NetworkProfile.objects.filter(cluster=cluster).prefetch_related("pools"))


def flavors() -> QuerySet[Flavor]:
    return Flavor.objects.order_by("position", "name")


def use_sources(cluster_key: str) -> list[UseSource]:
    """Return where figures of use of the kinds come from that the cluster has."""
    kinds = Cluster.objects.filter(key=cluster_key).values_list("kinds", flat=True).first()
    return sources_of(Flavor.objects.filter(name__in=list(kinds or {})).order_by("name"))


def flavor_get(name: str) -> Flavor:
    row = Flavor.objects.filter(name=name).first()
    if row is None:
        raise NotFound(_("There is no such kind of GPU."))
    return row


def pool_get(key: str, name: str) -> Pool:
    row = Pool.objects.select_related("cluster").filter(cluster__key=key, name=name).first()
    if row is None:
        raise NotFound(_("There is no such pool."))
    return row


def network_get(key: str, name: str) -> NetworkProfile:
    rows = NetworkProfile.objects.select_related("cluster")
    row = rows.filter(cluster__key=key, name=name).first()
    if row is None:
        raise NotFound(_("There is no such network."))
    return row


@dataclass(frozen=True)
class ShownCheck:
    """One line of the checklist; ``at`` None: not run yet."""

    name: str
    label: str
    what: str
    state: str
    sentence: str
    fix: str
    took_ms: int
    at: datetime | None


def checks(cluster: Cluster) -> list[ShownCheck]:
    """Return the checklist in its order, with the last answers."""
    from clusters.checks import CHECKS
    from clusters.checks.base import text_of

    known = {row.name: row for row in CheckResult.objects.filter(cluster=cluster)}
    found = []
    for check in CHECKS:
        row = known.get(check.name)
        found.append(
            ShownCheck(
                name=check.name,
                label=str(check.label),
                what=str(check.what),
                state=row.state if row else "unknown",
                sentence=text_of(row.sentence, row.values) if row else _("Not checked yet."),
                fix=row.fix if row else "",
                took_ms=row.took_ms if row else 0,
                at=row.at if row else None,
            )
        )
    return found
