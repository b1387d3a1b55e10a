"""Writing what is known about clusters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog
from django.db import transaction

from clusters import registry
from clusters.hooks import devices_added
from clusters.models import CheckResult, Claim, Cluster, Device, Flavor
from clusters.services.base import require_operator
from common import ids
from common.clock import now
from events import services as events
from runtime import bus
from runtime import protocol as p

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accounts.principal import Principal
    from clusters.checks.base import Finding
    from runtime.capabilities.clusters import NodeChanges
    from runtime.protocol import Driver
    from runtime.routers.base import Router


log = structlog.get_logger(__name__)


def health_refresh(*, key: str) -> Cluster:
    """Ask the driver how the cluster is and write it down; unreachable is an answer too."""
    try:
        health = registry.driver_for(key).probe()
    except p.DriverError as error:
        health = p.Health(reachable=False, message=str(error))
    return health_store(key=key, health=health)


@transaction.atomic
def health_store(*, key: str, health: p.Health) -> Cluster:
    """Write down what ``probe`` answered. Devices that are not seen are not healthy."""
    cluster = Cluster.objects.select_for_update().get(key=key)
    cluster.reachable = health.reachable
    cluster.message = health.message
    cluster.checked_at = now()
    if health.reachable:
        cluster.version = health.version
        if health.cpu_milli or not cluster.kinds:  # else the nodes say it
            size = {"cpu_milli": health.cpu_milli, "memory_mib": health.memory_mib}
            cluster.capacity = {**(cluster.capacity or {}), **size}
        cluster.isolation = dict(health.isolation)
        if health.operators is not None and cluster.operators != list(
            health.operators
        ):  # its driver looks for their objects
            cluster.operators = list(health.operators)
            cluster.revision += 1
        if _devices_store(cluster, health.devices):
            cluster.save()
            devices_added(cluster)
    cluster.save()
    bus.publish(["operators"], {"kind": "cluster", "uid": str(cluster.uid)})
    return cluster


def health_refresh_if_older(*, key: str, seconds: float) -> None:
    """For pages that somebody looks at: bars are at most ``seconds`` old."""
    old = now() - timedelta(seconds=seconds)
    if not Cluster.objects.filter(key=key, checked_at__gte=old).exists():
        health_refresh(key=key)


def seconds_to_next_check(*, key: str) -> float:
    """Return how long health may rest: shortly while work runs, longer when quiet."""
    busy = Claim.objects.filter(cluster__key=key, granted_at__isnull=False).exists()
    return 15.0 if busy else 60.0


def _devices_store(cluster: Cluster, seen: tuple[p.Device, ...]) -> bool:
    """Upsert devices; True when more can be given out than before."""
    known = {d.uuid: d for d in Device.objects.filter(cluster=cluster)}
    flavors = list(Flavor.objects.all())
    before = {u for u, d in known.items() if d.healthy}
    at = now()
    for found in seen:
        device = known.get(found.uuid) or Device(cluster=cluster, uuid=found.uuid)
        device.index, device.name = found.index, found.name[:120]
        device.memory_mib = found.memory_mib
        device.memory_used_mib = found.memory_used_mib
        device.utilisation = found.utilisation
        device.healthy, device.seen_at = found.healthy, at
        device.simulated = found.simulated
        if device.flavor_id is None:
            device.flavor = _flavor_of(found, flavors)
        device.save()
    missing = set(known) - {d.uuid for d in seen}
    Device.objects.filter(cluster=cluster, uuid__in=missing).update(healthy=False)
    return bool({d.uuid for d in seen if d.healthy} - before)


def _flavor_of(found: p.Device, flavors: list[Flavor]) -> Flavor:
    """Return the kind of GPU by its name; an unknown kind becomes a flavor of its own."""
    for flavor in flavors:
        if flavor.match and flavor.match.lower() in found.name.lower():
            return flavor
    name = ids.slugify(found.name, limit=63) or "gpu"
    made, _new = Flavor.objects.get_or_create(
        name=name,
        defaults={
            "label": found.name[:120],
            "match": found.name[:200],
            "memory_mib": found.memory_mib,
        },
    )
    flavors.append(made)
    return made


# Asking for a self-check, and keeping its answers.


@transaction.atomic
def checks_ask(*, principal: Principal, cluster: Cluster) -> None:
    """The worker runs them within seconds."""
    require_operator(principal)
    Cluster.objects.filter(pk=cluster.pk).update(checks_asked_at=now())
    events.record(actor=principal, verb="cluster.check-asked", target=cluster)


@transaction.atomic
def checks_store(*, cluster: Cluster, findings: Sequence[Finding]) -> None:
    """Write answers down. Where asking itself failed, an earlier answer stands; "unknown" is none.

    Answers of a server that the cluster no longer is are dropped.
    """
    here = Cluster.objects.select_for_update().filter(pk=cluster.pk)
    if here.filter(server=cluster.server, fingerprint=cluster.fingerprint).first() is None:
        return
    before = dict(CheckResult.objects.filter(cluster=cluster).values_list("name", "state"))
    for found in findings:
        if found.failed and before.get(found.name, found.state) != CheckResult.State.UNKNOWN:
            continue
        CheckResult.objects.update_or_create(
            cluster=cluster,
            name=found.name,
            defaults={
                "state": found.state,
                "sentence": found.sentence[:300],
                "values": dict(found.values),
                "fix": found.fix,
                "took_ms": found.took_ms,
                "at": now(),
            },
        )
        if found.state == CheckResult.State.RED and before.get(found.name) != found.state:
            events.record(
                actor=None,
                verb="cluster.check-failed",
                target=cluster,
                message=found.text(),
                data={"check": found.name},
            )
    bus.publish(["operators"], {"kind": "cluster", "uid": str(cluster.uid)})


# Implements ``runtime.ports.ClusterProvider`` on the table of clusters.


class ClusterRegistryProvider:
    def keys(self) -> Sequence[str]:
        return list(Cluster.objects.filter(enabled=True).values_list("key", flat=True))

    def driver_for(self, cluster_key: str) -> Driver:
        return registry.driver_for(cluster_key)

    def was_old(self, cluster_key: str, since: float) -> bool:
        return registry.was_old(cluster_key, since)

    def router(self) -> Router:
        return registry.router()

    def nodes_store(self, cluster_key: str, changes: NodeChanges) -> None:
        from clusters.services.nodes import nodes_store

        nodes_store(cluster_key=cluster_key, changes=changes)
