"""What an endpoint held, and what its GPUs cost at today's prices."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from clusters.models import Flavor
from common.clock import now
from serving.models import Endpoint
from usage.models import Interval
from usage.selectors import Range, hours_within, in_range

if TYPE_CHECKING:
    from datetime import datetime

PER = 1000  # requests


@dataclass(frozen=True)
class Cost:
    hours: float
    gpu_hours: float
    cpu_hours: float
    amount: Decimal
    requests: int

    @property
    def per_thousand(self) -> Decimal | None:
        """What a thousand requests came to; None where nothing is priced, or nobody called."""
        return self.amount * PER / self.requests if self.amount and self.requests else None


def cost_of(row: Endpoint, since: datetime, requests: int) -> Cost:
    """Return what it and its canaries held since then, with its ``requests`` of that time."""
    at = now()
    uids = [row.uid, *Endpoint.objects.filter(canary_of=row).values_list("uid", flat=True)]
    span = Range(since, at + timedelta(seconds=1))
    prices = dict(Flavor.objects.values_list("name", "price_per_hour"))
    hours = gpu_hours = cpu_hours = 0.0
    amount = Decimal(0)
    for one in in_range(Interval.objects.filter(uid__in=uids), span):
        held = hours_within(one, span, at)
        hours += held
        gpu_hours += held * one.gpus
        cpu_hours += held * one.cpu_milli / 1000
        amount += Decimal(held * one.gpus) * prices.get(one.flavor, Decimal(0))
    return Cost(hours, gpu_hours, cpu_hours, amount, requests)
