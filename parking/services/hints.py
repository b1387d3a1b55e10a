"""Saying once of a workspace that its program would run as well as a job.

The rule is simple: of the last day at least six hours were measured, in two of them or more its
GPUs computed, and at least half of all hours they did nothing at all. So something runs in bursts
and holds the GPUs in between.
"""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.db.models import Count, F, Q

from common.clock import now
from metrics.models import HourSample
from metrics.sampling import GPU_BUSY
from notifications.services import notify
from parking.models import JobHint
from parking.selectors import address_of
from runtime.protocol import Desired, Phase
from work import kinds
from work.models import Workload

_SPAN = timedelta(hours=24)
_MEASURED, _BURSTS = 6, 2  # hours, at least
_COMPUTES = 50.0  # percent
_AT_ONCE = 200


def hints_tell() -> int:
    """Tell owners of those to whom it applies and who were never told; return how many."""
    at = now()
    rows = Workload.objects.filter(
        desired=Desired.RUNNING,
        phase=Phase.RUNNING,
        deleted_at__isnull=True,
        gpus__gt=0,
        job_hint=None,
        kind__in=[kind.word for kind in kinds.kinds() if not kind.once],
        ready_at__lte=at - timedelta(hours=_MEASURED),
    )
    of_day = HourSample.objects.filter(
        uid__in=rows.values("uid"), device="", at__gte=at - _SPAN, gpu_utilisation_count__gt=0
    )
    found = (
        of_day.order_by()
        .values("uid")
        .annotate(
            measured=Count("pk"),
            bursts=Count("pk", filter=Q(gpu_utilisation_max__gte=_COMPUTES)),
            rests=Count("pk", filter=Q(gpu_utilisation_max__lt=GPU_BUSY)),
        )
        .filter(measured__gte=_MEASURED, bursts__gte=_BURSTS, measured__lte=2 * F("rests"))
    )
    uids = list(found.values_list("uid", flat=True)[:_AT_ONCE])
    return sum(_tell(row) for row in rows.filter(uid__in=uids).select_related("owner", "project"))


@transaction.atomic
def _tell(row: Workload) -> bool:
    _hint, is_new = JobHint.objects.get_or_create(workload=row, defaults={"at": now()})
    if is_new:
        params = {"name": row.name}
        notify(users=[row.owner], kind="work.as-job", params=params, url=address_of(row))
    return is_new
