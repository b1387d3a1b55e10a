"""Many rows of a kind of work at once: Django's own ``bulk_create`` knows no child models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import models, transaction

from work.models import Workload


def insert(rows: Iterable[Any], *, batch_size: int = 500) -> list[Any]:
    """Insert ``rows``, all of one kind, in few statements; they know their ids afterwards."""
    made = list(rows)
    if not made:
        return made
    model = type(made[0])
    common = [field.attname for field in Workload._meta.concrete_fields if not field.primary_key]
    for row in made:
        row.kind = row.KIND
        row.name_scope = row.owner_id if row.NAMES_PER_OWNER else 0
    with transaction.atomic():
        parents = Workload.objects.bulk_create(
            [Workload(**{name: getattr(row, name) for name in common}) for row in made],
            batch_size=batch_size,
        )
        for row, parent in zip(made, parents, strict=True):
            row.pk = row.id = parent.pk
            row.created_at, row.updated_at = parent.created_at, parent.updated_at
            row._state.adding, row._state.db = False, parent._state.db
        models.QuerySet(model)._batched_insert(made, model._meta.local_concrete_fields, batch_size)
    return made
