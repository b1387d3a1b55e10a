"""What a migration may do to a database that processes of the version before it still write.

Expand, then contract: a version adds, the versions that don't know it go on, and a later version
takes away what nobody uses any more. docs/dev/upgrades.md has the recipes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, models
from django.db.migrations import Migration
from django.db.migrations import operations as ops
from django.db.migrations.state import ProjectState

TAKES_AWAY = (ops.RemoveField, ops.RenameField, ops.DeleteModel, ops.RenameModel)
MOVES = (ops.AlterModelTable, ops.AlterOrderWithRespectTo, ops.AlterUniqueTogether)
WIDER = {
    "CharField": ("TextField",),
    "SlugField": ("TextField",),
    "SmallIntegerField": ("IntegerField", "BigIntegerField"),
    "IntegerField": ("BigIntegerField",),
    "PositiveSmallIntegerField": ("PositiveIntegerField", "PositiveBigIntegerField"),
    "PositiveIntegerField": ("PositiveBigIntegerField",),
}
DROPS = re.compile(r"\b(drop|rename|set\s+not\s+null)\b", re.IGNORECASE)


@dataclass
class Walk:
    """Goes through the migrations of one app in order, and says what breaks the version before."""

    state: ProjectState = field(default_factory=ProjectState)
    made_here: set[tuple[str, str]] = field(default_factory=set)

    def faults(self, migration: Migration) -> list[tuple[str, str]]:
        """Return ``(what, why)`` for each operation an older process could not live with."""
        self.made_here = set()
        found: list[tuple[str, str]] = []
        for operation in migration.operations:
            found += self._judge(migration.app_label, operation)
        return found

    def _judge(self, app: str, operation: Any) -> Iterator[tuple[str, str]]:
        if isinstance(operation, ops.SeparateDatabaseAndState):
            for one in operation.state_operations:
                yield from self._forgets(app, one)
                one.state_forwards(app, self.state)
            for one in operation.database_operations:
                yield from self._breaks(app, one)
            return
        yield from self._breaks(app, operation)
        if isinstance(operation, ops.CreateModel):
            self.made_here.add((app, operation.name.lower()))
        operation.state_forwards(app, self.state)

    def _breaks(self, app: str, operation: Any) -> Iterator[tuple[str, str]]:
        name = _name(app, operation)
        if isinstance(operation, ops.RunSQL):
            if DROPS.search(str(operation.sql)):
                yield f"{app}: {operation.sql}", "takes away in SQL what older versions may use"
            return
        if (app, _table(operation)) in self.made_here:
            return  # a table that no older version knows
        if isinstance(operation, ops.AddField):
            if _needs_a_value(operation.field):
                yield name, "an INSERT that does not know this column fails: null or db_default"
        elif isinstance(operation, ops.AlterField):
            yield from ((name, why) for why in self._narrower(app, operation))
        elif isinstance(operation, (*TAKES_AWAY, *MOVES)):
            yield name, "older versions still use it: from the state first, from the database later"
        elif isinstance(operation, ops.AddConstraint):
            yield f"{app}.{operation.constraint.name}", "older versions must keep it too: say why"

    def _narrower(self, app: str, operation: ops.AlterField) -> Iterator[str]:
        old, new = self._field(app, operation.model_name, operation.name), operation.field
        if old.null and not new.null:
            yield "older versions may write NULL"
        if _has_default(old) and _needs_a_value(new):
            yield "an INSERT that does not know this column fails without its db_default"
        if new.unique and not old.unique:
            yield "older versions may write the same value twice"
        if not _holds_as_much(old, new):
            yield "older versions may write what does not fit any more"

    def _forgets(self, app: str, operation: Any) -> Iterator[tuple[str, str]]:
        """The first of two steps: this version's INSERT must do without the column."""
        if isinstance(operation, ops.RemoveField):
            old = self._field(app, operation.model_name, operation.name)
            if _needs_a_value(old):
                yield _name(app, operation), "the column stays and wants a value: db_default first"

    def _field(self, app: str, model: str, name: str) -> Any:
        return self.state.models[app, model.lower()].fields[name]


def _name(app: str, operation: Any) -> str:
    parts = [app, _table(operation)]
    if hasattr(operation, "model_name") and hasattr(operation, "name"):
        parts.append(operation.name)
    return ".".join(part for part in parts if part)


def _table(operation: Any) -> str:
    """The model, which is called ``name`` where the operation is about all of it."""
    for attribute in ("model_name", "old_name", "name"):
        if value := getattr(operation, attribute, ""):
            return str(value).lower()
    return ""


def _has_default(one: Any) -> bool:
    return one.db_default is not models.NOT_PROVIDED


def _needs_a_value(one: Any) -> bool:
    has_column = not one.many_to_many
    return has_column and not one.null and not _has_default(one) and not one.primary_key


def _holds_as_much(old: Any, new: Any) -> bool:
    if isinstance(old, models.ForeignKey) and isinstance(new, models.ForeignKey):
        return True
    if old.get_internal_type() != new.get_internal_type():
        return new.get_internal_type() in WIDER.get(old.get_internal_type(), ())
    if isinstance(new, models.CharField):
        return new.max_length is None or new.max_length >= (old.max_length or new.max_length + 1)
    if isinstance(new, models.DecimalField):
        return new.max_digits >= old.max_digits and new.decimal_places >= old.decimal_places
    return bool(old.db_type(connection) == new.db_type(connection))
