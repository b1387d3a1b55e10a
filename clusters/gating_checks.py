"""What a cluster must have proved of itself before work of tenants is let in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta

from django.utils.translation import gettext as _

from clusters.models import CheckResult, Cluster
from clusters.options import options_of
from common.clock import now

PROVED_FOR = timedelta(days=3)  # the worker asks every day; a network may be changed any day
METADATA = "169.254.169.254"  # where a cloud hands out a node's own credential, to whoever asks
_NETWORK, _HOST, _SOLE, _WAYS = "network", "host", "installation", "ways"


def unproved(clusters: Iterable[Cluster]) -> dict[int, str]:
    """Return pk → why no work of tenants is let in, of those where none is; in one query.

    Separation is probed, not assumed; a cluster that is trusted need not prove it. Whether work
    finds Berth matters everywhere.
    """
    rows = {cluster.pk: cluster for cluster in clusters}
    if not rows:
        return {}
    found: dict[int, dict[str, CheckResult]] = defaultdict(dict)
    wanted = (_NETWORK, _HOST, _SOLE, _WAYS)
    for check in CheckResult.objects.filter(cluster__in=list(rows), name__in=wanted):
        found[check.cluster_id][check.name] = check
    said = {pk: _of(cluster, found[pk]) for pk, cluster in rows.items()}
    return {pk: why for pk, why in said.items() if why}


def _of(cluster: Cluster, checks: Mapping[str, CheckResult]) -> str:
    sole = checks.get(_SOLE)
    if sole is not None and sole.state == CheckResult.State.RED:
        return _(
            "Another Berth works on %(name)s under the same prefix, so nothing is started there."
            " An operator sees the remedy on the cluster's page."
        ) % {"name": cluster.name}
    apart = ""
    if not options_of(cluster.options).trusted:
        apart = _of_network(cluster, checks.get(_NETWORK)) or _of_host(cluster, checks.get(_HOST))
    return apart or _of_ways(cluster, checks.get(_WAYS))


def _of_network(cluster: Cluster, check: CheckResult | None) -> str:
    if check is None or check.state == CheckResult.State.UNKNOWN:
        return _(
            "Whether the network of %(name)s keeps projects apart was not proved yet."
            " An operator sees more on the cluster's page."
        ) % {"name": cluster.label}
    if check.state == CheckResult.State.RED:
        return _(
            "The network of %(name)s does not keep projects apart, so nothing is started there."
        ) % {"name": cluster.label}
    if check.at < now() - PROVED_FOR:
        return _(
            "Whether the network of %(name)s keeps projects apart was not proved for some days."
            " An operator sees more on the cluster's page."
        ) % {"name": cluster.label}
    return ""


def _of_host(cluster: Cluster, check: CheckResult | None) -> str:
    """A metadata address that pods reach gives them the node's credential. A kubelet that they
    reach still asks who they are: that is a fault to mend, and stops nobody.
    """
    is_red = check is not None and check.state == CheckResult.State.RED
    if check is None or not is_red or check.values.get("address") != METADATA:
        return ""
    return _(
        "Work on %(name)s could take the credential of its nodes, so nothing is started there."
        " An operator sees the remedy on the cluster's page."
    ) % {"name": cluster.label}


def _of_ways(cluster: Cluster, check: CheckResult | None) -> str:
    """Work that does not find Berth, or that nobody reaches, would start and never be ready.

    Asked before the network, whose proof a new cluster waits for.
    """
    if check is None or check.state != CheckResult.State.RED:
        return ""
    return _(
        "Work on %(name)s and Berth don't reach each other, so nothing is started there."
        " An operator sees the remedy on the cluster's page."
    ) % {"name": cluster.label}
