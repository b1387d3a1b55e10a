"""The clock: warns before a time limit, stops at it, and stops what is idle by its rule."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Q

from common.clock import now
from notebooks.choices import StopReason
from notebooks.models import Workspace
from notebooks.notices import tell_stops_soon
from notebooks.services.lifecycle import request_stop
from runtime.protocol import Desired

if TYPE_CHECKING:
    from datetime import datetime

WARN_BEFORE = timedelta(minutes=15)
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
    return sum(_enforce(pk, moment) for pk in pks)


@transaction.atomic
def _enforce(pk: int, moment: datetime) -> bool:
    row = (
        Workspace.objects.select_for_update(of=("self",))
        .select_related("project", "owner")
        .get(pk=pk)
    )
    if row.desired != Desired.RUNNING or row.ends_at is None:
        return False
    if row.ends_at <= moment:
        return request_stop(row, reason=StopReason.TIME_LIMIT, actor=None)
    if row.warned_at is None and row.ends_at - moment <= WARN_BEFORE:
        Workspace.objects.filter(pk=pk).update(warned_at=moment)
        tell_stops_soon(row, minutes=max(1, round((row.ends_at - moment).total_seconds() / 60)))
        return True
    return False
