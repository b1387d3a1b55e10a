"""Rolling windows of GPU-hours: what is spent, when enough is free again, when it ends; pure.

Times are whole microseconds, weights whole thousandths: sums are exact, whatever their order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)
_DAY = timedelta(days=1) // _MICRO
HOUR = 1000 * (timedelta(hours=1) // _MICRO)  # one GPU of weight 1 for one hour
SLOPE_DAYS = 7  # by so many days the end is told
_PIECE = 3  # the busiest and the quietest days in a row: the range that is told


def micros(at: datetime) -> int:
    return (at - _EPOCH) // _MICRO


def moment(at: int) -> datetime:
    return _EPOCH + at * _MICRO


def units(hours: Decimal) -> int:
    return int(hours * HOUR)


def hours(found: int) -> Decimal:
    return Decimal(found) / HOUR


class Use(NamedTuple):
    """One launch in one size: from when to when it held GPUs. ``end`` None: it goes on.

    ``rate``: GPUs times the thousandths of what one of their kind weighs. ``uid`` "": of launches
    that are over: with ``launch`` 0 a day's sum, else what is counted of one (``budgets.days``).
    """

    uid: str
    launch: int
    start: int
    end: int | None
    rate: int


def apart(uses: Iterable[Use]) -> list[Use]:
    """Return them with no second of one workload in two launches: the later one has it.

    A clock that was set back may have written the start of one before the end of another.
    """
    by_uid: dict[str, list[Use]] = {}
    for use in uses:
        by_uid.setdefault(use.uid, []).append(use)
    found: list[Use] = by_uid.pop("", [])  # these are apart already
    for launches in by_uid.values():
        if len(launches) == 1:
            found += launches
            continue
        until: int | None = None
        for use in sorted(launches, key=attrgetter("launch", "start"), reverse=True):
            end = use.end if until is None else min(until, use.end or until)
            until = use.start if until is None else min(until, use.start)
            if end is None or end > use.start:
                found.append(use._replace(end=end))
    return found


def _is_sum(use: Use) -> bool:
    return not use.uid and not use.launch


@dataclass(frozen=True)
class Forecast:
    """When a budget is spent, where its days go on as the last ones did; None: not at this rate.

    ``days``: of how many it is known, 0: nothing was spent in them.
    """

    at: datetime | None
    earliest: datetime | None
    latest: datetime | None
    days: int


@dataclass(frozen=True)
class Window:
    """What was used in a window that ends now and moves on."""

    uses: tuple[Use, ...]
    length: int
    now: int

    @classmethod
    def of(cls, uses: Iterable[Use], days: int, at: datetime) -> Window:
        return cls(tuple(apart(uses)), days * _DAY, micros(at))

    @cached_property
    def spent(self) -> int:
        return self.between(self.now - self.length, self.now)

    def between(self, since: int, until: int) -> int:
        """Return what was used from then to then, what goes on until now."""
        ends = min(until, self.now)
        found = 0
        for _uid, _launch, start, end, rate in self.uses:
            last = ends if end is None or end > ends else end
            begin = max(since, start)
            if last > begin:
                found += (last - begin) * rate
        return found

    def spent_by(self, uid: str, launch: int) -> int:
        """Return what a workload has used since a launch began; one that gave its GPUs back for
        a while goes on in another launch.
        """
        mine = [use for use in self._by_uid.get(uid, ()) if use.launch >= launch]
        ends = (self.now if use.end is None else min(use.end, self.now) for use in mine)
        return sum(max(0, end - use.start) * use.rate for use, end in zip(mine, ends, strict=True))

    @cached_property
    def _by_uid(self) -> dict[str, list[Use]]:
        found: dict[str, list[Use]] = {}
        for use in self.uses:
            found.setdefault(use.uid, []).append(use)
        return found

    def in_doubt(self, room: int, until: datetime | None, *, goes_on: bool) -> int | None:
        """Return the first day, of which only the sum is known, in whose course no more than
        ``room`` may be spent at some moment before ``until``.
        """
        falls = {use.start: 0 for use in self.uses if _is_sum(use)}  # out of it in its course
        for _uid, _launch, start, ends, rate in self.uses:
            end = self.now if ends is None else min(ends, self.now)
            day = start - start % _DAY
            while day < end:
                if day in falls:
                    falls[day] += (min(end, day + _DAY) - max(start, day)) * rate
                day += _DAY
        last = None if until is None else micros(until)
        for begin, value, _slope, _end in self._later(goes_on=goes_on) if falls else ():
            if last is not None and begin >= last:
                return None
            day = begin - self.length
            if day in falls and value - falls[day] <= room:
                return day
        return None

    def with_day(self, day: int, uses: Iterable[Use]) -> Window:
        """Return the same with a day's launches instead of its sum."""
        rest = (one for one in self.uses if not _is_sum(one) or one.start != day)
        return replace(self, uses=(*rest, *uses))

    # --- later ------------------------------------------------------------------------------------

    def frees(self, room: int, *, goes_on: bool) -> datetime | None:
        """Return when no more than ``room`` is spent; None: never, as what runs goes on.

        ``goes_on`` False: what runs ends now.
        """
        if room < 0:
            return None
        for begin, value, slope, end in self._later(goes_on=goes_on):
            if value <= room:
                return moment(begin)
            if slope < 0 and (end is None or value + slope * (end - begin) <= room):
                return moment(begin + -((value - room) // slope))  # rounded up
        return None

    def forecast(self, limit: int) -> Forecast:
        """Return when ``limit`` is spent, by what the last days used."""
        begun = min((use.start for use in self.uses), default=self.now)
        days = min(SLOPE_DAYS, max(1, -((begun - self.now) // _DAY)))
        daily = [self.between(self.now - (n + 1) * _DAY, self.now - n * _DAY) for n in range(days)]
        if self.spent >= limit:
            there = moment(self.now)
            return Forecast(there, there, there, days)
        if not any(daily):
            return Forecast(None, None, None, 0)
        piece = min(_PIECE, days)
        runs = [sum(daily[n : n + piece]) / piece for n in range(days - piece + 1)]
        return Forecast(
            self._spent_at(limit, sum(daily) / days),
            self._spent_at(limit, max(runs)),
            self._spent_at(limit, min(runs)),
            days,
        )

    def _spent_at(self, limit: int, daily: float) -> datetime | None:
        """Return when it is spent at so much a day: the old falls out meanwhile, the new does not.

        After a whole window nothing grows any more.
        """
        rate = round(daily / _DAY)
        for begin, old, slope, end in self._later(goes_on=False):
            until = self.now + self.length if end is None else min(end, self.now + self.length)
            value = old + rate * (begin - self.now)
            if value >= limit:
                return moment(begin)
            grows = slope + rate
            if grows > 0 and value + grows * (until - begin) >= limit:
                return moment(begin + -((value - limit) // grows))
            if until >= self.now + self.length:
                return None
        return None

    def _later(self, *, goes_on: bool) -> Iterator[tuple[int, int, int, int | None]]:
        """Yield pieces of the time from now on: when one begins, what is spent then, how fast that
        changes in it, and when it ends; None: it does not.
        """
        turns: dict[int, int] = {}
        slope = 0

        def turn(at: int, by: int) -> None:
            nonlocal slope
            if at <= self.now:
                slope += by
            else:
                turns[at] = turns.get(at, 0) + by

        for use in self.uses:
            start = use.start
            end = min(use.end, self.now) if use.end is not None else self.now
            runs = use.end is None and goes_on
            if start >= end and not runs:
                continue
            turn(start + self.length, -use.rate)
            if runs:
                turn(max(start, self.now), use.rate)
            else:
                turn(end + self.length, use.rate)
        at, value = self.now, self.spent
        for later in sorted(turns):
            yield at, value, slope, later
            value += slope * (later - at)
            slope += turns[later]
            at = later
        yield at, value, slope, None
