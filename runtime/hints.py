"""Waking the engine after a change of intent."""

from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from common.clock import now
from runtime import reconcilers
from runtime.models import Reconcilable


def hint(row: Reconcilable) -> None:
    """Mark ``row`` due and wake a worker when the surrounding transaction commits.

    Losing the wake-up loses nothing: the sweep finds the due row.
    """
    table = reconcilers.table_of(type(row))
    table._default_manager.filter(pk=row.pk).update(next_reconcile_at=now())  # noqa: SLF001
    wake(row)


def wake(row: Reconcilable) -> None:
    """The same for a row that the surrounding transaction made, due from the first moment."""
    _wake_on_commit(row.KIND, [row.pk])


def hint_uids(kind: str, uids: Iterable[UUID]) -> None:
    """The same for many rows of one kind, by uid. Rows that are gone are left alone."""
    if kind not in reconcilers.registered():
        return
    rows = reconcilers.rows_of(kind).filter(uid__in=list(uids), deleted_at__isnull=True)
    pks = list(rows.values_list("pk", flat=True))
    rows.update(next_reconcile_at=now())
    _wake_on_commit(kind, pks)


def hint_soon(kind: str, uids: Iterable[UUID], seconds: float) -> None:
    """Let rows be looked at within so long; said again meanwhile, it is one look."""
    if kind in reconcilers.registered():
        at = now() + timedelta(seconds=seconds)
        rows = reconcilers.rows_of(kind).filter(uid__in=list(uids), deleted_at__isnull=True)
        later = Q(next_reconcile_at__gt=at) | Q(next_reconcile_at__isnull=True)
        rows.filter(later).update(next_reconcile_at=at)


def _wake_on_commit(kind: str, pks: list[int]) -> None:
    def send_all() -> None:
        from runtime.tasks import wake as send

        for pk in pks:
            send(kind, pk)

    if pks:
        transaction.on_commit(send_all, robust=True)
