"""What a holder sees of their own work: that it is idle and what follows, what its GPUs did."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.db.models import Q

from clusters.models import Flavor
from common.clock import now
from metrics.sampling import GPU_BUSY
from metrics.selectors import series
from parking.selectors import notice_of
from usage.models import Interval
from work.selectors import may_end
from work.ui.panels import Panel, Slot

if TYPE_CHECKING:
    from accounts.principal import Principal

SPAN = timedelta(hours=24)
_HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Hour:
    """``percent`` None: nobody measured it."""

    at: datetime
    percent: float | None
    highest: float | None


@dataclass(frozen=True)
class Spent:
    """What the GPUs of one piece of work did in the last day. ``cost`` None: no price is set."""

    hours: list[Hour]
    gpu_hours: float
    percent: float | None
    unused: float  # GPU-hours in which they did nothing, as far as that was measured
    cost: Decimal | None
    unused_cost: Decimal | None
    shared: bool
    simulated: bool

    @property
    def bars(self) -> list[tuple[str, str, str | None]]:
        """Return (x, y, height) of each hour in a box 100 high; no height: not measured."""
        found: list[tuple[str, str, str | None]] = []
        for number, hour in enumerate(self.hours):
            high = None if hour.percent is None else max(1.0, min(100.0, hour.percent))
            y = 0.0 if high is None else 100 - high
            found.append((str(number), f"{y:.0f}", None if high is None else f"{high:.0f}"))
        return found


def panel(who: Principal, row: Any, slot: Slot) -> Panel | None:
    """Return what is shown of a row that holds GPUs, or is idle."""
    if slot == Slot.NOTICE:
        notice = notice_of(row)
        if notice is None or not notice.is_told:
            return None
        return Panel("parking/_notice.html", {"notice": notice, "may_extend": may_end(who, row)})
    if not row.gpus or not row.launch or not may_end(who, row):
        return None
    found = spent(row)
    return Panel("parking/_spent.html", {"spent": found}) if found else None


def spent(row: Any) -> Spent | None:
    """Return what its GPUs did in the last day; None: it held none. Three queries."""
    at = now()
    since = at - SPAN
    lately = Q(ended_at=None) | Q(ended_at__gt=since)
    held = list(Interval.objects.filter(lately, uid=row.uid, gpus__gt=0).order_by("launch", "part"))
    gpu_hours = sum(
        (min(one.ended_at or at, at) - max(one.started_at, since)) / _HOUR * one.gpus
        for one in held
    )
    if not held:
        return None
    hours = series([row.uid], since, _HOUR, ["gpu_utilisation"]).get(row.uid, [])
    unused, count, total = 0.0, 0, 0.0
    shown = []
    for one in hours:
        figure = one.figures.get("gpu_utilisation")
        shown.append(Hour(one.at, one.mean("gpu_utilisation"), figure.high if figure else None))
        if figure is None:
            continue
        count, total = count + figure.count, total + figure.total
        if figure.high < GPU_BUSY:
            for had in held:
                begin, end = max(one.at, had.started_at), min(one.at + _HOUR, had.ended_at or at)
                unused += max(timedelta(), end - begin) / _HOUR * had.gpus
    flavor = Flavor.objects.filter(name=held[-1].flavor).first()
    price = flavor.price_per_hour if flavor else None
    return Spent(
        hours=shown,
        gpu_hours=gpu_hours,
        percent=total / count if count else None,
        unused=min(unused, gpu_hours),
        cost=_money(gpu_hours, price),
        unused_cost=_money(min(unused, gpu_hours), price),
        shared=any(one.shared for one in hours),
        simulated=any(one.simulated for one in hours),
    )


def _money(hours: float, price: Decimal | None) -> Decimal | None:
    return None if price is None else (Decimal(hours) * price).quantize(Decimal("0.01"))
