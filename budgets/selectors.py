"""Reading budgets: what is spent of them, and whether a launch has room; constant queries."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import F, Q, QuerySet
from django.utils.translation import gettext as _

from budgets import days
from budgets.choices import Mode
from budgets.meters import LetIn, Meter, again
from budgets.models import Budget
from budgets.policies import HOUR, Window
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

    from accounts.models import User
    from projects.models import Project

# Of a hard budget a launch needs room for so much of itself, and keeps it until it has used it
# or is over: so of two at once only one gets the last hour.
LEAST_MINUTES = 60


@dataclass(frozen=True)
class Verdict:
    """What budgets say of a launch: refused, it only borrows, or nothing."""

    refusal: Reason | None = None
    borrows: Reason | None = None

    @property
    def sentence(self) -> str:
        return str(self.refusal or self.borrows or "")


NOTHING_SAID = Verdict()


@dataclass(frozen=True)
class Account:
    """The budgets that hold for somebody's work in a project, and what was let in under them."""

    meters: tuple[Meter, ...] = ()
    let_in: tuple[LetIn, ...] = ()
    weights: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, project: Project, owner: User, *, uid: UUID | None = None, locked: bool = False
    ) -> Account:
        """Read them; without budgets in one query. What workload ``uid`` was let in does not count.

        ``locked``: in the transaction of the intent, where whoever asks the same budget waits.
        """
        rows, tree = _over(project, owner)
        if not rows:
            return cls()
        meters = Books.of(rows, tree).meters
        if locked:  # what was let in meanwhile is seen below; what it used since is part of that
            meters = _locked(meters, tree)
        rated = Flavor.objects.values_list("name", "weight")
        weights = {name: int(weight * 1000) for name, weight in rated}
        projects = set[UUID]().union(*(meter.projects for meter in meters))
        return cls(meters, tuple(_let_in(projects, weights, uid)), weights)

    def verdict(self, amounts: Mapping[str, int], minutes: int | None = None) -> Verdict:
        """Say whether a launch that takes ``amounts`` (``quotas.policies.amounts_of``) has room.

        ``minutes``: its time limit.
        """
        if not amounts.get(GPUS):
            return NOTHING_SAID
        kinds = [key.partition(":")[2] for key in amounts if is_kind(key)]
        weight = max((self.weights.get(kind, 1000) for kind in kinds), default=1000)
        least = min(LEAST_MINUTES, minutes or LEAST_MINUTES)
        needed = amounts[GPUS] * weight * (HOUR // 1000) * least // LEAST_MINUTES
        borrows = None
        for found in self.meters:
            if found.budget.mode == Mode.SOFT:
                borrows = borrows or (_reason("over-budget", found, 1) if found.is_spent else None)
                continue
            meter = replace(found, committed=found.wanted_by(self.let_in))
            if meter.window.spent + meter.committed + needed > meter.limit:
                return Verdict(refusal=_reason("budget", meter, needed))
        return Verdict(borrows=borrows)


def verdict(
    *,
    project: Project,
    owner: User,
    amounts: Mapping[str, int],
    minutes: int | None = None,
    uid: UUID | None = None,
    locked: bool = False,
) -> Verdict:
    """Say whether one launch has room (``Account``); without GPUs it costs no query."""
    if not amounts.get(GPUS):
        return NOTHING_SAID
    return Account.of(project, owner, uid=uid, locked=locked).verdict(amounts, minutes)


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
    return Reason(word, {**said, "again": again(meter.frees(needed))})


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
        F("organisation__name").asc(nulls_first=True),
        F("project__name").asc(nulls_first=True),
        "pk",
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
