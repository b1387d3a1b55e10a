"""The clock: stops what runs for somebody who may not have anything there any more.

Time limits are the engine's own: it looks at each row in time.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from projects.models import Membership
from runtime.protocol import Desired
from work import kinds
from work.choices import StopReason
from work.models import Workload
from work.services.base import locked
from work.services.ending import OVER, request_stop

BATCH = 200


def limits_enforce() -> int:
    """Stop what runs for people who left or were disabled (A3); return how many were stopped.

    All that they had was stopped then; but a launch that was allowed a moment before may have been
    written a moment later. One indexed question when nothing is due.
    """
    member = Membership.objects.filter(project=OuterRef("project"), user=OuterRef("owner"))
    rows = Workload.objects.filter(
        Q(owner__is_active=False) | ~Exists(member),
        kind__in=[kind.word for kind in kinds.kinds()],
        desired=Desired.RUNNING,
        deleted_at__isnull=True,
    ).exclude(OVER)
    done = 0
    for row in rows.select_related("owner").order_by("pk")[:BATCH]:
        left = StopReason.OWNER_LEFT if row.owner.is_active else StopReason.OWNER_DISABLED
        with transaction.atomic():
            done += request_stop(locked(row), reason=left, actor=None)
    return done
