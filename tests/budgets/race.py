# ruff: noqa: T201 - a program
"""Twenty threads start something at once for the last hours of a budget.

The words ``1 7`` play one round for each of these budgets. Each says how many won, how many were
refused, and what is reserved.
"""

import json
import sys

from tests.quotas.race import connections, contend, crowd  # first: it sets Django up

from budgets.models import Budget  # isort: skip
from budgets.services import require_room  # isort: skip

THREADS = 20


def main(*hours: str) -> list[dict[str, object]]:
    rounds = [race(limit) for limit in hours]
    connections.close_all()
    return rounds


def race(hours: str) -> dict[str, object]:
    project, people = crowd(f"hours-{hours}", 4)
    Budget.objects.create(project=project, hours=int(hours), mode="hard")
    return contend(
        project,
        people,
        {"gpus": 1},
        threads=THREADS,
        then=lambda whose: require_room(**whose, minutes=None),
    )


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
