"""Asking for a self-check, and keeping its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from clusters.models import CheckResult, Cluster
from clusters.services.base import require_operator
from common.clock import now
from events import services as events
from runtime import bus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accounts.principal import Principal
    from clusters.checks.base import Finding


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
