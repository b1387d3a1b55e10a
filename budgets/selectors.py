"""Reading budgets: what is spent of them, and whether a launch has room; constant queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.formats import date_format, localize
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from budgets import days
from budgets.choices import Mode
from budgets.models import Budget
from budgets.policies import HOUR, SLOPE_DAYS, Forecast, Window, hours, units
from clusters.models import Flavor
from common.clock import now
from common.errors import NotFound
from placement.decision import Reason
from queues.choices import Beyond
from queues.models import Queue
from quotas.choices import GPUS, is_kind
from quotas.models import Reservation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from accounts.models import User
    from projects.models import Project

NEARLY = 80  # per cent
# Of a hard budget a launch needs room for so much of itself, and keeps it until it has used it
# or is over: so of two at once only one gets the last hour.
LEAST_MINUTES = 60


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
        return _again(self.frees(1))

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
            day = window.in_doubt(room, at, goes_on=goes_on) if room >= 0 else None
            if day is None:
                return at
            window = window.with_day(day, days.on_day(self.projects, owner, day))


@dataclass(frozen=True)
class Room:
    """When there is room; ``sure`` False: at the earliest, where what runs ends. None: never."""

    at: datetime | None
    sure: bool


def _again(room: Room) -> str:
    if room.at is None:
        return _("It is more than the whole budget.")
    if room.sure:
        return _("There is room again on %(when)s.") % {"when": day(room.at)}
    said = _("There is room again on %(when)s at the earliest, once what runs has ended.")
    return said % {"when": day(room.at)}


def _date(at: datetime | None) -> str:
    return date_format(timezone.localtime(at), "Y-m-d") if at else ""


@dataclass(frozen=True)
class Verdict:
    """What budgets say of a launch: refused, it only borrows, or nothing."""

    refusal: Reason | None = None
    borrows: Reason | None = None

    @property
    def sentence(self) -> str:
        return str(self.refusal or self.borrows or "")


NOTHING_SAID = Verdict()


def verdict(
    *,
    project: Project,
    owner: User,
    amounts: Mapping[str, int],
    minutes: int | None = None,
    uid: UUID | None = None,
    locked: bool = False,
) -> Verdict:
    """Say whether a launch that takes ``amounts`` (``quotas.policies.amounts_of``) has room.

    ``minutes``: its time limit. ``locked``: in the transaction of the intent, where whoever asks
    the same budget waits. Without GPUs it costs no query, without budgets one.
    """
    if not amounts.get(GPUS):
        return NOTHING_SAID
    rows, tree = _over(project, owner)
    if not rows:
        return NOTHING_SAID
    meters = Books.of(rows, tree).meters
    if locked:  # what was let in meanwhile is seen below; what it has used since is part of that
        meters = _locked(meters, tree)
    weights = {
        name: int(weight * 1000) for name, weight in Flavor.objects.values_list("name", "weight")
    }
    let_in = _let_in(set[UUID]().union(*(meter.projects for meter in meters)), weights, uid)
    kinds = [key.partition(":")[2] for key in amounts if is_kind(key)]
    weight = max((weights.get(kind, 1000) for kind in kinds), default=1000)
    least = min(LEAST_MINUTES, minutes or LEAST_MINUTES)
    needed = amounts[GPUS] * weight * (HOUR // 1000) * least // LEAST_MINUTES
    borrows = None
    for found in meters:
        if found.budget.mode == Mode.SOFT:
            borrows = borrows or (_reason("over-budget", found, 1) if found.is_spent else None)
            continue
        meter = replace(found, committed=found.wanted_by(let_in))
        if meter.window.spent + meter.committed + needed > meter.limit:
            return Verdict(refusal=_reason("budget", meter, needed))
    return Verdict(borrows=borrows)


def _locked(meters: Iterable[Meter], tree: Tree | None) -> tuple[Meter, ...]:
    """Return them with their budgets as they are now, locked until the transaction ends."""
    old = {meter.budget.pk: meter for meter in meters}
    rows = list(_named(Budget.objects.filter(pk__in=old)).select_for_update(of=("self",)))
    if any(row.days != old[row.pk].budget.days for row in rows):
        return Books.of(rows, tree).meters
    return tuple(Meter(row, old[row.pk].window, old[row.pk].projects) for row in rows)


def beyond(project: Project, owner: User) -> Reason | None:
    """Say what holds back work that waits, or why it only borrows; None: no budget does."""
    rows, tree = _over(project, owner)
    spent = [meter for meter in Books.of(rows, tree).meters if meter.is_spent]
    spent.sort(key=lambda meter: meter.budget.mode != Mode.HARD)
    for meter in spent:
        return _reason("budget" if meter.budget.mode == Mode.HARD else "over-budget", meter, 1)
    return None


def _reason(word: str, meter: Meter, needed: int) -> Reason:
    said = {"whose": str(meter.budget), "spent": meter.spent_words}
    return Reason(word, {**said, "again": _again(meter.frees(needed))})


@dataclass(frozen=True)
class Books:
    """Budgets with their meters, all read at one moment."""

    meters: tuple[Meter, ...]

    @classmethod
    def of(cls, rows: Iterable[Budget], tree: Tree | None = None) -> Books:
        """Read them in one query, and one more for organisations where the tree is not known."""
        budgets = list(rows)
        if not budgets:
            return cls(())
        at = now()
        projects = _projects_of(budgets, tree)
        every = set[UUID]().union(*projects.values())
        people = {budget.user.uid for budget in budgets if budget.user is not None}
        since = {at - timedelta(days=budget.days) for budget in budgets}
        uses = days.uses(every, since, people)
        meters = []
        for budget in budgets:
            mine = (
                one
                for uid in projects[budget.pk]
                for owner, one in uses.get(uid, ())
                if budget.user is None or owner == budget.user.uid
            )
            meters.append(Meter(budget, Window.of(mine, budget.days, at), projects[budget.pk]))
        return cls(tuple(meters))

    def beyond(self, project: UUID, owner: UUID) -> str:
        """Return what work of a person in a project is now: within, or beyond a budget."""
        spent = {m.budget.mode for m in self.meters if m.is_spent and m.covers(project, owner)}
        if Mode.HARD in spent:
            return Beyond.WAITS
        return Beyond.BORROWS if spent else Beyond.NONE

    def stops(self, project: UUID, owner: UUID) -> bool:
        return any(
            m.budget.stops and m.budget.mode == Mode.HARD and m.is_spent
            for m in self.meters
            if m.covers(project, owner)
        )


@dataclass(frozen=True)
class LetIn:
    """One launch on its way, and the least that it uses."""

    project: UUID
    owner: UUID
    uid: str
    launch: int
    least: int


def _let_in(projects: set[UUID], weights: Mapping[str, int], without: UUID | None) -> list[LetIn]:
    """Return the launches on their way with GPUs, but those of one workload."""
    rows = Reservation.objects.filter(project__uid__in=projects, resource__startswith=GPUS)
    if without is not None:
        rows = rows.exclude(workload_uid=without)
    sizes: dict[Any, tuple[int, int]] = {}
    for *whose, resource, amount in rows.order_by().values_list(
        *("project__uid", "owner__uid", "workload_uid", "launch", "resource", "amount")
    ):
        gpus, weight = sizes.get(tuple(whose), (0, 0))
        if is_kind(resource):
            weight = max(weight, weights.get(resource.partition(":")[2], 1000))
        else:
            gpus = amount
        sizes[tuple(whose)] = (gpus, weight)
    return [
        LetIn(project, owner, uid.hex, launch, gpus * (weight or 1000) * (HOUR // 1000))
        for (project, owner, uid, launch), (gpus, weight) in sizes.items()
    ]


# --- which budgets ----------------------------------------------------------------------------


Tree = list[tuple[int, int | None, UUID | None]]  # key, that of what is above, its project


def _over(project: Project, owner: User) -> tuple[list[Budget], Tree | None]:
    """Return every budget that holds for work of somebody in a project, and the tree where
    organisations have any.
    """
    rows = _named(Budget.objects.all()).filter(
        Q(project=project, user__isnull=True)
        | Q(project=project, user=owner)
        | Q(organisation__isnull=False)
    )
    found = list(rows)
    if not any(budget.organisation_id for budget in found):
        return found, None
    tree = _tree()
    parents = {pk: parent for pk, parent, _uid in tree}
    at = next((parent for _pk, parent, uid in tree if uid == project.uid), None)
    above = set()
    while at is not None and at not in above:
        above.add(at)
        at = parents.get(at)
    mine = [b for b in found if b.organisation_id is None or b.organisation_id in above]
    return mine, tree


def of_project(project: Project, reader: User) -> tuple[Meter, ...]:
    """Return the meters of what holds for the reader's work there."""
    return Books.of(*_over(project, reader)).meters


