# ruff: noqa: E402, T201 - a program: settings first, then Django
"""Fifty threads ask for the last GPUs at once.

The words ``1 7`` play one round for each of these limits. Each round says how many won, how many
were refused by the limit, and what is reserved.
"""

import json
import os
import sys
import threading
import uuid
from collections import Counter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.test")

import django

django.setup()

from django.db import connection, connections, transaction
from django.db.models import Sum

from accounts.models import User
from accounts.principal import Principal
from common.errors import LimitExceeded
from projects.models import Membership, Project
from quotas import services
from quotas.models import Limit, Reservation

THREADS = 50


def main(*limits: str) -> list[dict[str, object]]:
    rounds = [race(int(limit)) for limit in limits]
    connections.close_all()
    return rounds


def race(limit: int) -> dict[str, object]:
    people = [User.objects.create(username=f"u{limit}-{i}", password="!") for i in range(5)]
    project = Project.objects.create(slug=f"race-{limit}", name="Race")
    for person in people:
        Membership.objects.create(project=project, user=person, role="member")
        Limit.objects.create(project=project, user=person, resource="gpus", amount=3)
    Limit.objects.create(project=project, resource="gpus", amount=limit)
    results: Counter[str] = Counter()
    barrier = threading.Barrier(THREADS)

    def attempt(index: int) -> None:
        person = people[index % len(people)]
        barrier.wait()
        try:
            with transaction.atomic():
                services.reserve(
                    principal=Principal(user=person),
                    project=project,
                    owner=person,
                    uid=uuid.uuid4(),
                    amounts={"gpus": 1, "cpu_milli": 1000},
                )
            results["won"] += 1
        except LimitExceeded:
            results["refused"] += 1
        except Exception as error:  # noqa: BLE001 - counted and shown
            results[type(error).__name__] += 1
        finally:
            connections.close_all()

    threads = [threading.Thread(target=attempt, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    held = Reservation.objects.filter(project=project, resource="gpus")
    total = held.aggregate(n=Sum("amount", default=0))["n"]
    return {**results, "reserved": total, "vendor": connection.vendor}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
