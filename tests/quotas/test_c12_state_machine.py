"""C12 as a state machine: whatever is reserved, edited, freed, raised or lowered, nothing is
granted above a limit, at any instant."""

import uuid
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from accounts.models import User
from accounts.principal import Principal
from common.errors import LimitExceeded
from projects.models import Project
from quotas import services
from quotas.models import Limit, Reservation

AMOUNT = st.integers(0, 6)


class Quota(RuleBasedStateMachine):
    """Two people in two projects, with all three scopes of limits."""

    def __init__(self) -> None:
        super().__init__()
        mark = uuid.uuid4().hex[:8]
        self.people = [User.objects.create(username=f"{n}{mark}", password="!") for n in "ab"]
        self.boss = User.objects.create(username=f"op{mark}", platform_role="operator")
        self.projects = [Project.objects.create(slug=f"{n}{mark}", name=n) for n in "pq"]
        self.live: dict[uuid.UUID, tuple[int, int, int]] = {}
        # the most that may be reserved in a scope: the limit, or what was above it when lowered
        self.cap: dict[tuple[int | None, int | None], int] = {}

    def _sum(self, where: tuple[int | None, int | None], live: Any = None) -> int:
        rows = (self.live if live is None else live).values()
        return sum(n for p, u, n in rows if where[0] in {None, p} and where[1] in {None, u})

    def _where(self, limit: Limit) -> tuple[int | None, int | None]:
        projects = {p.pk: i for i, p in enumerate(self.projects)}
        people = {u.pk: i for i, u in enumerate(self.people)}
        return (projects.get(limit.project_id or 0), people.get(limit.user_id or 0))

    def _ask(self, uid: uuid.UUID, wanted: tuple[int, int, int]) -> None:
        project, user, amount = wanted
        fits = self._fits_here(uid, wanted)
        try:
            with transaction.atomic():
                services.reserve(
                    principal=Principal(user=self.people[user]),
                    project=self.projects[project],
                    owner=self.people[user],
                    uid=uid,
                    amounts={"gpus": amount},
                )
        except LimitExceeded:
            assert not fits
            return
        assert fits
        self.live[uid] = wanted

    def _fits_here(self, uid: uuid.UUID, wanted: tuple[int, int, int]) -> bool:
        ours = Limit.objects.filter(project__in=self.projects) | Limit.objects.filter(
            project=None, user__in=self.people
        )
        held = self.live.get(uid, (0, 0, 0))[2]
        if wanted[2] <= held:
            return True
        after = {**self.live, uid: wanted}
        for limit in ours:
            where = self._where(limit)
            applies = where[0] in {None, wanted[0]} and where[1] in {None, wanted[1]}
            if applies and self._sum(where, after) > limit.amount:
                return False
        return True

    @rule(project=st.integers(0, 1), user=st.integers(0, 1), amount=AMOUNT)
    def start(self, project: int, user: int, amount: int) -> None:
        self._ask(uuid.uuid4(), (project, user, amount))

    @rule(pick=st.integers(0, 50), amount=AMOUNT)
    def edit(self, pick: int, amount: int) -> None:
        if self.live:
            uid = sorted(self.live)[pick % len(self.live)]
            project, user, _old = self.live[uid]
            self._ask(uid, (project, user, amount))

    @rule(pick=st.integers(0, 50))
    def end(self, pick: int) -> None:
        if self.live:
            uid = sorted(self.live)[pick % len(self.live)]
            services.release(uid)
            del self.live[uid]

    @rule(
        project=st.sampled_from([None, 0, 1]),
        user=st.sampled_from([None, 0, 1]),
        amount=st.one_of(st.none(), st.integers(0, 12)),
    )
    def limit(self, project: int | None, user: int | None, amount: int | None) -> None:
        if project is None and user is None:
            return
        services.limits_set(
            principal=Principal(user=self.boss),
            project=None if project is None else self.projects[project],
            user=None if user is None else self.people[user],
            limits={"gpus": amount},
        )
        where = (project, user)
        if amount is None:
            self.cap.pop(where, None)
        else:
            self.cap[where] = max(amount, self._sum(where))

    @invariant()
    def what_is_reserved_is_what_we_think(self) -> None:
        rows = Reservation.objects.filter(project__in=self.projects)
        found = {r.workload_uid: r.amount for r in rows}
        assert found == {uid: n for uid, (_p, _u, n) in self.live.items() if n}

    @invariant()
    def nothing_is_granted_above_a_limit(self) -> None:
        for where, cap in self.cap.items():
            total = self._sum(where)
            assert total <= cap
            limit = self._limit(where)
            # what was above a lowered limit may only shrink
            self.cap[where] = max(limit, total)

    def _limit(self, where: tuple[int | None, int | None]) -> int:
        return Limit.objects.get(
            project=None if where[0] is None else self.projects[where[0]],
            user=None if where[1] is None else self.people[where[1]],
            resource="gpus",
        ).amount


@pytest.mark.django_db
def test_c12_no_order_of_events_grants_above_a_limit() -> None:
    run_state_machine_as_test(
        Quota,
        settings=settings(
            max_examples=15,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