def every() -> QuerySet[Budget]:
    """Return the budgets of what is there, for operators and auditors."""
    gone = Q(project__deleted_at__isnull=False)
    return _named(Budget.objects.exclude(gone)).order_by(
        "organisation__name", "project__name", "pk"
    )


def budget_get(uid: UUID) -> Budget:
    found = _named(Budget.objects.filter(uid=uid)).first()
    if found is None:
        raise NotFound(_("There is no such budget."))
    return found


def _named(rows: QuerySet[Budget]) -> QuerySet[Budget]:
    return rows.select_related("project", "user", "organisation").order_by("pk")


def _tree() -> Tree:
    return list(Queue.objects.order_by().values_list("pk", "parent_id", "project__uid"))


def _projects_of(budgets: list[Budget], tree: Tree | None) -> dict[int, frozenset[UUID]]:
    """Return the projects that each budget is of, by its key."""
    found = {b.pk: frozenset({b.project.uid}) for b in budgets if b.project is not None}
    if len(found) == len(budgets):
        return found
    rows = _tree() if tree is None else tree
    for budget in budgets:
        if budget.project is not None:
            continue
        inside = {budget.organisation_id}
        grew = True
        while grew:
            more = {pk for pk, parent, _uid in rows if parent in inside} - inside
            inside |= more
            grew = bool(more)
        found[budget.pk] = frozenset(uid for pk, _parent, uid in rows if uid and pk in inside)
    return found
