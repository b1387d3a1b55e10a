"""Who holds GPUs and does not use them: the list that people made by hand.

A holder is on it when its GPUs' mean stayed below a threshold in each hour for so many hours, up
to now. What nobody measured is not on it: it is counted apart. Constant queries, however many hold
GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django.db.models import (
    Case,
    Count,
    DateTimeField,
    F,
    Max,
    Min,
    OuterRef,
    Q,
    Subquery,
    Sum,
    When,
)
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from clusters.models import Flavor
from common.clock import now
from hubapi.selectors import idle_states, uses
from metrics.models import HourSample, MinuteSample
from metrics.selectors import latest
from parking import words
from parking.judgement import GAP
from parking.models import Stretch
from parking.selectors import address_of, notice_in
from runtime.protocol import Desired, Phase
from usage.models import Interval
from work import kinds
from work.models import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from projects.access import Permission
    from projects.models import Project

LEAST_HOURS, MOST_HOURS = 0.1, 24.0 * 30
_FINE_HOURS = 2.0  # below that minutes are asked: hours tell nothing of what began in this one
_HOUR, _MINUTE = timedelta(hours=1), timedelta(minutes=1)
_LATE = timedelta(seconds=90)  # so long a minute's last samples take


@dataclass(frozen=True)
class Filter:
    """Under ``below`` percent for ``hours`` hours; the rest narrows the list."""

    below: float = 10.0
    hours: float = 2.0
    kind: str = ""
    flavor: str = ""
    q: str = ""


@dataclass(frozen=True)
class Holder:
    """``lost`` None: its kind of GPU has no price. ``used_at``: the last sign of life."""

    row: Any
    gpus: int
    flavor: str
    since: datetime
    gpu_hours: float
    lost: Decimal | None
    utilisation: float | None  # now
    mean: float | None  # since then
    used_at: datetime | None
    signals: str
    stretch: Stretch | None

    @property
    def url(self) -> str:
        return address_of(self.row)

    @property
    def follows(self) -> str:
        """Return what a policy is about to do, in words."""
        notice = notice_in(self.stretch)
        if notice is not None and notice.at is not None:
            return words.follows_words(notice.act, notice.at)
        if self.stretch is not None and self.stretch.done_at is not None:
            return _("A policy in dry run would have it by now.")
        return ""


@dataclass(frozen=True)
class Patrol:
    """``held``: GPUs that are held; ``unmeasured`` of them, nobody knows whether they are used."""

    filter: Filter
    holders: list[Holder]
    held: int
    unmeasured: int

    @property
    def gpus(self) -> int:
        return sum(one.gpus for one in self.holders)

    @property
    def gpu_hours(self) -> float:
        return sum(one.gpu_hours for one in self.holders)

    @property
    def lost(self) -> Decimal | None:
        known = [one.lost for one in self.holders if one.lost is not None]
        return sum(known, Decimal()) if known else None


def patrol(
    wanted: Filter,
    project: Project | None = None,
    may: Callable[[Permission], bool] = lambda _permission: True,
) -> Patrol:
    """Return who holds GPUs and does not use them, the most lost first.

    ``may`` says which kinds of work are told of, by their right to be read.
    """
    at = now()
    held, found = _holding(wanted, project, may)
    begun = {uid: max(filter(None, (held[uid].began, row.ready_at))) for uid, row in found.items()}
    quiet = _quiet(begun, wanted.below, at)
    if wanted.hours < _FINE_HOURS:
        quiet |= _quiet_lately(begun, quiet, wanted, at)
    idle = {uid: one for uid, one in quiet.items() if at - one.since >= wanted.hours * _HOUR}
    known, use, readings = idle_states(list(idle)), uses(list(idle)), latest(list(idle))
    prices = dict(Flavor.objects.values_list("name", "price_per_hour"))
    before = _before({uid: held[uid] for uid in idle if held[uid].part}, idle)

    def holder(uid: UUID, since: datetime, mean: float | None) -> Holder:
        interval, price = held[uid], prices.get(held[uid].flavor)
        hours = (at - max(since, interval.started_at)) / _HOUR * interval.gpus
        hours += before.get(uid, 0.0)
        return Holder(
            row=found[uid],
            gpus=interval.gpus,
            flavor=interval.flavor,
            since=since,
            gpu_hours=hours,
            lost=None if price is None else (Decimal(hours) * price).quantize(Decimal("0.01")),
            utilisation=readings[uid].gpu_utilisation if uid in readings else None,
            mean=mean,
            used_at=use[uid].used_at,
            signals=known[uid].words if known[uid].known else "",
            stretch=getattr(found[uid], "idle", None),
        )

    holders = [holder(uid, *one) for uid, one in idle.items()]
    return Patrol(
        wanted,
        sorted(holders, key=lambda one: -one.gpu_hours),
        held=sum(held[uid].gpus for uid in found),
        unmeasured=sum(held[uid].gpus for uid in found if uid not in quiet),
    )


def _holding(
    wanted: Filter, project: Project | None, may: Callable[[Permission], bool]
) -> tuple[dict[UUID, Any], dict[UUID, Any]]:
    """Return what holds GPUs now: the interval of each, and the rows of those asked for."""
    open_now = Interval.objects.filter(ended_at=None, gpus__gt=0)
    if project is not None:
        open_now = open_now.filter(project_uid=project.uid)
    first = Interval.objects.filter(uid=OuterRef("uid"), launch=OuterRef("launch"), part=0)
    began = Case(When(part__gt=0, then=Subquery(first.values("started_at")[:1])))
    open_now = open_now.annotate(began=Coalesce(began, F("started_at")))  # whatever size it had
    held = {one.uid: one for one in open_now.order_by("launch")}
    rows = Workload.objects.filter(
        uid__in=list(held),
        phase=Phase.RUNNING,
        desired=Desired.RUNNING,
        deleted_at__isnull=True,
        kind__in=[kind.word for kind in kinds.kinds() if may(kind.read)],
    ).select_related("project", "owner", "idle__policy")
    if wanted.kind:
        rows = rows.filter(kind=wanted.kind)
    if wanted.q:
        rows = rows.filter(
            Q(name__icontains=wanted.q)
            | Q(owner__username__icontains=wanted.q)
            | Q(project__slug__icontains=wanted.q)
        )
    found = {row.uid: row for row in rows}
    if wanted.flavor:
        found = {uid: row for uid, row in found.items() if held[uid].flavor == wanted.flavor}
    return held, found


class _Quiet(NamedTuple):
    """Below a threshold in each hour from ``since`` on, without a gap; ``mean`` of those hours."""

    since: datetime
    mean: float | None


def _before(held: Mapping[UUID, Interval], idle: Mapping[UUID, _Quiet]) -> dict[UUID, float]:
    """Return the idle GPU-hours of the sizes that a launch had before. At most one query."""
    if not held:
        return {}
    earlier = Interval.objects.filter(
        uid__in=list(held), ended_at__gt=min(idle[uid].since for uid in held)
    )
    found = dict.fromkeys(held, 0.0)
    columns = ("uid", "launch", "gpus", "started_at", "ended_at")
    for uid, launch, gpus, start, end in earlier.values_list(*columns):
        if launch == held[uid].launch and end is not None:
            found[uid] += max(0.0, (end - max(start, idle[uid].since)) / _HOUR) * gpus
    return found


def _quiet(begun: Mapping[UUID, datetime], below: float, at: datetime) -> dict[UUID, _Quiet]:
    """Return since when each hour's mean is below; who was never measured is absent. Two queries.

    ``begun``: since when each holds its GPUs; what was before is not theirs now.
    """
    first = at - timedelta(hours=MOST_HOURS)
    hours = HourSample.objects.filter(
        uid__in=list(begun), device="", at__gte=first, gpu_utilisation_count__gt=0
    )
    busy = Case(
        When(gpu_utilisation_sum__gte=F("gpu_utilisation_count") * below, then=F("at")),
        output_field=DateTimeField(),
    )
    rows = (
        hours.order_by()
        .values_list("uid")
        .annotate(first=Min("at"), last=Max("at"), busy=Max(busy))
    )
    since: dict[UUID, datetime] = {}
    for uid, first, last, used in rows:
        if at - last <= 2 * _HOUR:  # else nobody knows whether it is idle now
            since[uid] = max(begun[uid], used + _HOUR if used is not None else first)
    if not since:
        return {}
    known = dict(since)  # up to when each hour was measured
    count, total = dict.fromkeys(since, 0), dict.fromkeys(since, 0.0)
    quiet = hours.filter(uid__in=list(since), at__gt=min(since.values()) - _HOUR)
    columns = ("uid", "at", "gpu_utilisation_count", "gpu_utilisation_sum")
    for uid, hour, number, percent in quiet.order_by("at").values_list(*columns).iterator():
        if hour <= since[uid] - _HOUR:
            continue
        if hour > known[uid]:  # what was before, nobody knows
            since[uid], count[uid], total[uid] = hour, 0, 0.0
        known[uid] = max(known[uid], hour + _HOUR)
        count[uid] += number
        total[uid] += percent
    return {
        uid: _Quiet(begin, total[uid] / count[uid] if count[uid] else None)
        for uid, begin in since.items()
    }


def _quiet_lately(
    begun: Mapping[UUID, datetime], known: Mapping[UUID, _Quiet], wanted: Filter, at: datetime
) -> dict[UUID, _Quiet]:
    """Return who was below in each minute of so short a time; one query.

    What hours say of a longer time stays as they say it. A minute may be missing here and there.
    """
    until = at - _LATE
    first = until - wanted.hours * _HOUR
    whole = [uid for uid, since in begun.items() if since <= first]
    minutes = MinuteSample.objects.filter(
        uid__in=whole, device="", at__gte=first, at__lt=until, gpu_utilisation_count__gt=0
    )
    high = Q(gpu_utilisation_sum__gte=F("gpu_utilisation_count") * wanted.below)
    rows = (
        minutes.order_by()
        .values_list("uid")
        .annotate(
            number=Count("pk"),
            busy=Count("pk", filter=high),
            percent=Sum("gpu_utilisation_sum") / Sum("gpu_utilisation_count"),
        )
    )
    enough = max(1, int(wanted.hours * 60) - int(GAP / _MINUTE))
    found: dict[UUID, _Quiet] = {}
    for uid, number, busy, percent in rows:
        longer = known.get(uid)
        if number >= enough and not busy and (longer is None or longer.since > first):
            found[uid] = _Quiet(first, percent)
    return found
