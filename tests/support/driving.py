"""Drive every row that is due, in this process, until all is quiet: the worker's part in tests."""

from datetime import timedelta

from django.db import connection

from common.clock import now
from runtime import engine, reconcilers

# Asked of each kind before and after each test's work: building it by the ORM took most of the time.
DUE = (
    "SELECT {pk} FROM {table} WHERE (lease_until IS NULL OR lease_until < %s)"
    " AND deleted_at IS NULL AND next_reconcile_at <= %s {own} ORDER BY next_reconcile_at LIMIT 200"
)


def due(kind: str, *, horizon_s: float = 0.0) -> list[int]:
    """Return the primary keys of due, free rows of one kind, longest overdue first."""
    model = reconcilers.reconciler_for(kind).model
    meta = reconcilers.table_of(model)._meta
    quote, moment = connection.ops.quote_name, connection.ops.adapt_datetimefield_value
    at = now()
    assert meta.pk is not None
    with connection.cursor() as cursor:
        cursor.execute(
            DUE.format(
                pk=quote(meta.pk.column),
                table=quote(meta.db_table),
                own="" if meta.model is model else "AND kind = %s",
            ),
            [
                moment(at),
                moment(at + timedelta(seconds=horizon_s)),
                *([] if meta.model is model else [kind]),
            ],
        )
        return [pk for (pk,) in cursor.fetchall()]


def run_due(*, horizon_s: float = 5.0, rounds: int = 30) -> int:
    """Drive every row that is due within ``horizon_s``; answers how many passes were made.

    Ends after ``rounds`` when something never settles.
    """
    passes = 0
    for _round in range(rounds):
        did = 0
        for kind in reconcilers.registered():
            for pk in due(kind, horizon_s=horizon_s):
                did += engine.reconcile_one(kind, pk, horizon_s=horizon_s)
        passes += did
        if not did:
            break
    return passes
