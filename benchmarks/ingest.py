"""Readings of 1,000 GPUs every ten seconds: how fast they are kept, and what that takes.

On PostgreSQL (``BENCH_DATABASE_URL``) against COPY of the same rows into tables without an index;
without it on SQLite, which has no COPY: against inserting them.
"""

from __future__ import annotations

import os
import tempfile
import time
from datetime import timedelta
from typing import Any
from uuid import uuid4

from benchmarks.lib import Result, sized

GPUS, EVERY_S, TURNS, ROUNDS = sized(1000, 40), 10, sized(60, 6), sized(20, 2)
CORE_GOAL, CORE_FLOOR = 0.1, 0.2
BYTES_GOAL, BYTES_FLOOR = 4, 60


def setup() -> None:
    os.environ["BERTH_VAR"] = tempfile.mkdtemp(prefix="berth-ingest-")
    os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings.test"
    url = os.environ.get("BENCH_DATABASE_URL", "")
    url = url or f"sqlite:///{os.environ['BERTH_VAR']}/ingest.sqlite3"
    os.environ["BERTH_TEST_DATABASE_URL"] = url
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", run_syncdb=True, verbosity=0)


class Told:
    """A driver that tells of every device what a made-up day says."""

    def __init__(self, devices: list[tuple[str, str]]) -> None:
        self._devices = devices
        self.turn = 0

    def usage(self, _uids: Any) -> dict[str, Any]:
        return {}

    def device_use(self, _holders: Any, _sources: Any) -> list[Any]:
        from runtime.use_sources import DeviceUse

        self.turn += 1
        return [
            DeviceUse(name, uid, float((number * 7 + self.turn) % 101), 40_000.0)
            for number, (name, uid) in enumerate(self._devices)
        ]


def run() -> list[Result]:
    setup()
    import time_machine
    from django.db import connection, transaction

    from metrics import bulk, devices, rollups, sampling
    from metrics.models import DeviceReading, HourSample, MinuteSample, Sample
    from tests.support.devices import GPUS as EACH
    from tests.support.devices import a_cluster, nodes

    cluster = a_cluster()
    names = nodes(cluster, GPUS // EACH)
    told = Told([(f"{node}/GPU-{n}", "") for node in names for n in range(EACH)])
    sampling.driver_for = lambda _key: told  # type: ignore[assignment,return-value]
    begin = (sampling.now() - timedelta(hours=1)).replace(minute=0, second=0, microsecond=0)
    cores = []
    for turn in range(TURNS):
        with time_machine.travel(begin + timedelta(seconds=turn * EVERY_S), tick=False):
            cpu = time.process_time()
            sampling.sample(lambda row: row.pk == cluster.pk)
            if turn % 6 == 5:
                rollups.roll_up(rollups.MINUTE)
            cores.append((time.process_time() - cpu) / EVERY_S)
    raw = Sample.objects.count()
    rollups.roll_up(rollups.HOUR)
    size = sum(_size(connection, model) for model in (MinuteSample, HourSample))
    samples = list(Sample.objects.order_by("-pk").values_list(*sampling.Row._fields)[:GPUS])
    cells = [devices.Cell(*row) for row in DeviceReading.objects.values_list(*devices.COLUMNS)]
    ours, peer = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        with transaction.atomic():
            rollups.progress_locked()
            bulk.add(Sample, sampling.Row._fields, samples)
            devices.replace_all(cluster.key, cells)
        ours.append((len(samples) + len(cells)) / (time.perf_counter() - start))
        peer.append((len(samples) + len(cells)) / _copied(connection, Sample, DeviceReading))
    return [
        Result(
            f"readings of {GPUS} GPUs kept, rows/s",
            "rows/s",
            ours,
            peer,
            "COPY of the same rows" if connection.vendor == "postgresql" else "plain INSERT",
            0.5,
            0.25,
            "higher",
            note=f"{connection.vendor}; a sample and the reading of each, with their indexes",
        ),
        Result(
            f"what {GPUS} GPUs every {EVERY_S} s take of a core, with roll-ups",
            "cores",
            cores,
            goal=CORE_GOAL,
            floor=CORE_FLOOR,
            note=f"{connection.vendor}; without the database's own part, where it is a server",
        ),
        Result(
            "roll-ups, bytes a raw sample",
            "B",
            [size / raw],
            goal=BYTES_GOAL,
            floor=BYTES_FLOOR,
            note=f"{raw} samples; minutes and hours with their indexes, as the database says",
        ),
    ]


def _copied(connection: Any, *models: Any) -> float:
    """Return the seconds that the newest rows of these tables take into ones without an index."""
    found = 0.0
    for model in models:
        columns = [f.column for f in model._meta.concrete_fields if not f.primary_key]  # noqa: SLF001
        values = list(model.objects.order_by("-pk").values_list(*columns)[:GPUS])
        table, there = f"bench_{uuid4().hex[:8]}", model._meta.db_table  # noqa: SLF001
        with connection.cursor() as cursor:
            said = ", ".join(map(connection.ops.quote_name, columns))
            cursor.execute(f"CREATE TABLE {table} AS SELECT {said} FROM {there} WHERE 1 = 0")
            begin = time.perf_counter()
            if connection.vendor == "postgresql":
                with cursor.copy(f"COPY {table} ({said}) FROM STDIN") as copy:
                    for row in values:
                        copy.write_row(row)
            else:
                marks = ", ".join(["%s"] * len(columns))
                plain = [[str(v) if hasattr(v, "hex") else v for v in row] for row in values]
                cursor.executemany(f"INSERT INTO {table} VALUES ({marks})", plain)
            found += time.perf_counter() - begin
            cursor.execute(f"DROP TABLE {table}")
    return found


def _size(connection: Any, model: Any) -> int:
    table = model._meta.db_table  # noqa: SLF001
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT pg_total_relation_size(%s)", [table])
        else:
            cursor.execute(
                "SELECT sum(pgsize) FROM dbstat WHERE name IN"
                " (SELECT name FROM sqlite_master WHERE tbl_name = %s)",
                [table],
            )
        return int(cursor.fetchone()[0] or 0)
