"""Waking the engine after a change of intent."""

from django.db import transaction

from common.clock import now
from runtime.models import Reconcilable


def hint(row: Reconcilable) -> None:
    """Mark ``row`` due and wake a worker when the surrounding transaction commits.

    Losing the wake-up loses nothing: the sweep finds the due row.
    """
    type(row).objects.filter(pk=row.pk).update(next_reconcile_at=now())  # type: ignore[attr-defined]
    kind, pk = row.KIND, row.pk

    def wake() -> None:
        from runtime.tasks import wake as send

        send(kind, pk)

    transaction.on_commit(wake)
