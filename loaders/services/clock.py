"""The clock of loads: starts what is due, and stops what goes on for somebody who may not load
data there any more.
"""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q

from loaders.choices import StopReason
from loaders.models import ACTIVE, Load
from loaders.services.ending import loads_stop_for
from loaders.services.schedules import schedules_run
from projects.access import Permission, roles_with
from projects.models import Membership
from runtime.protocol import Desired

BATCH = 200


def loads_enforce() -> int:
    """Do what is due; return how many loads were started or stopped."""
    return schedules_run() + _gone_enforce()


def _gone_enforce() -> int:
    """Stop what was asked for by people who left, were disabled or lost the right (A3).

    All that they had was stopped then; but a load that was allowed a moment before may have been
    written a moment later. One indexed question when there is none. What waits for another try is
    refused when that comes.
    """
    may = Membership.objects.filter(
        project=OuterRef("project"),
        user=OuterRef("owner"),
        role__in=roles_with(Permission.LOAD_CREATE),
    )
    rows = Load.objects.filter(
        ACTIVE,
        Q(owner__is_active=False) | ~Exists(may),
        desired=Desired.RUNNING,
        result="",
    )
    done = 0
    for row in rows.select_related("project", "owner").order_by("pk")[:BATCH]:
        left = StopReason.OWNER_LEFT if row.owner.is_active else StopReason.OWNER_DISABLED
        done += loads_stop_for(reason=left, project=row.project, owner=row.owner)
    return done
