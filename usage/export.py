"""Intervals as CSV rows: what was held inside the span, cut at its edges."""

from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet

from common.clock import now
from usage.models import Interval
from usage.selectors import Range, hours_within

HEAD = (
    "project",
    "owner",
    "kind",
    "name",
    "launch",
    "cluster",
    "gpus",
    "gpu_kind",
    "cpu",
    "memory_gib",
    "started_at",
    "ended_at",
    "end_reason",
    "hours_in_span",
    "gpu_hours_in_span",
    "part",  # of its launch: each size that it had is a row
)


def csv_rows(rows: QuerySet[Interval], span: Range) -> Iterator[tuple[Any, ...]]:
    at = now()
    for row in rows.order_by("started_at", "id").iterator(chunk_size=1000):
        hours = hours_within(row, span, at)
        yield (
            row.project_slug,
            row.owner_name,
            row.kind,
            row.name,
            row.launch,
            row.cluster_key,
            row.gpus,
            row.flavor,
            row.cpu_milli / 1000,
            round(row.memory_mib / 1024, 3),
            row.started_at.isoformat(),
            row.ended_at.isoformat() if row.ended_at else "",
            row.end_reason,
            round(hours, 4),
            round(hours * row.gpus, 4),
            row.part,
        )
