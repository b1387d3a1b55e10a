"""Reading what is free, what is used and who waits."""

from collections import Counter
from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet, Sum

from clusters.models import Claim, Cluster, Device, Flavor


@dataclass(frozen=True)
class FlavorUse:
    """One kind of GPU: how many there are, are free now, and are waited for."""

    flavor: Flavor
    total: int
    free: int
    waiting: int


@dataclass(frozen=True)
class MachineUse:
    """CPU and memory that granted workloads asked for, of what the machine has."""

    cpu_milli: int
    cpu_milli_total: int
    memory_mib: int
    memory_mib_total: int


def clusters() -> QuerySet[Cluster]:
    return Cluster.objects.order_by("name")


def devices() -> QuerySet[Device]:
    """Devices with flavor and holder, in the order of the machine."""
    return Device.objects.select_related("cluster", "flavor", "hold__claim").order_by(
        "cluster__name", "index"
    )


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
    for name, count in (
        Claim.objects.filter(granted_at__isnull=True, gpus__gt=0)
        .values_list("gpu_flavor")
        .annotate(n=Sum("gpus"))
    ):
        waiting[name] += count or 0
    return [FlavorUse(f, f.total, f.free, waiting[f.name] + waiting[""]) for f in rows if f.total]


def machine_use(cluster: Cluster) -> MachineUse:
    sums = Claim.objects.filter(cluster=cluster, granted_at__isnull=False).aggregate(
        cpu=Sum("cpu_milli"), memory=Sum("memory_mib")
    )
    capacity = cluster.capacity or {}
    return MachineUse(
        sums["cpu"] or 0,
        int(capacity.get("cpu_milli") or 0),
        sums["memory"] or 0,
        int(capacity.get("memory_mib") or 0),
    )


def queue(cluster_key: str | None = None) -> QuerySet[Claim]:
    """Who waits, in the order of asking."""
    rows = Claim.objects.filter(granted_at__isnull=True).select_related("cluster")
    if cluster_key:
        rows = rows.filter(cluster__key=cluster_key)
    return rows.order_by("asked_at", "pk")


def devices_of(workload_uid: str) -> list[Device]:
    """Devices that a workload holds."""
    return list(
        Device.objects.filter(hold__claim__workload_uid=workload_uid)
        .select_related("flavor")
        .order_by("index")
    )
