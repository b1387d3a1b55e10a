"""What a database that could not do its part means to whoever asked (E6, E18)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
from django.core.exceptions import EmptyResultSet
from django.db import InterfaceError, NotSupportedError, OperationalError, connections, models
from django.db.models.sql import UpdateQuery
from django.utils.translation import gettext as _

from common.disk import DiskFull, is_disk_full
from common.errors import BerthError, Unavailable

log = structlog.get_logger(__name__)

# Classes and codes of PostgreSQL (its appendix A) for what passes: connections, resources,
# deadlocks and serialization, a lock or an answer that took too long, a server that restarts.
_PASSING = ("08", "40", "53", "55P03", "57")
# SQLite has words only.
_BUSY = ("database is locked", "database table is locked", "unable to open database file")
# A statement that was prepared before somebody (the next version) widened a column that it reads.
_OLD_PLAN, _OLD_PLAN_WORDS = "0A000", "cached plan must not change result type"


class DatabaseAway(Unavailable):
    """The database was away, restarting or too busy to answer in time."""

    code = "database-away"
    retry_after_s = 2

    def __init__(self) -> None:
        super().__init__(_("The database did not answer in time. Try again in a moment."))


def is_database_away(error: BaseException) -> bool:
    """Whether it helps to try again: no connection, no turn, or no answer in time."""
    if isinstance(error, InterfaceError):
        return True  # the connection broke in our hands
    if is_old_plan(error):
        return True  # the rollback forgot it
    if not isinstance(error, OperationalError) or is_disk_full(error):
        return False
    cause = error.__cause__
    if type(cause).__module__.startswith("psycopg"):
        state = getattr(cause, "sqlstate", None)
        return state is None or state.startswith(_PASSING)  # none: it never reached the server
    return any(words in str(error) for words in _BUSY)


def is_old_plan(error: BaseException) -> bool:
    cause = error.__cause__
    is_such = isinstance(error, NotSupportedError) and _OLD_PLAN_WORDS in str(error)
    return is_such and getattr(cause, "sqlstate", None) == _OLD_PLAN


def plan_anew(
    execute: Callable[..., Any],
    sql: str,
    params: Any,
    many: bool,  # noqa: FBT001 - Django calls it so
    context: dict[str, Any],
) -> Any:
    """Forget what a connection prepared once that does not fit any more, and ask again.

    Within a transaction the rollback does so; outside there is none, and the connection would
    refuse that statement as long as it lives.
    """
    try:
        return execute(sql, params, many, context)
    except NotSupportedError as error:
        connection = context["connection"]
        if connection.in_atomic_block or not is_old_plan(error):
            raise
        log.info("database.planned_anew")
        connection.connection.execute("DEALLOCATE ALL")
        return execute(sql, params, many, context)


def keep_plans_fresh(*, connection: Any, **_more: Any) -> None:
    """Receive ``connection_created``."""
    if connection.vendor == "postgresql" and plan_anew not in connection.execute_wrappers:
        connection.execute_wrappers.append(plan_anew)


def said_of(error: BaseException) -> BerthError | None:
    """Return what to tell somebody about a database's error; None where it is a fault of ours."""
    if is_disk_full(error):
        return DiskFull()
    if is_database_away(error):
        log.warning("database.away", error=repr(error))
        return DatabaseAway()
    return None


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
