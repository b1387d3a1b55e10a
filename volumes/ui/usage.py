"""The page of what a volume held from day to day, and who uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import ClassVar
from uuid import UUID

from django.http import HttpRequest, HttpResponse

from common.clock import now
from common.ui.columns import BAR, HEIGHT, LINE, STEP, left, mark, scale
from projects.access import Permission
from volumes import history, references
from volumes.models import VolumeDay
from volumes.ui.tabs import more_of
from volumes.ui.views import READ, VolumeView

LEAST_DAYS = 30  # that a drawing is wide, so that one column is not all of it


@dataclass(frozen=True)
class Column:
    day: VolumeDay
    x: int
    top: int
    height: int
    limit: int | None


@dataclass(frozen=True)
class Chart:
    columns: list[Column]
    first: date
    last: date
    height: int = HEIGHT
    bar: int = BAR  # width of a column
    mark: int = 2 * LINE  # height of the mark of the size

    @property
    def width(self) -> int:
        return ((self.last - self.first).days + 1) * STEP


def chart(days: Sequence[VolumeDay], until: date) -> Chart:
    """Draw days where they are in time: one on which nobody measured leaves a gap."""
    first = min([until - timedelta(days=LEAST_DAYS - 1), *(one.day for one in days)])
    unit = scale(max([max(one.used_bytes, one.size_bytes or 0) for one in days], default=0))
    columns = []
    for one in days:
        height = round(one.used_bytes * unit)
        limit = None if one.size_bytes is None else mark(one.size_bytes, unit)
        columns.append(Column(one, left((one.day - first).days), HEIGHT - height, height, limit))
    return Chart(columns, first, max([until, *(one.day for one in days)]))


class Usage(VolumeView):
    """How full it was over time, who has it mounted, and where to see what takes the room."""

    required_permissions: ClassVar[Mapping[str, Permission]] = READ
    template_name = "volumes/usage.html"
    tab = "usage"

    def get(self, request: HttpRequest, project: str, volume: UUID) -> HttpResponse:  # noqa: ARG002
        row = self.volume()
        days = history.days_of(row)
        context = {
            "holders": references.holders_of(row),
            "days": days[::-1],
            "chart": chart(days, now().date()),
            "may_look_inside": any(tab.key == "files" for tab in more_of(self.principal, row)),
        }
        return self.render(self.page(row, context))
