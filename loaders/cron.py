"""Five fields that say when: parsed strictly, in a time zone that has a name. Pure.

The fields are read by Celery's own parser. Two things that cron leaves to habit are refused:
a day of the month together with a day of the week (all readers differ on what it means), and
what never comes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

from celery.schedules import ParseException, crontab_parser
from django.utils.translation import gettext as _

from common.errors import wrong

MAX_TEXT = 100
_FIELD = re.compile(r"\A[0-9*,/-]{1,60}\Z")
_NAMED = re.compile(r"\A[0-9A-Za-z*,/-]{1,60}\Z")  # jan, mon
_LONGEST = timedelta(days=366 * 8 + 3)  # 29 February, over a century's gap
_HOURS = 24
_LOOKED_AT = 200  # runs that are compared to find the shortest pause


@dataclass(frozen=True)
class Schedule:
    """When a load runs by itself."""

    text: str
    zone: ZoneInfo
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first time after ``moment``, in UTC; None: never."""
        return next(self._after(moment), None)

    def shortest_pause(self, moment: datetime) -> timedelta | None:
        """Return the least time between two of the next runs."""
        pause, last = None, None
        for number, at in enumerate(self._after(moment)):
            if last is not None:
                pause = at - last if pause is None else min(pause, at - last)
            last = at
            if number >= _LOOKED_AT:
                break
        return pause

    def _after(self, moment: datetime) -> Iterator[datetime]:
        day = moment.astimezone(self.zone).date()
        end = day + _LONGEST
        while day <= end:
            if self._has(day):
                found = {at for h in self.hours for m in self.minutes for at in self._at(day, h, m)}
                yield from sorted(at for at in found if at > moment)
            day += timedelta(days=1)

    def _has(self, day: date) -> bool:
        return (
            day.month in self.months
            and day.day in self.days
            and day.isoweekday() % 7 in self.weekdays
        )

    def _at(self, day: date, hour: int, minute: int) -> list[datetime]:
        """Return when it is so late on that day, in UTC.

        What runs every hour runs through an hour that comes twice, and none is missing where one
        is skipped. Any other time is meant once: its first, or the next that there is.
        """
        every_hour = len(self.hours) == _HOURS
        local = datetime.combine(day, time(hour, minute))
        if self._is_real(local):
            folds = (0, 1) if every_hour else (0,)
            return [local.replace(tzinfo=self.zone, fold=n).astimezone(UTC) for n in folds]
        if every_hour:
            return []
        while not self._is_real(local):
            local += timedelta(minutes=1)
        return [local.replace(tzinfo=self.zone).astimezone(UTC)]

    def _is_real(self, local: datetime) -> bool:
        """Whether clocks there ever show it."""
        there = local.replace(tzinfo=self.zone).astimezone(UTC).astimezone(self.zone)
        return there.replace(tzinfo=None) == local


def parse(text: str, zone: str, *, now: datetime, shortest: timedelta) -> Schedule:
    """Return the schedule, or raise Invalid that names what is not right."""
    words = text.split()
    shapes = (_FIELD, _FIELD, _FIELD, _NAMED, _NAMED)
    fits = len(words) == len(shapes) and all(s.match(w) for s, w in zip(shapes, words, strict=True))
    if len(text) > MAX_TEXT or not fits:
        message = _("Five fields: minute, hour, day of the month, month, day of the week.")
        raise wrong("schedule", f"{message} {_('30 2 * * * is every day at 2:30.')}")
    where = _zone(zone)
    minute, hour, day, month, weekday = words
    if day != "*" and weekday != "*":
        raise wrong("schedule", _("Give a day of the month or a day of the week, not both."))
    schedule = Schedule(
        text=" ".join(words),
        zone=where,
        minutes=tuple(sorted(_numbers(minute, 60, 0))),
        hours=tuple(sorted(_numbers(hour, 24, 0))),
        days=frozenset(_numbers(day, 31, 1)),
        months=frozenset(_numbers(month, 12, 1)),
        weekdays=frozenset(_numbers(weekday, 7, 0)),  # 0 is Sunday
    )
    if schedule.next_after(now) is None:
        raise wrong("schedule", _("This time never comes."))
    pause = schedule.shortest_pause(now)
    if pause is not None and pause < shortest:
        minutes = int(shortest.total_seconds() // 60)
        raise wrong("schedule", _("At least %(n)d minutes between two runs.") % {"n": minutes})
    return schedule


def _zone(name: str) -> ZoneInfo:
    name = name.strip() or "UTC"
    if name not in available_timezones():
        message = _("There is no such time zone; write Europe/Berlin or Asia/Tokyo.")
        raise wrong("time_zone", message)
    return ZoneInfo(name)


def _numbers(field: str, size: int, low: int) -> set[int]:
    try:
        found = crontab_parser(size, low).parse(field)
    except (ParseException, ValueError, TypeError) as error:
        raise wrong("schedule", _("“%(field)s” is not a field.") % {"field": field}) from error
    if not found or not all(low <= n < size + low for n in found):
        raise wrong("schedule", _("“%(field)s” is out of range.") % {"field": field})
    return set(found)
