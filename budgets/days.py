"""What launches held that are over, by day: a decision reads days, not ten thousand launches.

Every launch is either in the days of ``UsedDay``, or read itself: it goes on, ended or was made
in the last hours, or may go on in another launch (``Uncounted``, and all after ``Roll.counted``).
One statement reads both, so that none is seen twice or not at all while days are being written.
A day that a window cuts is read by its launches, too: sums are exact to the microsecond.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import transaction
from django.db.models import (
    BigIntegerField,
    Case,
    CharField,
    DateTimeField,
    Exists,
    F,
    IntegerField,
    Max,
    Min,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Cast, Coalesce, Round

from budgets.choices import MAX_DAYS
from budgets.models import Roll, Uncounted, UsedDay
from budgets.policies import Use, micros
from clusters.models import Flavor
from common.clock import now
from quotas.choices import GPUS
from quotas.models import Reservation
from usage.models import RESIZED, Interval

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

DAY = timedelta(days=1)
NOBODY = UUID(int=0)  # the owner of a sum over all whom no budget names
# So long after a launch was written all that were begun to be written before it are there to be
# seen; and so long after it ended clocks of other machines are past that.
WRITTEN = timedelta(hours=1)
CHUNK = 2000


def day_of(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


# --- reading --------------------------------------------------------------------------------------


def uses(
    projects: Collection[UUID], since: Iterable[datetime], people: Collection[UUID] = ()
) -> Mapping[UUID, list[tuple[UUID, Use]]]:
    """Return what held GPUs since then, by project, each with its owner; one query.

    ``since``: where windows begin; the days in which they do are read by their launches.
    ``people``: whose own hours are asked for; all others' days are summed.
    """
    begins = list(since)
    cut = {day_of(at) for at in begins}
    owner = Case(
        When(owner_uid__in=list(people), then=Cast("owner_uid", CharField())), default=Value("")
    )
    days = UsedDay.objects.filter(project_uid__in=projects, day__gt=min(cut)).exclude(day__in=cut)
    sums = _columns(
        days.order_by()
        .annotate(owner_=owner, weight_=_weight())
        .values("project_uid", "day", "owner_", "weight_"),
        uid_=Value("", output_field=CharField()),
        launch_=Value(0, output_field=IntegerField()),
        amount_=Sum("amount", output_field=BigIntegerField()),
        start_=F("day"),
        end_=Max("until"),
        before_=Value(None, output_field=DateTimeField()),
        day_=F("day"),
    )
    held = Interval.objects.filter(project_uid__in=projects, gpus__gt=0).order_by()
    live = Q(ended_at__isnull=True) | Q(ended_at__gt=min(begins))
    apart = Uncounted.objects.filter(project_uid__in=projects).values("interval")
    arms = [
        _launches(held.filter(live, pk__gt=_upto())),
        _launches(held.filter(live, pk__in=apart)),
    ]
    arms += [_launches(_counted_on(held, day, projects), day) for day in cut]
    found: dict[UUID, list[tuple[UUID, Use]]] = defaultdict(list)
    known: dict[str, UUID] = {"": NOBODY}
    for *whose, uid, launch, weight, amount, start, end, before, day in sums.union(*arms, all=True):
        for text in whose:
            if text not in known:
                known[text] = UUID(text)
        heavy = 1000 if weight is None else weight
        if not uid:
            pieces = _summed(micros(start), micros(end), amount * heavy)
        else:
            began, ended = micros(start), None if end is None else micros(end)
            if before is not None:  # a clock was set back: what was counted stays counted
                began = max(began, micros(before))
            key = uid.replace("-", "")
            if day is not None:
                first = micros(day)
                began, ended, key = max(began, first), min(ended or 0, first + _MICROS), ""
            pieces = [Use(key, launch, began, ended, amount * heavy)]
        mine = found[known[whose[0]]]
        mine += [(known[whose[1]], one) for one in pieces if one.end is None or one.end > one.start]
    return found


_MICROS = DAY // timedelta(microseconds=1)
_COLUMNS = ("project_", "owner_", "uid_", "launch_", "weight_", "amount_", "start_", "end_")


def _summed(day: int, until: int, total: int) -> list[Use]:
    """Return a day's sum as if it had been held evenly; what is left over in its first moment."""
    even, left = divmod(total, until - day)
    return [Use("", 0, day, until, even), Use("", 0, day, day + 1, left)]


