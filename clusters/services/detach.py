"""Letting go of a cluster: detached while it answers, forgotten when it no longer does.

Either way the files there stay, and what stays is listed: in the answer, in the event of the
cluster, and for each project in an event of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils.translation import gettext as _

from clusters import hooks, registry, remains
from clusters.demand import live_on
from clusters.detached_cleanup import farewell
from clusters.options import options_of
from clusters.services.attach import attached
from clusters.services.base import require_operator
from clusters.wording import counted
from common.errors import Conflict, Invalid
from events import services as events
from runtime import orphans
from runtime.models import ObservedWorkload

if TYPE_CHECKING:
    from accounts.principal import Principal
    from clusters.models import Cluster
    from clusters.remains import Left


@transaction.atomic
def cluster_detach(*, principal: Principal, cluster: Cluster, confirm: str) -> list[Left]:
    """Let go of a cluster, and of the credential. Refused while there is work; files stay there.

    The worker then removes its empty namespaces; the sealed credential goes after that.
    """
    row = _confirmed(principal, cluster, confirm)
    if there := live_on(row.key, holding=True):
        said = {"name": row.name, "kept": counted(there)}
        sentence = _("There is still work on %(name)s (%(kept)s). Delete it first.")
        if not row.reachable:
            sentence = _(
                "There is still work on %(name)s (%(kept)s). The cluster does not answer: if it"
                " will not come back, forget it; what is there is listed then."
            )
        raise Conflict(sentence % said, extra={"there": there})
    return _let_go(principal, row, "cluster.detached")


@transaction.atomic
def cluster_forget(*, principal: Principal, cluster: Cluster, confirm: str) -> list[Left]:
    """Let go of a cluster that no longer answers, with all work that Berth knows of there."""
    row = _confirmed(principal, cluster, confirm)
    if row.reachable:
        raise Conflict(
            _("%(name)s answered when it was last asked: detach it instead.") % {"name": row.name}
        )
    return _let_go(principal, row, "cluster.forgotten")


def _confirmed(principal: Principal, cluster: Cluster, confirm: str) -> Cluster:
    require_operator(principal)
    row = attached(cluster)
    if confirm.strip() != row.name:
        raise Invalid(_("The typed name is not the cluster's. Nothing was changed."))
    return row


def _let_go(principal: Principal, row: Cluster, verb: str) -> list[Left]:
    """End every row there without its driver, say what stays, and remove the cluster's row."""
    left: list[Left] = []
    message = _("Its cluster %(name)s was let go of; what was there stays there.")
    for reconciler, item in remains.rows(cluster_key=row.key, locked=True):
        left.append(remains.left(item))
        orphans.let_go(reconciler, item, message % {"name": row.name})
    said: dict[str, Any] = {"actor": principal, "target": row}
    for project, of_project in remains.by_project(left).items():
        told = remains.told(of_project)
        events.record(**said, verb="cluster.left-there", project_uid=project, **told)
    events.record(**said, verb=verb, **remains.told(left))
    ObservedWorkload.objects.filter(cluster_key=row.key).delete()
    key = row.key
    farewell(row, options_of(row.options).namespace_prefix)
    row.delete()
    hooks.cluster_changed(key)
    transaction.on_commit(lambda: registry.forget(key))
    return left
