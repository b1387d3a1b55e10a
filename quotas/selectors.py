"""Reading limits and what is used of them; a constant number of queries whatever the rows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from django.db.models import Q, QuerySet, Sum

from accounts.models import User
from projects.models import Project
from quotas.choices import label_of, order_of, words
from quotas.models import Limit, Reservation
from quotas.policies import Ceiling, Refusal, Scope, refusals


@dataclass(frozen=True)
class Share:
    """One line of "used / left": limit None = no limit."""

    resource: str
    scope: Scope
    used: int
    limit: int | None

    @property
    def left(self) -> int | None:
        return None if self.limit is None else max(0, self.limit - self.used)

    @property
    def is_over(self) -> bool:
        return self.limit is not None and self.used > self.limit

    @property
    def label(self) -> str:
        return label_of(self.resource)

    @property
    def used_words(self) -> str:
        return words(self.resource, self.used)

    @property
    def limit_words(self) -> str:
        return "" if self.limit is None else words(self.resource, self.limit)

    @property
    def left_words(self) -> str:
        return "" if self.left is None else words(self.resource, self.left)


@dataclass(frozen=True)
class Verdict:
    """Whether an amount would be reserved now, and why not."""

    refusals: tuple[Refusal, ...]

    @property
    def fits(self) -> bool:
        return not self.refusals

    @property
    def sentence(self) -> str:
        return " ".join(r.sentence for r in self.refusals)


def limits_over(project: Project, owner: User) -> QuerySet[Limit]:
    """Return every limit that holds for work of ``owner`` in ``project``."""
    return Limit.objects.filter(
        Q(project=project, user__isnull=True)
        | Q(project=project, user=owner)
        | Q(project__isnull=True, user=owner)
    )


def scope_of(limit: Limit) -> Scope:
    if limit.user_id is None:
        return Scope.MEMBER if limit.each else Scope.PROJECT
    return Scope.USER if limit.project_id is None else Scope.MEMBER


def ceilings(limits: Iterable[Limit], used: Mapping[tuple[Scope, str], int]) -> list[Ceiling]:
    """Return ``limits`` with what is used of each; one of a member's own goes for what each has."""
    found = list({(scope_of(x), x.resource): (x, scope_of(x)) for x in _own_last(limits)}.values())
    return [
        Ceiling(limit.resource, scope, limit.amount, used.get((scope, limit.resource), 0))
        for limit, scope in found
    ]


def _own_last(limits: Iterable[Limit]) -> list[Limit]:
    return sorted(limits, key=lambda limit: not limit.each)


def usage_by_scope(
    project: Project, owner: User, *, without: UUID | None = None
) -> dict[tuple[Scope, str], int]:
    """Return what is reserved, per scope and resource, in one query."""
    rows = Reservation.objects.filter(Q(project=project) | Q(owner=owner))
    if without is not None:
        rows = rows.exclude(workload_uid=without)
    sums = rows.values("resource").annotate(
        project_sum=Sum("amount", filter=Q(project=project), default=0),
        member_sum=Sum("amount", filter=Q(project=project, owner=owner), default=0),
        user_sum=Sum("amount", filter=Q(owner=owner), default=0),
    )
    used: dict[tuple[Scope, str], int] = {}
    for row in sums:
        used[Scope.PROJECT, row["resource"]] = row["project_sum"]
        used[Scope.MEMBER, row["resource"]] = row["member_sum"]
        used[Scope.USER, row["resource"]] = row["user_sum"]
    return used


def held_by(uid: UUID) -> dict[str, int]:
    """Return what one workload holds."""
    return dict(Reservation.objects.filter(workload_uid=uid).values_list("resource", "amount"))


@dataclass(frozen=True)
class Account:
    """What somebody may have in a project, and has. Two queries, each when it first matters."""

    project: Project
    owner: User

    @cached_property
    def limits(self) -> list[Limit]:
        return list(limits_over(self.project, self.owner))

    @cached_property
    def used(self) -> Mapping[tuple[Scope, str], int]:
        return usage_by_scope(self.project, self.owner)

    def refusals(self, amounts: Mapping[str, int], held: Mapping[str, int]) -> list[Refusal]:
        """Return every limit that would refuse ``amounts`` to work that holds ``held`` by now."""
        if not self.limits:
            return []
        others = {key: used - held.get(key[1], 0) for key, used in self.used.items()}
        return refusals(amounts, held, ceilings(self.limits, others))

    def shares(self) -> list[Share]:
        """Return used and left: the project's totals always, personal limits where set."""
        limits = {(scope_of(x), x.resource): x.amount for x in _own_last(self.limits)}
        keys = {key for scope, key in self.used if scope == Scope.PROJECT and self.used[scope, key]}
        keys |= {"gpus", "cpu_milli", "memory_mib", "workspaces"}
        wanted = {(Scope.PROJECT, key) for key in keys} | set(limits)
        order = list(Scope)
        return [
            Share(
                resource=key,
                scope=scope,
                used=self.used.get((scope, key), 0),
                limit=limits.get((scope, key)),
            )
            for scope, key in sorted(wanted, key=lambda w: (order.index(w[0]), order_of(w[1])))
        ]


def would_fit(
    *, project: Project, owner: User, amounts: Mapping[str, int], uid: UUID | None = None
) -> Verdict:
    """Say whether ``amounts`` would be reserved now. Advice for forms and plans, no promise."""
    held = held_by(uid) if uid else {}
    return Verdict(refusals=tuple(Account(project, owner).refusals(amounts, held)))


def limits_of_project(project: Project) -> QuerySet[Limit]:
    """Return the project's own limits and those of single members there."""
    return (
        Limit.objects.filter(project=project, each=False)
        .select_related("user")
        .order_by("user_id", "id")
    )


def limits_of_user(user: User) -> QuerySet[Limit]:
    return Limit.objects.filter(user=user, project__isnull=True).order_by("id")
