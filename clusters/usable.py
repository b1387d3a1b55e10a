"""On which clusters new work may start, and the sentence why it may not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from clusters.gating_checks import unproved
from clusters.hooks import project_clusters
from clusters.models import Cluster
from common.errors import Conflict
from runtime.models import ONE_MACHINE

if TYPE_CHECKING:
    from collections.abc import Iterable


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
