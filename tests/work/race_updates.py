# ruff: noqa: T201 - a program
"""Many conditional updates of one row of a kind at once, each with a condition that holds once.

The conditions and what is written lie in the table of all work, in the kind's own, or in both. It
says how many of each race won, and what the row says then.
"""

import json
import threading
from collections.abc import Callable
from typing import Any

from tests.notebooks.race_world import begin  # first: it sets Django up

# isort: split
from django.db import connection, connections, transaction
from django.db.models import F

from clusters.installed import ensure_local_cluster
from loaders.models import Load
from volumes.services.create import project_volume_ensure

MANY = 8  # and the main thread: a pool of PostgreSQL has twelve connections


def main() -> dict[str, Any]:
    who, project, _preset = begin()
    ensure_local_cluster()
    volume = project_volume_ensure(principal=who, project=project)
    row = Load.objects.create(
        project=project, owner=who.user, volume=volume, anonymous=True, name="l", store_kind="s3"
    )
    rows = Load.objects.filter(pk=row.pk)
    races: dict[str, Callable[[], int]] = {
        "common by common": lambda: rows.filter(reason="").update(reason="won"),
        "own by own": lambda: rows.filter(result="").update(result="done"),
        "common by own": lambda: rows.filter(seq=0).update(launch=F("launch") + 1, seq=1),
        "own by common": lambda: rows.filter(launch=1).update(tries=F("tries") + 1, launch=2),
        "after a lock": lambda: _locked(row.pk),
    }
    answer: dict[str, Any] = {"vendor": connection.vendor}
    for name, race in races.items():
        answer[name] = sum(_at_once(race))
    row.refresh_from_db()
    answer["row"] = [row.reason, row.result, row.launch, row.seq, row.tries, row.bytes_done]
    connections.close_all()
    return answer


def _locked(pk: int) -> int:
    """Read under the lock of the row, write a column of the kind's own."""
    with transaction.atomic():
        row = Load.objects.select_for_update(of=("self",)).select_related("credential").get(pk=pk)
        row.bytes_done += 1
        row.save(update_fields=["bytes_done"])
    return 1


def _at_once(race: Callable[[], int]) -> list[int]:
    ready = threading.Barrier(MANY)
    won: list[int] = []

    def one() -> None:
        try:
            connection.ensure_connection()
            ready.wait(60)
            won.append(race())
        finally:
            connections.close_all()

    threads = [threading.Thread(target=one) for _ in range(MANY)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won


if __name__ == "__main__":
    print(json.dumps(main()))
