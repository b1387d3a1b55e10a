"""Reading usage: hours within a range, exactly cut at its edges."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from uuid import UUID

from django.db.models import (
    Case,
    DurationField,
    ExpressionWrapper,
    F,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    When,
)
from django.db.models.functions import Cast
from django.utils import timezone

from common.clock import now
from usage.models import Interval

MOST_PARTS = 100
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Range:
    """A half-open span of time."""

    since: datetime
    until: datetime

    @property
    def days(self) -> int:
        return max(1, round((self.until - self.since) / timedelta(days=1)))


@dataclass
class Total:
    """What a group of intervals held, in hours."""

    label: str
    uid: UUID | None = None  # of the person or project
    name: str = ""  # for pages (usage.names)
    launches: int = 0
    hours: float = 0.0
    gpu_hours: float = 0.0
    cpu_hours: float = 0.0
    memory_gib_hours: float = 0.0
    running: int = 0

    def add(self, interval: Interval, hours: float, *, begins: bool) -> None:
        self.launches += begins
        self.hours += hours
        self.gpu_hours += hours * interval.gpus
        self.cpu_hours += hours * interval.cpu_milli / 1000
        self.memory_gib_hours += hours * interval.memory_mib / 1024
        self.running += interval.ended_at is None


@dataclass
class Part:
    """What was held in some days of a span: ``MOST_PARTS`` of them are what a chart can show."""

    begin: datetime  # midnight of the reader's zone
    gpu_hours: float = 0.0
    cpu_hours: float = 0.0


class Parts:
    """The days of a span, or as many together as leave ``MOST_PARTS``."""

    def __init__(self, span: Range) -> None:
        first = timezone.localtime(span.since).date()
        self.days = -(-((timezone.localtime(span.until).date() - first).days + 1) // MOST_PARTS)
        self.parts: list[Part] = []
        while not self.parts or self.parts[-1].begin < span.until:
            day = first + timedelta(days=self.days * len(self.parts))
            self.parts.append(Part(timezone.make_aware(datetime.combine(day, time.min))))
        self._ends = [part.begin for part in self.parts[1:]]
        self.parts.pop()  # the last one only ends the one before
        self._span = span

    def add(self, row: Interval, at: datetime) -> None:
        begin = max(row.started_at, self._span.since)
        end = min(row.ended_at or at, self._span.until)
        step = bisect_right(self._ends, begin)
        while begin < end and step < len(self.parts):
            until = min(end, self._ends[step])
            hours = (until - begin).total_seconds() / 3600
            self.parts[step].gpu_hours += hours * row.gpus
            self.parts[step].cpu_hours += hours * row.cpu_milli / 1000
            begin, step = until, step + 1


@dataclass(frozen=True)
class Report:
    """The page: totals, by person and by kind of GPU, and over time."""

    span: Range
    total: Total
    over_time: Parts
    people: list[Total] = field(default_factory=list)
    flavors: list[Total] = field(default_factory=list)


def in_range(rows: QuerySet[Interval], span: Range) -> QuerySet[Interval]:
    """Return intervals that overlap ``span``, newest first."""
    return rows.filter(started_at__lt=span.until).filter(
        Q(ended_at__isnull=True) | Q(ended_at__gt=span.since)
    )


def of_project(project_uid: UUID, span: Range) -> QuerySet[Interval]:
    return in_range(Interval.objects.filter(project_uid=project_uid), span)


def of_user(user_uid: UUID, span: Range) -> QuerySet[Interval]:
    return in_range(Interval.objects.filter(owner_uid=user_uid), span)


def everywhere(span: Range) -> QuerySet[Interval]:
    """For operators and auditors."""
    return in_range(Interval.objects.all(), span)


def hours_within(interval: Interval, span: Range, at: datetime) -> float:
    """Return the hours of ``interval`` inside ``span``; what runs counts until ``at``."""
    end = min(interval.ended_at or at, span.until, max(at, span.since))
    begin = max(interval.started_at, span.since)
    return max(0.0, (end - begin).total_seconds() / 3600)


def report(rows: Iterable[Interval], span: Range, *, by_project: bool = False) -> Report:
    """Add the intervals up; one pass, one query."""
    at = now()
    total, parts = Total(""), Parts(span)
    people: dict[UUID, Total] = {}
    flavors: dict[str, Total] = {}
    for row in rows.iterator(chunk_size=2000) if isinstance(rows, QuerySet) else rows:
        hours = hours_within(row, span, at)
        uid = row.project_uid if by_project else row.owner_uid
        word = row.project_slug if by_project else row.owner_name
        what = (row.flavor or "gpu") if row.gpus else ""
        begins = not row.part or row.started_at <= span.since  # other sizes of it are no launch
        total.add(row, hours, begins=begins)
        parts.add(row, at)
        people.setdefault(uid, Total(word, uid)).add(row, hours, begins=begins)
        flavors.setdefault(what, Total(what)).add(row, hours, begins=begins)
    return Report(
        span=span,
        total=total,
        over_time=parts,
        people=sorted(people.values(), key=lambda t: (-t.gpu_hours, -t.cpu_hours, t.label)),
        flavors=sorted(flavors.values(), key=lambda t: (-t.gpu_hours, t.label)),
    )


@dataclass(frozen=True)
class Held:
    """What is held at this moment."""

    workloads: int
    gpus: int
    gpu_hours: float  # of what runs now, since it began


def held_now(rows: QuerySet[Interval]) -> Held:
    """Add up in one query; sizes that a launch had before are summed where they lie."""
    at = now()
    length = ExpressionWrapper(F("ended_at") - F("started_at"), output_field=DurationField())
    earlier = (
        Interval.objects.filter(uid=OuterRef("uid"), launch=OuterRef("launch"), gpus__gt=0)
        .filter(part__lt=OuterRef("part"), ended_at__isnull=False)
        .order_by()
        .values("launch")
        .annotate(held=Sum(Cast("gpus", IntegerField()) * length, output_field=DurationField()))
    )
    open_now = rows.filter(ended_at__isnull=True).annotate(
        before=Case(When(part__gt=0, then=Subquery(earlier.values("held"))), default=None)
    )
    works, gpus, held = 0, 0, timedelta()
    for count, began, before in open_now.values_list("gpus", "started_at", "before"):
        works += 1
        gpus += count
        held += count * (at - began) + (before or timedelta())
    return Held(works, gpus, max(0.0, held / HOUR))