def _weight() -> Subquery:
    """Return the thousandths that a kind weighs: read as such, a third of the time of Decimals."""
    rows = Flavor.objects.filter(name=OuterRef("flavor"))
    return Subquery(rows.values(found=Cast(Round(F("weight") * 1000), IntegerField())))


def _columns(rows: QuerySet[Any], **columns: Any) -> QuerySet[Any]:
    named = rows.annotate(project_=Cast("project_uid", CharField()), **columns)
    return named.values_list(*_COLUMNS, "before_", "day_")


def _launches(rows: QuerySet[Interval], day: datetime | None = None) -> QuerySet[Any]:
    earlier = Interval.objects.filter(
        uid=OuterRef("uid"), launch__lt=OuterRef("launch"), ended_at__isnull=False
    ).exclude(end_reason=RESIZED)
    latest = earlier.order_by("-ended_at").values("ended_at")[:1]
    return _columns(
        rows,
        owner_=Cast("owner_uid", CharField()),
        weight_=_weight(),
        uid_=Cast("uid", CharField()),
        launch_=F("launch"),
        amount_=Cast("gpus", BigIntegerField()),
        start_=F("started_at"),
        end_=F("ended_at"),
        before_=Case(When(launch__gt=1, then=Subquery(latest)), default=None),
        day_=Value(day, output_field=DateTimeField()),
    )


def _upto() -> Coalesce:
    return Coalesce(Subquery(Roll.objects.order_by("pk").values("counted")[:1]), 0)


def _counted_on(
    rows: QuerySet[Interval], day: datetime, projects: Collection[UUID]
) -> QuerySet[Interval]:
    """Return what is counted on a day. The day knows when the first of it began: all that a
    project ever had need not be looked through.
    """
    known = UsedDay.objects.filter(project_uid__in=projects, day=day).order_by()
    first = known.values("day").annotate(first=Min("begun")).values("first")
    left = Uncounted.objects.filter(interval=OuterRef("pk"))
    there = Q(started_at__gte=Subquery(first), started_at__lt=day + DAY, ended_at__gt=day)
    return rows.filter(there, ~Exists(left), pk__lte=_upto())


