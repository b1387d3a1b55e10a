# ruff: noqa: E402 - a program: settings first, then Django
"""Twenty threads start something at once for the last hours of a budget.

The words ``1 7`` play one round for each of these budgets. Each says how many won, how many were
refused, and what is reserved.
"""

import os
import sys
import threading
import uuid
from collections import Counter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.test")

import django

django.setup()

import json

from django.db import connection, connections, transaction

from accounts.models import User
from accounts.principal import Principal
from budgets.models import Budget
from budgets.services import require_room
from common.errors import LimitExceeded
from projects.models import Membership, Project
from quotas.models import Reservation
from quotas.services import reserve

THREADS = 20


def main(*hours: str) -> list[dict[str, object]]:
    rounds = [race(int(limit)) for limit in hours]
    connections.close_all()
    return rounds


def race(hours: int) -> dict[str, object]:
    people = [User.objects.create(username=f"u{hours}-{i}", password="!") for i in range(4)]
    project = Project.objects.create(slug=f"race-{hours}", name="Race")
    for person in people:
        Membership.objects.create(project=project, user=person, role="member")
    Budget.objects.create(project=project, hours=hours, mode="hard")
    results: Counter[str] = Counter()
    barrier = threading.Barrier(THREADS)

    def attempt(index: int) -> None:
        person, uid = people[index % len(people)], uuid.uuid4()
        whose = {"project": project, "owner": person, "uid": uid, "amounts": {"gpus": 1}}
        barrier.wait()
        try:
            with transaction.atomic():
                reserve(principal=Principal(user=person), **whose)
                require_room(**whose, minutes=None)
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
    held = Reservation.objects.filter(project=project, resource="gpus").count()
    return {**results, "reserved": held, "vendor": connection.vendor}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))  # noqa: T201 - the answer
