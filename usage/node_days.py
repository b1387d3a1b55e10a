"""What the devices of each node did, by day (UTC): ``sample`` adds how it is now to today."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Max

from common.clock import now
from usage.models import NodeDay
from usage.ratios import nodes_now

MOST_S = 900.0  # a look is each ten minutes; of what is longer ago than this nobody knows
KEPT = timedelta(days=400)
_AMOUNTS = ("supply", "attached", "measured", "utilised")


@transaction.atomic
def sample() -> int:
    """Add the time since the last look, as it is now; returns how many nodes there are.

    Called by one worker at a time. One that looks again at once adds nothing, one that is late no
    more than a quarter of an hour.
    """
    at = now()
    day = at.astimezone(UTC).date()
    last = NodeDay.objects.aggregate(last=Max("until"))["last"]
    length = MOST_S if last is None else (at - last).total_seconds()
    length = min(max(length, 0.0), MOST_S)
    found = {(row.cluster_key, row.node): row for row in NodeDay.objects.filter(day=day)}
    for key, node, ratio in nodes_now():
        row = found.setdefault((key, node), NodeDay(cluster_key=key, node=node, day=day))
        row.until = max(at, last or at)
        for name in _AMOUNTS:
            setattr(row, name, getattr(row, name) + getattr(ratio, name) * length)
    NodeDay.objects.bulk_create(
        found.values(),
        update_conflicts=True,
        unique_fields=["day", "cluster_key", "node"],
        update_fields=("until", *_AMOUNTS),
    )
    NodeDay.objects.filter(day__lt=day - KEPT).delete()
    return len(found)


def rows(first: date, last: date) -> Iterator[dict[str, Any]]:
    """Yield each day of each node, named like the sums of the ledger. One query."""
    found = NodeDay.objects.filter(day__gte=first, day__lte=last)
    columns = ("cluster_key", "node", "day", *_AMOUNTS)
    for key, node, day, *amounts in found.order_by("day", "cluster_key").values_list(*columns):
        sums = {f"sum_{name}": n for name, n in zip(_AMOUNTS, amounts, strict=True)}
        label = f"{key}/{node}" if node else key
        yield {"day": day, "label": label, "sum_waiting": 0.0, **sums}
