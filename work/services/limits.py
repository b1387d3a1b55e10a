"""The clock: stops what runs for somebody who may not have anything there any more.

Time limits are the engine's own: it looks at each row in time.
"""

from __future__ import annotations

from typing import Any

from django.db.models import Exists, OuterRef, Q

from projects.access import roles_with
from projects.models import Membership
from runtime.protocol import Desired
from work import kinds
from work.choices import StopReason
from work.models import Workload
from work.services.ending import OVER, workloads_stop_for

BATCH = 200


def limits_enforce() -> int:
    """Stop what runs for people who left or were disabled, or lost the right to it where their work
    ends with that (A3); return how many were stopped.

    All that they had was stopped then; but a launch that was allowed a moment before may have been
    written a moment later. One indexed question when nothing is due.
    """
    member = Membership.objects.filter(project=OuterRef("project"), user=OuterRef("owner"))
    gone: Any = Q(owner__is_active=False) | ~Exists(member)
    known = {kind.word: kind for kind in kinds.kinds()}
    for kind in known.values():
        if kind.lapses:
            may = member.filter(role__in=roles_with(kind.create))
            gone |= Q(kind=kind.word) & ~Exists(may)
    rows = Workload.objects.filter(
        gone,
        kind__in=list(known),
        desired=Desired.RUNNING,
        deleted_at__isnull=True,
    ).exclude(OVER)
    done = 0
    for row in rows.select_related("owner", "project").order_by("pk")[:BATCH]:
        left = StopReason.OWNER_LEFT if row.owner.is_active else StopReason.OWNER_DISABLED
        done += workloads_stop_for(
            reason=left, project=row.project, owner=row.owner, of=[known[row.kind]]
        )
    return done
