"""What is spent of a budget, when it ends and when there is room again, in numbers and words."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING
from uuid import UUID

from django.utils import timezone
from django.utils.formats import date_format, localize
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from budgets import days
from budgets.models import Budget
from budgets.policies import SLOPE_DAYS, Forecast, Window, hours, units
from common.clock import now

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

NEARLY = 80  # per cent


def shown(amount: Decimal) -> str:
    """Return GPU-hours as people read them: to a tenth, to a hundredth below one."""
    places = Decimal("0.01") if abs(amount) < 1 else Decimal("0.1")
    return localize(amount.quantize(places).normalize() + 0, use_l10n=True)


def day(at: datetime) -> str:
    return date_format(timezone.localtime(at), "Y-m-d H:i")


@dataclass(frozen=True)
class Meter:
    """A budget, what is spent of it, and what others that were let in will need of it at once."""

    budget: Budget
    window: Window
    projects: frozenset[UUID]
    committed: int = 0

    @cached_property
    def limit(self) -> int:
        return units(self.budget.hours)

    @property
    def spent(self) -> Decimal:
        return hours(self.window.spent)

    @property
    def left(self) -> Decimal:
        return max(Decimal(0), self.budget.hours - self.spent)

    @property
    def percent(self) -> int:
        """Rounded down: 100 is said of what is spent only. Nothing was given: it is spent."""
        return self.window.spent * 100 // self.limit if self.limit else 100

    @property
    def is_spent(self) -> bool:
        return self.window.spent >= self.limit

    @property
    def is_nearly(self) -> bool:
        return self.percent >= NEARLY

    @cached_property
    def forecast(self) -> Forecast:
        return self.window.forecast(self.limit)

    @property
    def spent_words(self) -> str:
        days = self.budget.days
        text = ngettext(
            "%(spent)s of %(hours)s GPU-hours in %(days)d day",
            "%(spent)s of %(hours)s GPU-hours in %(days)d days",
            days,
        )
        return text % {
            "spent": shown(self.spent),
            "hours": shown(self.budget.hours),
            "days": days,
        }

    @property
    def again(self) -> str:
        """When there is room again, where it is spent."""
        return again(self.frees(1))

    @property
    def forecast_words(self) -> str:
        found = self.forecast
        if self.is_spent:
            return _("Spent. %(again)s") % {"again": self.again}
        if not found.days:
            return _("Nothing was used lately: it does not end.")
        busy = {"early": _date(found.earliest), "late": _date(found.latest)}
        said = []
        if found.at is not None:
            left = (found.at - now()).days
            text = ngettext(
                "%(n)d day left at this rate: until %(at)s.",
                "%(n)d days left at this rate: until %(at)s.",
                left,
            )
            said.append(text % {"n": left, "at": _date(found.at)})
            if found.latest is None:
                text = _("As on busy days until %(early)s, as on quiet ones without end.")
                said.append(text % busy)
            elif busy["early"] != busy["late"]:
                text = _("As on busy days until %(early)s, as on quiet ones until %(late)s.")
                said.append(text % busy)
        elif found.earliest is not None:
            said.append(_("It does not end at this rate; as on busy days on %(early)s.") % busy)
        else:
            said.append(_("It does not end at this rate: as much falls out as comes in."))
        if found.days < SLOPE_DAYS:
            text = ngettext("Known by %(n)d day only.", "Known by %(n)d days only.", found.days)
            said.append(text % {"n": found.days})
        return " ".join(said)

    def covers(self, project: UUID, owner: UUID) -> bool:
        user = self.budget.user
        return project in self.projects and (user is None or user.uid == owner)

    def wanted_by(self, launches: Iterable[LetIn]) -> int:
        """Return what launches on their way still use at least, beyond what they have used."""
        mine = (one for one in launches if self.covers(one.project, one.owner))
        return sum(max(0, x.least - self.window.spent_by(x.uid, x.launch)) for x in mine)

    def frees(self, needed: int) -> Room:
        """Return when so much has room again."""
        room = self.limit - self.committed - needed
        if at := self._frees(room, goes_on=True):
            return Room(at, sure=True)
        return Room(self._frees(room, goes_on=False), sure=False)

    def _frees(self, room: int, *, goes_on: bool) -> datetime | None:
        """Return it by the launches of the days in whose course there may be room."""
        window = self.window
        owner = self.budget.user.uid if self.budget.user else None
        while True:
            at = window.frees(room, goes_on=goes_on)
            doubtful = window.in_doubt(room, at, goes_on=goes_on) if room >= 0 else None
            if doubtful is None:
                return at
            window = window.with_day(doubtful, days.on_day(self.projects, owner, doubtful))


@dataclass(frozen=True)
class Room:
    """When there is room; ``sure`` False: at the earliest, where what runs ends. None: never."""

    at: datetime | None
    sure: bool


def again(room: Room) -> str:
    if room.at is None:
        return _("It is more than the whole budget.")
    if room.sure:
        return _("There is room again on %(when)s.") % {"when": day(room.at)}
    said = _("There is room again on %(when)s at the earliest, once what runs has ended.")
    return said % {"when": day(room.at)}


def _date(at: datetime | None) -> str:
    return date_format(timezone.localtime(at), "Y-m-d") if at else ""


@dataclass(frozen=True)
class LetIn:
    """One launch on its way, and the least that it uses."""

    project: UUID
    owner: UUID
    uid: str
    launch: int
    least: int
