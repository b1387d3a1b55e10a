"""The clock: stops what is idle by its rule, and says so before."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction

from common.clock import now
from hubapi.selectors import idle_states
from notebooks.models import Workspace
from runtime.protocol import Desired, Phase
from work.choices import StopReason
from work.services.base import locked
from work.services.ending import request_stop
from work.services.limits import WARN_BEFORE, tell_stops_soon

if TYPE_CHECKING:
    from datetime import datetime

IDLE_GRACE = timedelta(minutes=5)


def idle_enforce() -> int:
    """Stop what is idle by the rule of its preset, at the moment that was said. Unknown is never
    idle: kernels, processor and GPUs must all be known to be quiet.
    """
    moment = now()
    rows = list(
        Workspace.objects.filter(
            desired=Desired.RUNNING,
            phase=Phase.RUNNING,
            deleted_at__isnull=True,
            idle_stop_minutes__isnull=False,
        ).values("pk", "uid", "idle_stop_minutes", "ready_at", "idle_stop_at")
    )
    if not rows:
        return 0
    states = idle_states([row["uid"] for row in rows])
    done = 0
    for row in rows:
        state, ready = states[row["uid"]], row["ready_at"]
        due = None
        rule = timedelta(minutes=row["idle_stop_minutes"] or 0)
        if state.known and state.since is not None and ready is not None:
            due = max(state.since, ready) + rule
        if due is not None and due - moment > min(WARN_BEFORE, rule / 2):
            due = None  # it is early to speak of that
        if due is not None or row["idle_stop_at"] is not None:
            done += _idle_one(row["pk"], due, moment)
    return done


@transaction.atomic
def _idle_one(pk: int, due: datetime | None, moment: datetime) -> bool:
    """Say when it will be stopped, and do it then; nobody is stopped unwarned."""
    row = locked(Workspace(pk=pk, kind=Workspace.KIND))
    if due is None:
        Workspace.objects.filter(pk=pk).update(idle_stop_at=None)
        return False
    if row.idle_stop_at is None:
        stop_at = max(due, moment + IDLE_GRACE)
        Workspace.objects.filter(pk=pk).update(idle_stop_at=stop_at)
        tell_stops_soon(row, left=stop_at - moment)
        return True
    if max(due, row.idle_stop_at) <= moment:
        return request_stop(row, reason=StopReason.IDLE, actor=None)
    return False
