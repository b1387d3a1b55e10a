"""A condition of an update holds until it is written, whichever of a kind's two tables it is about."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from loaders.models import Load
from runtime import engine, reconcilers
from runtime.protocol import Phase
from runtime.reconcilers import Outcome
from tests.support.races import Races, race_on
from work.models import Workload

RACE = "tests.work.race_updates"
ONCE = {
    "common by common": 1,
    "own by own": 1,
    "common by own": 1,
    "own by common": 1,
    "after a lock": 8,
    "row": ["won", "done", 2, 1, 1, 8],
}


def test_of_many_updates_with_one_condition_one_wins_on_sqlite(races: Races) -> None:
    assert races.run(RACE) == {"vendor": "sqlite", **ONCE}


@pytest.mark.postgres
def test_of_many_updates_with_one_condition_one_wins_on_postgresql(migrated_postgres: str) -> None:
    assert race_on(migrated_postgres, RACE) == {"vendor": "postgresql", **ONCE}


@pytest.fixture
def row(project: Any, alice: Any) -> Load:
    from volumes.services.create import project_volume_ensure

    return Load.objects.create(
        project=project,
        owner=alice,
        volume=project_volume_ensure(principal=None, project=project),
        anonymous=True,
        name="images",
        store_kind="s3",
        next_reconcile_at="2026-01-01T00:00:00Z",
    )


def test_a_row_of_a_kind_is_written_to_both_tables_and_found_by_both(row: Load) -> None:
    assert (row.kind, row.name_scope, bool(row.short_id)) == ("load", 0, True)
    rows = Load.objects.filter(name="images", seq=0)
    assert rows.update(reason="r", seq=3) == 1
    assert rows.update(reason="other") == 0
    row.refresh_from_db()
    assert (row.reason, row.seq, Workload.objects.get(pk=row.pk).reason) == ("r", 3, "r")


def test_a_stale_result_of_a_step_is_dropped_from_both_tables(row: Load) -> None:
    held = engine.claim("load", row.pk)
    assert held is not None
    Workload.objects.filter(pk=row.pk).update(lease_token=None)
    engine.apply(held, Outcome(Phase.RUNNING, updates={"seq": 9, "launch": 7}))
    row.refresh_from_db()
    assert (row.seq, row.launch, row.phase) == (0, 0, "pending")


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.RUNNING], ids=["quiet", "told"])
def test_a_result_goes_to_both_tables(row: Load, phase: Phase) -> None:
    held = engine.claim("load", row.pk)
    assert held is not None
    engine.apply(held, Outcome(phase, updates={"seq": 9, "launch": 7}))
    row.refresh_from_db()
    assert (row.seq, row.launch, row.phase, row.lease_token) == (9, 7, phase, None)


def test_one_look_finds_what_is_due_of_all_kinds_of_work(row: Load) -> None:
    tables = [(rows.model, kind) for rows, kind in reconcilers.tables()]
    assert tables.count((Workload, "")) == 1
    assert not [
        model for model, _kind in tables if model is not Workload and hasattr(model, "nonce")
    ]
    with CaptureQueriesContext(connection) as asked:
        assert engine.claim("workspace", row.pk) is None  # an id of another kind
    assert len(asked) == 1