def on_day(projects: Collection[UUID], owner: UUID | None, day: int) -> list[Use]:
    """Return what was counted of a day (as ``Use.start`` of its sum tells it), by its launches."""
    begin = datetime.fromtimestamp(day // 1_000_000, tz=UTC)
    rows = Interval.objects.filter(project_uid__in=projects, gpus__gt=0).order_by()
    if owner is not None:
        rows = rows.filter(owner_uid=owner)
    found = []
    for *_whose, launch, weight, amount, start, end, before, _day in _launches(
        _counted_on(rows, begin, projects), begin
    ):
        began = max(day, micros(start), micros(before) if before else 0)
        until = min(micros(end), day + _MICROS)
        if until > began:
            heavy = 1000 if weight is None else weight
            found.append(Use("", launch, began, until, amount * heavy))
    return found


# --- writing --------------------------------------------------------------------------------------


_Key = tuple[UUID, UUID, str, datetime]  # project, owner, kind, day


@dataclass
class _Pass:
    """One step of it: which launches are counted now, and what days they add to."""

    at: datetime
    upto: int
    left: set[int]  # keys of intervals that are read themselves
    counted: list[int] = field(default_factory=list)
    days: dict[_Key, tuple[int, datetime, datetime]] = field(
        default_factory=dict
    )  # as of ``UsedDay``

    def take(self, rows: Iterable[Interval]) -> None:
        """A launch is not counted before those before it: what is counted is never changed."""
        todo = sorted(rows, key=lambda row: (row.uid, row.launch))
        uids = {row.uid for row in todo}
        live = set(
            Reservation.objects.filter(workload_uid__in=uids, resource__startswith=GPUS)
            .order_by()
            .values_list("workload_uid", flat=True)
        )
        before: dict[UUID, list[tuple[int, int, datetime | None]]] = defaultdict(list)
        again = {row.uid for row in todo if row.launch > 1}
        # of a launch only its last size: it was written and ended after the others
        ends = Interval.objects.filter(uid__in=again).exclude(end_reason=RESIZED)
        told = ends.order_by("-launch").values_list("uid", "launch", "pk", "ended_at")
        for uid, launch, pk, ended in told:
            before[uid].append((launch, pk, ended))
        waits: set[UUID] = set()
        until: dict[UUID, datetime] = {}
        for row in todo:
            earlier = before[row.uid]
            while earlier and earlier[-1][0] < row.launch:
                _launch, pk, ended = earlier.pop()
                if pk > self.upto or pk in self.left:
                    waits.add(row.uid)
                if ended is not None:
                    until[row.uid] = max(ended, until.get(row.uid, ended))
            end = row.ended_at
            # a size that it has no more is over, though its launch goes on
            holds = row.uid in live and row.end_reason != RESIZED
            if row.uid in waits or holds or end is None or end >= self.at - WRITTEN:
                self.left.add(row.pk)
                continue
            self.left.discard(row.pk)
            self.counted.append(row.pk)
            self._add(row, max(row.started_at, until.get(row.uid, row.started_at)), end)

    def _add(self, row: Interval, start: datetime, end: datetime) -> None:
        while start < end:
            day = day_of(start)
            until = min(end, day + DAY)
            amount = row.gpus * ((until - start) // timedelta(microseconds=1))
            key = (row.project_uid, row.owner_uid, row.flavor, day)
            there, begun, last = self.days.get(key, (0, row.started_at, until))
            self.days[key] = (there + amount, min(begun, row.started_at), max(last, until))
            start = until

    def save(self, fresh: Mapping[int, UUID]) -> None:
        """Write it. ``fresh``: the projects of launches that were neither counted nor left."""
        found = UsedDay.objects.filter(
            project_uid__in={key[0] for key in self.days}, day__in={key[3] for key in self.days}
        )
        known = {(row.project_uid, row.owner_uid, row.flavor, row.day): row for row in found}
        made = []
        for key, (amount, begun, until) in self.days.items():
            if (row := known.get(key)) is not None:
                row.amount += amount
                row.begun, row.until = min(row.begun, begun), max(row.until, until)
                continue
            whose = dict(zip(("project_uid", "owner_uid", "flavor", "day"), key, strict=True))
            made.append(UsedDay(**whose, amount=amount, begun=begun, until=until))
        changed = [row for key, row in known.items() if key in self.days]
        UsedDay.objects.bulk_create(made)
        UsedDay.objects.bulk_update(changed, ["amount", "begun", "until"], batch_size=500)
        Uncounted.objects.filter(interval__in=self.counted).delete()
        rest = [(pk, uid) for pk, uid in fresh.items() if pk in self.left]
        Uncounted.objects.bulk_create(Uncounted(interval=pk, project_uid=uid) for pk, uid in rest)


def roll() -> int:
    """Count what is over by now; return how many launches were. Repeated it counts none twice."""
    return sum(_steps())


def _steps() -> Iterator[int]:
    Roll.objects.get_or_create(pk=1, defaults={"latest_at": now()})
    more = True
    while more:
        with transaction.atomic():
            more, counted = _step(Roll.objects.select_for_update().get(pk=1))
        yield counted


def _step(state: Roll) -> tuple[bool, int]:
    at = now()
    if not timedelta(0) <= at - state.latest_at < WRITTEN:
        state.safe = state.latest
        state.latest = Interval.objects.aggregate(most=Max("pk"))["most"] or 0
        state.latest_at = at
    fresh = list(
        Interval.objects.filter(pk__gt=state.counted, pk__lte=state.safe).order_by("pk")[:CHUNK]
    )
    state.counted = fresh[-1].pk if len(fresh) == CHUNK else max(state.counted, state.safe)
    state.save()
    left = dict(Uncounted.objects.values_list("interval", "project_uid"))
    over = Interval.objects.filter(
        pk__in=Uncounted.objects.values("interval"), ended_at__lt=at - WRITTEN
    )
    held = [row for row in fresh if row.gpus]
    made = _Pass(at, state.counted, set(left))
    made.take([*held, *over])
    made.save({row.pk: row.project_uid for row in held})
    UsedDay.objects.filter(day__lt=at - (MAX_DAYS + 2) * DAY).delete()
    return len(fresh) == CHUNK, len(made.counted)
