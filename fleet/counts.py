"""The fleet in numbers: requested, attached, used, what is free in one piece, what waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db.models import Count, Q, QuerySet, Sum
from django.utils.translation import gettext as _

from clusters.demand import rows_with_gpus, with_replicas
from clusters.options import HOST, RACK, UNIT
from fleet.selectors import DOWN, UP
from projects.access import projects_visible_to
from runtime.protocol import Desired, Phase
from work.why import info_of

if TYPE_CHECKING:
    from accounts.principal import Principal
    from fleet.selectors import Filters, Fleet, Place


@dataclass(frozen=True)
class Cause:
    """Why work waits, and how much of it."""

    text: str
    workloads: int
    gpus: int


@dataclass(frozen=True)
class Counts:
    """The fleet in numbers. ``utilised``: the mean of held devices that are known, in percent."""

    supply: int = 0
    attached: int = 0
    foreign: int = 0
    free: int = 0
    out: int = 0  # on nodes from which nothing is given out, or unhealthy
    unhealthy: int = 0
    unknown: int = 0  # held, and nobody tells what they do
    utilised: float | None = None
    largest: Mapping[str, int] = field(default_factory=dict)  # level → most free in one such part
    causes: tuple[Cause, ...] = ()

    @property
    def waiting(self) -> int:
        return sum(cause.gpus for cause in self.causes)

    @property
    def requested(self) -> int:
        return self.attached + self.waiting


def counts(who: Principal, fleet: Fleet, asked: Filters) -> Counts:
    """Return the fleet in numbers, with what waits for it."""
    all_of = [(place, cell) for place in fleet.places for cell in place.cells]
    held = [cell for _place, cell in all_of if cell.uid is not None]
    known = [cell.utilisation for cell in held if cell.utilisation is not None]
    return Counts(
        supply=len(all_of),
        attached=len(held),
        foreign=sum(cell.foreign for _place, cell in all_of),
        free=sum(place.free for place in fleet.places),
        out=sum(c.is_free and (place.state != UP or not c.healthy) for place, c in all_of),
        unhealthy=sum(place.state == DOWN or not c.healthy for place, c in all_of),
        unknown=len(held) - len(known),
        utilised=sum(known) / len(known) if known else None,
        largest=_largest(fleet.places),
        causes=tuple(_causes(who, [cluster.key for cluster in fleet.clusters], asked)),
    )


def _largest(places: Iterable[Place]) -> dict[str, int]:
    """Return the most free devices of one kind that stand together, by level."""
    parts: dict[str, Counter[tuple[str, ...]]] = {level: Counter() for level in (UNIT, RACK, HOST)}
    for place in places:
        if place.state != UP:
            continue
        free = Counter(cell.flavor for cell in place.cells if cell.is_free and cell.healthy)
        for flavor, number in free.items():
            at = (place.cluster.key, flavor, place.unit)
            parts[HOST][*at, place.rack, place.name] += number
            if place.rack:
                parts[RACK][*at, place.rack] += number
            if place.unit:
                parts[UNIT][at] += number
    return {level: max(found.values()) for level, found in parts.items() if found}


def _causes(who: Principal, keys: Sequence[str], asked: Filters) -> list[Cause]:
    """Return what waits for GPUs by its reason, the most of them first."""
    sums: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    for table, _kind in rows_with_gpus():
        found = _waiting(who, table, keys, asked)
        for row in found.values("reason", "cluster_key", "gpu_flavor").annotate(
            n=Count("pk"), devices=Sum("all_gpus")
        ):
            kinds_asked = [name.strip() for name in row["gpu_flavor"].split(",") if name.strip()]
            if asked.kind and kinds_asked and asked.kind not in kinds_asked:
                continue
            text = str(info_of(row["reason"], row["cluster_key"]).text) or _("Just asked for.")
            sums[text] += row["devices"]
            rows[text] += row["n"]
    return [Cause(text, rows[text], gpus) for text, gpus in sums.most_common()]


def _waiting(
    who: Principal, table: QuerySet[Any], keys: Sequence[str], asked: Filters
) -> QuerySet[Any]:
    found = table.filter(
        Q(cluster_key__in=list(keys)),
        phase=Phase.PENDING,
        desired=Desired.RUNNING,
        deleted_at__isnull=True,
        gpus__gt=0,
    ).order_by()
    names = {one.name for one in table.model._meta.get_fields()}  # noqa: SLF001 - any model
    if asked.project and "project" in names:
        seen = projects_visible_to(who).filter(slug=asked.project)
        found = found.filter(project__in=seen)  # of others not even how much waits
    if asked.pool and "pool" in names:
        found = found.filter(pool=asked.pool)
    return with_replicas(found)
