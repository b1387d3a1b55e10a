"""Keeps the queues of a cluster as the tree says: makes them, puts back what was changed by hand.

Nobody watches them: each is looked at every half minute, which also finds nodes that came or went.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from clusters.models import Cluster
from events.services import record
from queues import kueue
from queues.models import ClusterQueues
from runtime import reconcilers
from runtime.capabilities.queues import SupportsQueues
from runtime.hints import hint_uids
from runtime.ports import cluster_provider
from runtime.protocol import Denied, Desired, InvalidSpec, NotYet, Phase, Unreachable
from runtime.reasons import Reason
from runtime.reconcilers import Outcome, Transition

if TYPE_CHECKING:
    from runtime.models import Reconcilable
    from runtime.protocol import Observation

RESTORED = "restored"  # word on the outcome's timeline
LOOK_S = 30.0
AGAIN_S = 10.0  # where Kueue is not there, or does not answer
MOST_NAMED = 50


class QueuesReconciler:
    kind = ClusterQueues.KIND
    model: type[Reconcilable] = ClusterQueues

    def step(self, row: ClusterQueues, observation: Observation | None) -> Outcome:
        del observation  # nobody watches them
        driver = cluster_provider().driver_for(row.cluster_key)
        if not isinstance(driver, SupportsQueues):
            message = "This process has no credential for the cluster."
            raise Unreachable(message)
        if row.desired == Desired.ABSENT:
            return self._remove(driver)
        cluster = Cluster.objects.get(key=row.cluster_key)
        tree = kueue.tree_on(cluster)
        projects = sorted(part.key for part in tree.parts if part.namespace)
        try:
            written = driver.ensure_queues(tree)
        except (Denied, InvalidSpec) as error:
            # Nothing new may begin: it would start past the queues, or never.
            return Outcome(Phase.PENDING, Reason.NO_QUEUE, str(error), requeue_s=AGAIN_S)
        mark = hashlib.sha256(repr(tree).encode()).hexdigest()[:32]
        was = row.external_ref
        opens = row.phase != Phase.RUNNING or set(projects) - set(was.get("projects", ()))
        by_hand = written and row.phase == Phase.RUNNING and was.get("tree") == mark
        return Outcome(
            Phase.RUNNING,
            external_ref={"tree": mark, "projects": projects},
            requeue_s=LOOK_S,
            timeline=((RESTORED, ", ".join(written)),) if by_hand else (),
            beside=(lambda: wake_waiting(row.cluster_key)) if opens else None,
        )

    def _remove(self, driver: SupportsQueues) -> Outcome:
        try:
            driver.remove_queues()
        except NotYet as wait:
            return Outcome(Phase.DELETING, message=str(wait), requeue_s=wait.retry_in)
        return Outcome(Phase.DELETED, gone=True)

    def topics(self, row: ClusterQueues) -> list[str]:
        del row
        return ["operators"]


def wake_waiting(cluster_key: str) -> None:
    """Let work go on that was not made because its project had no queue."""
    for kind in reconcilers.registered():
        rows = reconcilers.rows_of(kind).filter(
            cluster_key=cluster_key, reason=Reason.NO_QUEUE, deleted_at__isnull=True
        )
        if kind != ClusterQueues.KIND:
            hint_uids(kind, list(rows.values_list("uid", flat=True)))


def note_restored(transition: Transition) -> None:
    """Listener: what was put back is told, in the transaction that says so."""
    row = transition.row
    if not isinstance(row, ClusterQueues):
        return
    for word, names in transition.outcome.timeline:
        cluster = Cluster.objects.filter(key=row.cluster_key).first()
        if word == RESTORED and cluster is not None:
            record(
                actor=None,
                verb="queues.restored",
                target=cluster,
                target_name=cluster.name,
                message=names,
                data={"objects": names.split(", ")[:MOST_NAMED]},
            )
