"""Reading clusters for the operators' pages; a constant number of queries each."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Count, Q
from django.utils.translation import gettext as _

from clusters import selectors as clusters
from clusters.demand import live_on
from clusters.device_use import KindUse, uses
from clusters.models import Cluster
from clusters.options import options_of
from clusters.usable import launch_refusal
from clusters.wording import counted
from common.clock import now
from console.cluster_tables import NodeRows
from projects.models import Project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from django.db.models import QuerySet

    from clusters.device_use import NodeUse

STALE = timedelta(minutes=3)
NAMED = 5  # projects beside a pool; all of them are on its own page
_URGENCY = ("red", "unknown", "green")  # what somebody must mend is read first


@dataclass(frozen=True)
class Glance:
    """One cluster as its card shows it."""

    cluster: Cluster
    kinds: list[KindUse] = field(default_factory=list)
    red: int = 0

    @property
    def is_stale(self) -> bool:
        return is_stale(self.cluster.checked_at)

    @property
    def free(self) -> int:
        return sum(use.free for use in self.kinds)

    @property
    def total(self) -> int:
        return sum(use.total for use in self.kinds)


def is_stale(at: datetime | None) -> bool:
    return at is None or now() - at > STALE


def overview(*, sought: str = "", attention: bool = False) -> QuerySet[Cluster]:
    """Return clusters by name; with ``attention`` those that somebody should look at."""
    rows = Cluster.objects.annotate(red=Count("checks", filter=Q(checks__state="red")))
    if sought:
        rows = rows.filter(Q(name__icontains=sought) | Q(key__icontains=sought))
    if attention:
        silent = Q(enabled=True) & (
            Q(reachable=False) | Q(checked_at=None) | Q(checked_at__lt=now() - STALE)
        )
        rows = rows.filter(silent | Q(red__gt=0))
    return rows.order_by("name", "key")


def glances(rows: Iterable[Any]) -> list[Glance]:
    """Return what the cards of such rows show."""
    shown = list(rows)
    found = uses(shown)
    return [
        Glance(row, [use for use in found if use.cluster.pk == row.pk], row.red) for row in shown
    ]


def page(cluster: Cluster) -> dict[str, Any]:
    """Return everything that the page of one cluster shows."""
    checks = clusters.checks(cluster) if cluster.runs_images else []
    checks = sorted(checks, key=lambda check: _URGENCY.index(check.state))
    asked, ran = cluster.checks_asked_at, cluster.checks_ran_at
    pools, networks = clusters.pools(cluster), clusters.networks(cluster)
    kept = [row.project_uids for row in pools] + [row.project_uids for row in networks]
    names = _names({uid for uids in kept for uid in uids})
    return {
        "cluster": cluster,
        "options": options_of(cluster.options),
        "kinds": uses([cluster]),
        "checks": checks,
        "red": sum(1 for check in checks if check.state == "red"),
        "checking": bool(cluster.enabled and asked and (ran is None or asked > ran)),
        "pools": [(row, _listed(row, names)) for row in pools],
        "networks": [(row, _listed(row, names)) for row in networks],
        "refusal": launch_refusal(cluster.key),
        "is_stale": is_stale(cluster.checked_at),
        "on_cluster": cluster.runs_images,
        "there": counted(live_on(cluster.key)),
        "behind": _left_behind(cluster),
    }


def _left_behind(cluster: Cluster) -> str:
    """Names of projects that are gone, but for what they have on a cluster that was silent."""
    here = {"places__cluster_key": cluster.key, "places__deleted_at__isnull": True}
    gone = Project.objects.filter(deleted_at__isnull=False, **here).order_by("name")
    names = list(gone.values_list("name", flat=True)[: NAMED + 1])
    return ", ".join(names[:NAMED]) + (" …" if len(names) > NAMED else "")


def nodes(cluster: Cluster, chosen: Mapping[str, Any]) -> NodeRows:
    """Return nodes by name with what is held of each, narrowed by what was chosen."""
    rows = clusters.nodes(
        cluster,
        search=(chosen.get("q") or "").strip(),
        kind=chosen.get("kind") or "",
        pool=chosen.get("pool") or "",
        ready={"yes": True, "no": False}.get(chosen.get("ready") or ""),
    )
    rows = rows.select_related("flavor", "cluster")
    return NodeRows(cluster, rows, _HAS_GPUS.get(chosen.get("gpus") or ""))


_HAS_GPUS: dict[str, Callable[[NodeUse], bool]] = {
    "free": lambda use: use.free_count > 0,
    "held": lambda use: use.held_count + use.others_count > 0,
    "unheld": lambda use: use.total_count > 0 and not use.held_count + use.others_count,
}


def _names(uids: set[str]) -> dict[str, str]:
    if not uids:
        return {}
    rows = Project.objects.filter(uid__in=uids).values_list("uid", "name")
    return {str(uid): name for uid, name in rows}


def _listed(row: Any, names: dict[str, str]) -> str:
    """Names of the projects that something is reserved for; '' for everybody."""
    found = sorted(names.get(uid, uid[:8]) for uid in row.project_uids)
    said, rest = ", ".join(found[:NAMED]), len(found) - NAMED
    return said if rest < 1 else _("%(names)s and %(n)d more") % {"names": said, "n": rest}
