"""What budgets say of a launch where 10,000 launches of their window are over: room, and none."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any
from uuid import uuid4

from benchmarks.lib import Result, sized, timed
from benchmarks.waits import setup

LAUNCHES, PEOPLE, RUNNING, PAST_DAYS = sized(10_000, 300), 20, sized(50, 5), 30
HOURS = 3.0


def fill() -> tuple[Any, Any, Any]:
    """Return a project, one of its people, and its budget, with room. Days are summed."""
    from accounts.models import User
    from budgets import days
    from budgets.models import Budget, Roll
    from clusters.models import Flavor
    from common.clock import now
    from projects.models import Membership, Project
    from queues.models import Queue
    from usage.models import Interval

    at, chance = now(), Random("budgets")
    users = User.objects.bulk_create(
        [User(username=f"u{i}", email=f"u{i}@example.org") for i in range(PEOPLE)]
    )
    project = Project.objects.create(slug="busy", name="Busy", phase="running")
    Membership.objects.bulk_create(
        [Membership(project=project, user=user, role="member") for user in users]
    )
    for name in ("h100", "a100"):
        Flavor.objects.get_or_create(name=name, defaults={"label": name.upper()})

    def launch(n: int, *, over: bool) -> Interval:
        user = users[n % PEOPLE]
        ago = chance.uniform(0.1, PAST_DAYS) if over else 0.2
        start = at - timedelta(days=ago)
        length = timedelta(hours=chance.expovariate(1 / HOURS))
        return Interval(
            uid=uuid4(),
            launch=1 + n % 3,
            kind="job",
            project_uid=project.uid,
            project_slug=project.slug,
            owner_uid=user.uid,
            owner_name=user.username,
            cluster_key="local",
            gpus=chance.choice((1, 1, 1, 2, 4, 8)),
            flavor=chance.choice(("h100", "a100")),
            started_at=start,
            ended_at=min(at, start + length) if over else None,
        )

    Interval.objects.bulk_create(launch(n, over=True) for n in range(LAUNCHES))
    Interval.objects.bulk_create(launch(n, over=False) for n in range(RUNNING))
    above = Queue.objects.create(name="All")
    Queue.objects.create(name="Busy", project=project, parent=above)
    whole = {"hours": 1_000_000, "days": PAST_DAYS, "mode": "hard"}
    budget = Budget.objects.create(project=project, **whole)
    Budget.objects.create(project=project, user=users[0], **whole)
    Budget.objects.create(organisation=above, **whole)
    latest = Interval.objects.order_by("-pk").values_list("pk", flat=True)[0]
    Roll.objects.create(pk=1, safe=latest, latest=latest, latest_at=at)
    days.roll()
    return project, users[0], budget


def run(rounds: int = sized(20, 2)) -> list[Result]:
    setup()
    project, user, budget = fill()
    from django.db import transaction

    from budgets.selectors import verdict

    amounts = {"gpus": 8, "gpus:h100": 8}

    def ask() -> Any:
        with transaction.atomic():
            return verdict(project=project, owner=user, amounts=amounts, locked=True)

    def has_room() -> None:
        assert ask().refusal is None

    def has_none() -> None:
        assert ask().refusal is not None

    has_room()  # whatever was cold
    note = f"{LAUNCHES} launches in {PAST_DAYS} days, {RUNNING} that run; of a project, a person"
    note += " and an organisation"
    found = [timed(has_room) * 1000 for _round in range(rounds)]
    results = [Result("budgets asked, room", "ms", found, goal=20, floor=50, note=note)]
    budget.hours = 100
    budget.save()
    found = [timed(has_none) * 1000 for _round in range(rounds)]
    what = "budgets asked, none, and when there is"
    return [*results, Result(what, "ms", found, goal=20, floor=50, note=note)]


if __name__ == "__main__":
    for result in run():
        print(result.line())
