"""The dashboard of 30 days, and the closing of an hour, of 1,500 nodes with eight GPUs each.

1,000 projects, 3,000 people, 10,000 workloads. On the PostgreSQL that ``BERTH_TEST_POSTGRES``
names, which is what such a platform has; else on SQLite, and the note says so.
"""

from __future__ import annotations

import os
import random
import tempfile
from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from uuid import UUID

from benchmarks.lib import Result, sized, timed

PROJECTS, PEOPLE, WORKS = sized(1000, 20), sized(3000, 40), sized(10_000, 100)
GPUS, DAYS, FLAVORS = 12_000, 30, ("h100-80", "a100-80", "a100-40", "l40s", "t4")
HOUR_S = 3600.0


def setup(stack: ExitStack) -> str:
    """Set Django up with a migrated database of this run; return what it is."""
    var = os.environ["BERTH_VAR"] = tempfile.mkdtemp(prefix="berth-ratios-")
    os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings.test"
    url, name = f"sqlite:///{var}/ratios.sqlite3", "SQLite"
    if os.environ.get("BERTH_TEST_POSTGRES"):
        from tests.support.migrated import postgres_database

        url, name = stack.enter_context(postgres_database()), "PostgreSQL"
    os.environ["BERTH_TEST_DATABASE_URL"] = url
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connections

    call_command("migrate", verbosity=0)
    stack.callback(connections.close_all)
    return name


def dims(n: int) -> dict[str, Any]:
    """Return whose the n-th workload is; each person works in one project, on two kinds."""
    person = n % PEOPLE
    project = person % PROJECTS
    return {
        "project_uid": UUID(int=1 + project),
        "project_slug": f"p{project}",
        "owner_uid": UUID(int=1_000_000 + person),
        "owner_name": f"u{person}",
        "cluster_key": "east",
        "flavor": FLAVORS[(person + n // PEOPLE % 2) % len(FLAVORS)],
        "kind": ("workspace", "job")[n // PEOPLE % 2],
    }


def fill_days() -> int:
    """Write thirty days, in each grain, alike; return how many rows that is."""
    from common.clock import now
    from usage.ledger import HELD
    from usage.models import Grain, LedgerDay

    draw = random.Random(1)
    first = (now() - timedelta(days=DAYS)).date()
    keep = {
        Grain.ALL: ("cluster_key", "flavor", "kind"),
        Grain.PROJECT: ("cluster_key", "flavor", "kind", "project_uid", "project_slug"),
        Grain.OWNER: tuple(dims(0)),
    }
    rows = []
    for grain, names in keep.items():
        groups = {tuple(dims(n)[name] for name in names) for n in range(min(WORKS, 2 * PEOPLE))}
        for group in sorted(groups, key=str):
            told = {cause: draw.random() * HOUR_S for cause in HELD}
            attached = sum(told.values())
            rows.append(
                LedgerDay(
                    day=first,
                    grain=grain,
                    **dict(zip(names, group, strict=True)),
                    **told,
                    attached=attached,
                    waiting=draw.random() * HOUR_S,
                    measured=attached / 2,
                    utilised=attached / 5,
                    supply=GPUS / 10 * 24 * HOUR_S if grain == Grain.ALL else 0,
                )
            )
    LedgerDay.objects.bulk_create(rows, batch_size=400)
    for n in range(1, DAYS):
        copy(LedgerDay, "day", first, first + timedelta(days=n))
    return len(rows) * DAYS


def copy(model: Any, column: str, of: Any, to: Any) -> None:
    """Write the rows of one moment again at another, inside the database."""
    from django.db import connection

    meta = model._meta  # noqa: SLF001 - the public name of it
    names = [f.column for f in meta.fields if not f.primary_key and f.column != column]
    some = ", ".join(names)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {meta.db_table} ({some}, {column})"
            f" SELECT {some}, %s FROM {meta.db_table} WHERE {column} = %s",
            [to, of],
        )


def fill_hour(hour: Any) -> None:
    """Write all that held devices in an hour, and what was measured of it each minute."""
    from metrics.models import FIELDS, MinuteSample
    from usage.models import CapacityHour, Interval

    begin = hour - timedelta(hours=3)
    marks = [[round(begin.timestamp() * 1000), "run"]]
    Interval.objects.bulk_create(
        (
            Interval(
                uid=UUID(int=n),
                launch=1,
                gpus=max(1, GPUS // WORKS),
                placed_at=begin,
                started_at=begin,
                ready_at=begin,
                marks=marks,
                **dims(n),
            )
            for n in range(WORKS)
        ),
        batch_size=400,
    )
    counts: dict[str, Any] = {f"{name}_count": 0 for name in FIELDS}
    MinuteSample.objects.bulk_create(
        (
            MinuteSample(
                **counts | {"gpu_utilisation_count": 6, "gpu_utilisation_sum": n % 600},
                uid=UUID(int=n),
                at=hour,
                samples=6,
                shared=0,
                simulated=0,
            )
            for n in range(WORKS)
        ),
        batch_size=400,
    )
    for minute in range(1, 60):
        copy(MinuteSample, "at", hour, hour + timedelta(minutes=minute))
    CapacityHour.objects.bulk_create(
        CapacityHour(cluster_key="east", flavor=f, hour=hour, samples=6, supply=6 * GPUS // 5)
        for f in FLAVORS
    )


def run(rounds: int = sized(10, 2)) -> list[Result]:
    with ExitStack() as stack:
        name = setup(stack)
        from django.db import connection

        from common.clock import now
        from usage import closing, ratio_history
        from usage.ratios import By, Scope
        from usage.selectors import Range

        rows = fill_days()
        hour = now().replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
        fill_hour(hour)
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("VACUUM ANALYZE")
        span = Range(now() - timedelta(days=DAYS), now())
        spent = [0.0]

        def sql(by: By) -> float:
            """Return milliseconds in the database of one look."""
            spent[0] = 0.0

            def watched(execute: Any, *words: Any) -> Any:
                answer: list[Any] = []
                spent[0] += timed(lambda: answer.append(execute(*words)))
                return answer[0]

            with connection.execute_wrapper(watched):
                ratio_history.history(Scope(), span, by, drawn=True)
            return spent[0] * 1000

        def whole(by: By) -> float:
            return timed(lambda: ratio_history.history(Scope(), span, by, drawn=True)) * 1000

        note = f"{rows:,} rows of {DAYS} days, {PROJECTS:,} projects, {name}"
        results = []
        for by in (By.PROJECT, By.PERSON, By.FLAVOR):
            whole(by)  # whatever was cold
            results.append(
                Result(
                    f"dashboard of {DAYS} days by {by}: SQL",
                    "ms",
                    [sql(by) for _round in range(rounds)],
                    goal=50,
                    floor=150,
                    note=f"{note}; with Python {min(whole(by) for _ in range(2)):.0f} ms",
                )
            )
        until = hour + timedelta(hours=1)
        results.append(
            Result(
                "an hour of the ledger",
                "s",
                [timed(lambda: closing.rows_of_hour(hour, until)) for _ in range(sized(3, 1))],
                goal=10,
                floor=30,
                note=f"{WORKS:,} workloads, {60 * WORKS:,} minutes, {name}; once an hour",
            )
        )
        return results


if __name__ == "__main__":
    for result in run():
        print(result.line())
