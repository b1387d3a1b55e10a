"""The clock: warns before a time limit, stops at it, and stops what is idle by its rule."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Q

from common.clock import now
from hubapi.selectors import idle_states
from notebooks.models import Workspace
from notebooks.notices import tell_stops_soon
from runtime.protocol import Desired, Phase
from work.choices import StopReason
from work.models import Workload
from work.services.base import locked
from work.services.ending import request_stop

if TYPE_CHECKING:
    from datetime import datetime

WARN_BEFORE = timedelta(minutes=15)
IDLE_GRACE = timedelta(minutes=5)
BATCH = 200


def limits_enforce() -> int:
    """Do what is due; return how many workspaces were warned or stopped.

    One indexed question when nothing is due. Running it twice at once is harmless: each row is
    looked at again under its lock.
    """
    moment = now()
    due = Workspace.objects.filter(
        Q(ends_at__lte=moment) | Q(ends_at__lte=moment + WARN_BEFORE, warned_at__isnull=True),
        desired=Desired.RUNNING,
        deleted_at__isnull=True,
    )
    pks = list(due.order_by("ends_at").values_list("pk", flat=True)[:BATCH])
    return sum(_enforce(pk, moment) for pk in pks) + _idle_enforce(moment)


def _idle_enforce(moment: datetime) -> int:
    """Stop what is idle by the rule of its preset, at the moment that was said. Unknown is never
    idle: kernels, processor and GPUs must all be known to be quiet.
    """
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
        tell_stops_soon(row, minutes=max(1, round((stop_at - moment).total_seconds() / 60)))
        return True
    if max(due, row.idle_stop_at) <= moment:
        return request_stop(row, reason=StopReason.IDLE, actor=None)
    return False


@transaction.atomic
def _enforce(pk: int, moment: datetime) -> bool:
    row = locked(Workspace(pk=pk, kind=Workspace.KIND))
    if row.desired != Desired.RUNNING or row.ends_at is None:
        return False
    if row.ends_at <= moment:
        return request_stop(row, reason=StopReason.TIME_LIMIT, actor=None)
    if row.warned_at is None and row.ends_at - moment <= WARN_BEFORE:
        Workload.objects.filter(pk=pk).update(warned_at=moment)
        tell_stops_soon(row, minutes=max(1, round((row.ends_at - moment).total_seconds() / 60)))
        return True
    return False
