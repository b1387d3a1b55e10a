"""What GPUs cost whom in each month: GPU-hours by project, person and kind, at today's prices."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.db.models import OuterRef, Subquery
from django.utils import timezone

from clusters.models import Flavor
from common.clock import now
from usage.names import people, projects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.models import QuerySet

    from usage.models import Interval
    from usage.selectors import Range

HEAD = ("month", "project", "owner", "gpu_kind", "gpu_hours", "price_per_hour", "cost", "currency")
_HOUR = 3_600_000_000  # microseconds


@dataclass(frozen=True)
class Line:
    """One person's work of a project with one kind of GPU in one month.

    ``price`` None: the kind is not known, or none was named; it costs nothing that is known.
    """

    month: str  # 2026-11, in the reader's zone
    project: str
    project_name: str
    owner: str
    owner_name: str
    flavor: str
    flavor_name: str
    gpu_hours: Decimal
    price: Decimal | None

    @property
    def cost(self) -> Decimal:
        return (self.gpu_hours * (self.price or 0)).quantize(Decimal("0.01"))


def lines(rows: QuerySet[Interval], span: Range) -> list[Line]:
    """Return the lines of a span, by month, project, person and kind; three queries.

    Work that began in one month and ended in the next is cut at midnight.
    """
    at = now()
    sums: dict[tuple[str, UUID, UUID, str], int] = defaultdict(int)
    words: dict[UUID, str] = {}
    kinds: dict[str, tuple[str, Decimal | None]] = {}
    kind = Flavor.objects.filter(name=OuterRef("flavor"))
    held = (
        rows.filter(gpus__gt=0)
        .order_by("pk")
        .annotate(
            label=Subquery(kind.values("label")), price=Subquery(kind.values("price_per_hour"))
        )
    )
    columns = ("project_uid", "project_slug", "owner_uid", "owner_name", "flavor", "gpus")
    times = ("started_at", "ended_at", "label", "price")
    for project, slug, owner, username, flavor, gpus, start, end, *of_kind in held.values_list(
        *columns, *times
    ).iterator(chunk_size=2000):
        words[project], words[owner] = slug, username
        kinds[flavor] = (of_kind[0] or flavor, of_kind[1])
        for month, micros in _months(max(start, span.since), min(end or at, at, span.until)):
            sums[month, project, owner, flavor] += micros * gpus
    named = people({key[2] for key in sums}) | projects({key[1] for key in sums})
    found = []
    for (month, project, owner, flavor), units in sums.items():
        label, price = kinds[flavor]
        slug, username = words[project], words[owner]
        names = (slug, named.get(project, slug), username, named.get(owner, username))
        hours = Decimal(units) / _HOUR
        found.append(Line(month, *names, flavor, label, hours, price))
    return sorted(found, key=lambda one: (one.month, one.project, one.owner, one.flavor))


def _months(begin: datetime, until: datetime) -> Iterator[tuple[str, int]]:
    """Yield the months of a time with its microseconds in each."""
    while begin < until:
        local = timezone.localtime(begin)
        year, month = divmod(local.year * 12 + local.month, 12)
        first = local.date().replace(year=year, month=month + 1, day=1)
        ends = min(until, timezone.make_aware(datetime.combine(first, time.min)))
        yield f"{local:%Y-%m}", round((ends - begin).total_seconds() * 1_000_000)
        begin = ends


def total(found: list[Line]) -> tuple[Decimal, Decimal]:
    """Return all hours, and what they cost."""
    hours = sum((one.gpu_hours for one in found), Decimal(0))
    return hours, sum((one.cost for one in found), Decimal(0))


def csv_rows(found: list[Line]) -> Iterator[tuple[Any, ...]]:
    for one in found:
        price = "" if one.price is None else one.price
        hours = round(one.gpu_hours, 4)
        told = (one.month, one.project, one.owner, one.flavor, hours, price, one.cost)
        yield (*told, settings.BERTH_CURRENCY)
