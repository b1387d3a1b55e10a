"""Queries of workloads: one table for what is common, one beside it for each kind's own columns.

Django updates a child model by reading the keys first and writing to them afterwards. Between the
two somebody else may change what the condition was about, so a condition would guard nothing.
Here the row of ``Workload`` is the lock of a workload, whatever kind's query asks: who locks or
writes takes it first, the kind's own row after it. Both are locked: PostgreSQL answers a row that
was waited for as it is then, and looks at the condition again, only for tables that it locks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from django.db import connections, models, transaction

Row_co = TypeVar("Row_co", bound=models.Model, covariant=True)


class WorkloadQuerySet(models.QuerySet[Row_co]):
    """Rows of ``Workload``, or of a kind: then every update holds its condition."""

    def select_for_update(
        self,
        nowait: bool = False,  # noqa: FBT001, FBT002 - Django's signature
        skip_locked: bool = False,  # noqa: FBT001, FBT002
        of: Sequence[str] = (),
        no_key: bool = False,  # noqa: FBT001, FBT002
    ) -> Any:
        """Lock both rows of a workload, and of other tables only what ``of`` names."""
        link = self._link()
        mine = () if link is None else (link.name,)
        named = tuple(dict.fromkeys((*mine, "self", *of)))
        return super().select_for_update(nowait, skip_locked, named, no_key)

    def update(self, **values: Any) -> int:
        """Write to both tables what belongs to each, under the lock of the workloads."""
        link = self._link()
        if link is None:
            return super().update(**values)
        base: Any = link.remote_field.model
        own = {field.name for field in self.model._meta.local_fields}  # noqa: SLF001
        own |= {field.attname for field in self.model._meta.local_fields}  # noqa: SLF001
        common = {name: value for name, value in values.items() if name not in own}
        detail = {name: value for name, value in values.items() if name in own}
        self._for_write = True
        with transaction.atomic(using=self.db, savepoint=False):
            pks = self._held()
            if common and pks:
                base._default_manager.using(self.db).filter(pk__in=pks).update(**common)  # noqa: SLF001
            if detail and pks:
                rows: Any = models.QuerySet(self.model, using=self.db).filter(pk__in=pks)
                rows.update(**detail)
        return len(pks)

    update.alters_data = True  # type: ignore[attr-defined]

    def _held(self) -> list[int]:
        """Lock the rows that fulfil the condition, always in the same order.

        As the update itself would: what refers to them by a key is committed meanwhile.
        """
        rows = self.select_related(None).order_by("pk")
        if connections[self.db].features.has_select_for_update:
            return [row.pk for row in rows.select_for_update(no_key=True).only("uid")]
        return list(rows.values_list("pk", flat=True))

    def _link(self) -> models.OneToOneField[Any, Any] | None:
        """Return the key by which a row of a kind points at its workload."""
        links = self.model._meta.parents.values()  # noqa: SLF001
        return next((link for link in links if isinstance(link, models.OneToOneField)), None)


WorkloadManager = models.Manager.from_queryset(WorkloadQuerySet)
