"""``UPDATE … RETURNING``, for which Django's query sets have no word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connections, models
from django.db.models.sql import UpdateQuery


def update_returning(
    rows: models.QuerySet[Any], values: Mapping[str, Any], fields: Sequence[str]
) -> list[tuple[Any, ...]]:
    """Update ``rows`` and return the named columns of each as they are now, in one statement.

    ``fields`` are the model's own; ``rows`` has no slice, annotation or distinct.
    """
    using = rows.select_for_update().db  # where one writes
    update: Any = rows.query.chain(UpdateQuery)
    update.clear_ordering(force=True)
    update.add_update_values(values)
    try:
        sql, params = update.get_compiler(using).as_sql()
    except EmptyResultSet:  # "in" nothing
        return []

    read = rows.model._default_manager.values_list(*fields).query.get_compiler(using)  # noqa: SLF001
    read.setup_query()
    columns = [column for column, _sql, _alias in read.select]
    connection = connections[using]
    names = ", ".join(connection.ops.quote_name(column.target.column) for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(f"{sql} RETURNING {names}", params)
        found = cursor.fetchall()
    converters = read.get_converters(columns)
    return [tuple(row) for row in read.apply_converters(found, converters)]
