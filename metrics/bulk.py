"""Many rows at once, the fastest way that the database has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import connections, router

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from django.db import models

BATCH = 1000


def add(model: type[models.Model], columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Add rows, each the values of ``columns``; what is not named has the database's default."""
    using = router.db_for_write(model)
    connection = connections[using]
    if connection.vendor != "postgresql":
        made = [model(**dict(zip(columns, row, strict=True))) for row in rows]
        model._default_manager.using(using).bulk_create(made, batch_size=BATCH)  # noqa: SLF001
        return
    quote = connection.ops.quote_name
    table, names = quote(model._meta.db_table), ", ".join(map(quote, columns))  # noqa: SLF001
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy,
    ):
        for row in rows:
            copy.write_row(row)
