"""The clock: warns before a time limit and stops at it, and stops what runs for somebody who may
not have anything there any more.

What runs to its end is ended by the engine, which looks at each row in time.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.clock import now
from hubapi.notices import Act, Notice
from notifications.services import notify_owner
from projects.access import roles_with
from projects.models import Membership
from runtime.protocol import Desired
from work import kinds
from work.choices import StopReason
from work.models import Workload
from work.services.base import locked
from work.services.ending import OVER, request_stop, workloads_stop_for
from work.services.time_limit import (
    DEFAULT_EXTENSION,
    extension_left,
    longest_words,
    workload_extend,
)

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from accounts.models import User

BATCH = 200
WARN_BEFORE = timedelta(minutes=15)
# Of what runs to its end and has less than this, nobody is warned: it is as short as was wanted.
WARNED_FROM_MINUTES = 60


def limits_enforce() -> int:
    """Do what is due; return how many were warned or stopped.

    Two indexed questions when nothing is due. Running it twice at once is harmless: each row is
    looked at again under its lock.
    """
    moment = now()
    due = Workload.objects.filter(
        Q(ends_at__lte=moment) | Q(ends_at__lte=moment + WARN_BEFORE, warned_at__isnull=True),
        kind__in=[kind.word for kind in kinds.kinds()],
        desired=Desired.RUNNING,
        deleted_at__isnull=True,
    )
    # what the engine ends is not for the clock, and must not stand in the way of others
    engine_ends = [kind.word for kind in kinds.kinds() if kind.once]
    due = due.exclude(kind__in=engine_ends, ends_at__lte=moment)
    return sum(_enforce(row, moment) for row in due.order_by("ends_at")[:BATCH]) + _stop_strangers()


@transaction.atomic
def _enforce(found: Workload, moment: datetime) -> bool:
    row, kind = locked(found), kinds.kind_of(found.kind)
    if row.desired != Desired.RUNNING or row.ends_at is None:
        return False
    if row.ends_at <= moment:
        stops = not kind.once
        return stops and request_stop(row, reason=StopReason.TIME_LIMIT, actor=None)
    if row.warned_at is not None or row.ends_at - moment > WARN_BEFORE:
        return False
    Workload.objects.filter(pk=row.pk).update(warned_at=moment)
    if kind.once and (row.time_limit_minutes or 0) < WARNED_FROM_MINUTES:
        return False
    tell_stops_soon(row, left=row.ends_at - moment)
    return True


def limit_notices(uid: UUID, reader: User) -> list[Notice]:
    """Return what a page of it tells of its time limit; its owner may move the end there."""
    found = Workload.objects.filter(
        uid=uid, ends_at__lte=now() + WARN_BEFORE, desired=Desired.RUNNING
    ).first()
    if found is None:
        return []
    kind = kinds.kind_of(found.kind)
    row = kind.model.objects.select_related("project", *kind.related).get(pk=found.pk)
    left = extension_left(row)
    minutes = DEFAULT_EXTENSION if left is None else min(DEFAULT_EXTENSION, left)
    text = _("Its time limit is near: files and address are kept.")
    acts: tuple[Act, ...] = ()
    if row.owner_id != reader.pk:
        pass
    elif minutes:
        label = ngettext("%(n)d minute more", "%(n)d minutes more", minutes) % {"n": minutes}
        do = partial(workload_extend, row=row, minutes=minutes)
        acts = (Act("extend", label, lambda who: do(principal=who)),)
    else:
        text = f"{text} {_('It cannot be extended further.')} {longest_words(row)}"
    return [Notice("time-limit", text, until=row.ends_at, saves=True, acts=acts)]


def tell_stops_soon(row: Any, *, left: timedelta) -> None:
    minutes = max(1, round(left.total_seconds() / 60))
    notify_owner(row, kinds.kind_of(row.kind).ending_notice, minutes=minutes)


def _stop_strangers() -> int:
    """Stop what runs for people who left or were disabled, or lost the right to it where their work
    ends with that (A3).

    All that they had was stopped then; but a launch that was allowed a moment before may have been
    written a moment later.
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
