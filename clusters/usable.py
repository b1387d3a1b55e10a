"""On which clusters new work may start, and the sentence why it may not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from clusters.hooks import project_clusters
from clusters.models import CheckResult, Cluster
from clusters.options import options_of
from common.clock import now
from common.errors import Conflict
from runtime.models import ONE_MACHINE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def usable_clusters(project_uid: Any) -> list[Cluster]:
    """Return the clusters that work of a project may be started on, by name."""
    allowed = _allowed(project_uid)
    rows = Cluster.objects.filter(enabled=True).order_by("name", "key")
    return [row for row in rows if not allowed or row.key in allowed]


def launch_refusal(cluster_key: str, project_uid: Any = None) -> str:
    """Return why nothing may start there now, or ''."""
    cluster = Cluster.objects.filter(key=cluster_key).first()
    if cluster is None:
        return "" if cluster_key == ONE_MACHINE else _("There is no such cluster.")
    if not cluster.enabled:
        return _("The cluster %(name)s is switched off.") % {"name": cluster.label}
    if cluster.drain:
        return _("The cluster %(name)s takes no new work at the moment.") % {"name": cluster.label}
    allowed = set() if project_uid is None else _allowed(project_uid)
    if allowed and cluster.key not in allowed:
        return _("This project may not use the cluster %(name)s.") % {"name": cluster.label}
    return unproved_among([cluster]).get(cluster.pk, "")


def launch_check(cluster_key: str, project_uid: Any) -> None:
    """Raise Conflict with the sentence when nothing may start there."""
    if refusal := launch_refusal(cluster_key, project_uid):
        raise refused(refusal)


def refused(refusal: str) -> Conflict:
    """Return the error that says why a cluster takes nothing."""
    return Conflict(refusal, code="cluster-refuses", fields={"cluster": [refusal]})


def unproved_among(clusters: Iterable[Cluster]) -> dict[int, str]:
    """Return pk → why nothing may start there yet, of those that let nothing in. One query."""
    return unproved(row for row in clusters if row.runs_images)


def _allowed(project_uid: Any) -> set[str]:
    """Return the keys of the clusters that a project may use; empty: all of them."""
    return {key for keys in project_clusters(project_uid) for key in keys or ()}


# What a cluster must have proved of itself before work of tenants is let in.


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
