# ruff: noqa: E402, T201 - a program: settings first, then Django
"""Fifty threads ask for the last GPU at once; run as a program against a database of its own.

Prints one JSON line: how many won, how many were refused by the limit, and what is reserved.
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

from django.core.management import call_command
from django.db import connection, connections, transaction
from django.db.models import Sum

from accounts.models import User
from accounts.principal import Principal
from common.errors import LimitExceeded
from projects.models import Membership, Project
from quotas import services
from quotas.models import Limit, Reservation

THREADS = 50


def main() -> None:
    call_command("migrate", verbosity=0)
    people = [User.objects.create(username=f"u{i}", password="!") for i in range(5)]
    project = Project.objects.create(slug="race", name="Race")
    for person in people:
        Membership.objects.create(project=project, user=person, role="member")
    Limit.objects.create(project=project, resource="gpus", amount=int(sys.argv[1]))
    for person in people:
        Limit.objects.create(project=project, user=person, resource="gpus", amount=3)
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
    total = Reservation.objects.filter(resource="gpus").aggregate(n=Sum("amount", default=0))["n"]
    print(json.dumps({**results, "reserved": total, "vendor": connection.vendor}))
    connections.close_all()


if __name__ == "__main__":
    main()
