# ruff: noqa: E402, T201 - a program: settings first, then Django
"""Fifty threads of five people ask for the last GPUs at once.

The words ``1 7 each-3`` play a round for each of these limits, of the project or of each person.
Each round says how many won, how many were refused by the limit, and what is reserved.
"""

import json
import os
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.test")

import django

django.setup()

from django.db import connection, connections, transaction
from django.db.models import Max, Sum

from accounts.models import User
from accounts.principal import Principal
from common.errors import LimitExceeded
from projects.models import Membership, Project
from quotas import services
from quotas.models import Limit, Reservation

THREADS = 50


def main(*limits: str) -> list[dict[str, object]]:
    rounds = [race(word) for word in limits]
    connections.close_all()
    return rounds


def race(word: str) -> dict[str, object]:
    project, people = crowd(word, 5)
    amount, each = int(word.removeprefix("each-")), word.startswith("each-")
    if not each:
        for person in people:
            Limit.objects.create(project=project, user=person, resource="gpus", amount=3)
    Limit.objects.create(project=project, resource="gpus", amount=amount, each=each)
    found = contend(project, people, {"gpus": 1, "cpu_milli": 1000}, threads=THREADS)
    if each:
        held = Reservation.objects.filter(project=project, resource="gpus").order_by()
        by_person = held.values("owner").annotate(n=Sum("amount"))
        found["most"] = by_person.aggregate(most=Max("n"))["most"]
    return found


def crowd(name: str, many: int) -> tuple[Project, list[User]]:
    people = [User.objects.create(username=f"u{name}-{i}", password="!") for i in range(many)]
    project = Project.objects.create(slug=f"race-{name}", name="Race")
    for person in people:
        Membership.objects.create(project=project, user=person, role="member")
    return project, people


def contend(
    project: Project,
    people: Sequence[User],
    amounts: dict[str, int],
    *,
    threads: int,
    then: Callable[[dict[str, Any]], object] = lambda _whose: None,
) -> dict[str, object]:
    """Reserve at once from many threads, in one transaction with ``then``; count how it went."""
    results: list[str] = []  # adding to a Counter is not one step
    barrier = threading.Barrier(threads)

    def attempt(index: int) -> None:
        person = people[index % len(people)]
        whose = {"project": project, "owner": person, "uid": uuid.uuid4(), "amounts": amounts}
        barrier.wait()
        try:
            with transaction.atomic():
                services.reserve(principal=Principal(user=person), **whose)
                then(whose)
            results.append("won")
        except LimitExceeded:
            results.append("refused")
        except Exception as error:  # noqa: BLE001 - counted and shown
            results.append(type(error).__name__)
        finally:
            connections.close_all()

    running = [threading.Thread(target=attempt, args=(i,)) for i in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    held = Reservation.objects.filter(project=project, resource="gpus")
    total = held.aggregate(n=Sum("amount", default=0))["n"]
    return {**Counter(results), "reserved": total, "vendor": connection.vendor}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
