"""Moving a kind's rows into the table of all work: parts of the migrations that did it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.management.color import no_style
from django.db.migrations.operations.base import Operation

# Columns of the table of all work that every kind had before.
COMMON = (
    *("uid", "cluster_key", "desired", "generation", "observed_generation", "phase", "reason"),
    *("message", "phase_since", "external_ref", "next_reconcile_at", "failures", "lease_token"),
    *("lease_until", "lease_attempts", "last_observed_at", "created_at", "updated_at"),
    *("deleted_at", "project_id", "owner_id", "name", "cpu_milli", "memory_mib", "launch"),
    *("asked_at", "started_at", "stop_reason", "nonce"),
)


class AlterBases(Operation):
    """Say in the state which model a model is a child of. The database knows no such thing."""

    reduces_to_sql = False
    reversible = False

    def __init__(self, name: str, bases: Sequence[str]) -> None:
        self.name = name
        self.bases = tuple(bases)

    def state_forwards(self, app_label: str, state: Any) -> None:
        state.models[app_label, self.name.lower()].bases = self.bases
        state.reload_model(app_label, self.name.lower(), delay=False)

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        del app_label, schema_editor, from_state, to_state

    def describe(self) -> str:
        return f"Make {self.name} a child of {', '.join(self.bases)}"


def hold(schema_editor: Any, *tables: str) -> None:
    """Let nobody write to ``tables`` until the migration is over.

    A process of the version before that still runs waits, and then finds its columns gone: what it
    would write after the copy would be lost. SQLite has one writer anyhow.
    """
    if schema_editor.connection.vendor == "postgresql":
        names = ", ".join(schema_editor.quote_name(name) for name in tables)
        schema_editor.execute(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE")


def copy_rows(
    schema_editor: Any, workload: Any, table: str, columns: Mapping[str, str]
) -> None:
    """Copy the rows of ``table`` to the table of all work, with their ids.

    ``columns``: beside those of ``COMMON``, column → what it is, in SQL.
    """
    quote = schema_editor.quote_name
    wanted = {"id": "id", **{name: quote(name) for name in COMMON}, **columns}
    names = ", ".join(quote(name) for name in wanted)
    schema_editor.execute(
        f"INSERT INTO {quote(workload._meta.db_table)} ({names}) "
        f"SELECT {', '.join(wanted.values())} FROM {quote(table)}"
    )
    settle(schema_editor)
    connection = schema_editor.connection
    for statement in connection.ops.sequence_reset_sql(no_style(), [workload]):
        schema_editor.execute(statement)


def settle(schema_editor: Any) -> None:
    """Check foreign keys now: a table with checks to come can't be altered."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        schema_editor.execute("SET CONSTRAINTS ALL DEFERRED")
