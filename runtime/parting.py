"""Rows that end without their driver: what they stand for stays on a cluster that is let go of."""

from __future__ import annotations

import copy
from typing import Any

from common.clock import now
from runtime import bus, reconcilers
from runtime.models import ObservedWorkload, Route
from runtime.protocol import Desired, Phase
from runtime.reconcilers import Outcome, Reconciler, Transition


def let_go(reconciler: Reconciler, row: Any, message: str) -> None:
    """End a row that the caller's transaction has locked; nothing outside is touched.

    Its keys are revoked and its ways closed as at a removal, and listeners hear of it. A worker
    that is at the row finds its lease gone and drops what it has; none may take it again.
    """
    if before_stop := getattr(reconciler, "before_stop", None):
        before_stop(row)
    Route.objects.filter(uid=row.uid).delete()  # the keeper of routes closes what is open
    ObservedWorkload.objects.filter(uid=row.uid).delete()
    if after_remove := getattr(reconciler, "after_remove", None):
        after_remove(row)
    before, at = copy.copy(row), now()
    gone: dict[str, Any] = {
        "phase": Phase.DELETED,
        "desired": Desired.ABSENT,
        "reason": "",
        "message": message,
    }
    gone |= {"phase_since": at, "updated_at": at, "deleted_at": at, "next_reconcile_at": None}
    gone |= {"lease_token": None, "lease_until": None}
    reconcilers.rows_of(row.KIND).filter(pk=row.pk).update(**gone)
    for name, value in gone.items():
        setattr(row, name, value)
    outcome = Outcome(Phase.DELETED, message=message, gone=True)
    told = Transition(
        row, Phase(before.phase), Phase.DELETED, before.reason, outcome, gone=True, seen=before
    )
    for listener in reconcilers.listeners():
        listener(told)
    bus.publish(reconcilers.topics_of(reconciler, row), {"kind": row.KIND, "uid": str(row.uid)})
