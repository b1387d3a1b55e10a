"""All that a kind of work says of itself: a table of fields, rights, words, what runs."""

from __future__ import annotations

from typing import Any, ClassVar

from projects.access import Permission
from runtime.spec import WorkloadSpec
from runtime.workload import WorkloadReconciler
from tests.work.tiny.models import Tiny
from work import fields as f
from work import needs
from work import standard_fields as s
from work.kinds import Kind
from work.runtime_spec import common_fields, keys_of

COLOR = f.Choice(name="color", label="Color", choices=[("red", "Red"), ("blue", "Blue")])

TINY = Kind(
    word=Tiny.KIND,
    document="Tiny",
    model=Tiny,
    one="Tiny",
    many="Tinies",
    icon="circle",
    table=f.Table(s.NAME, COLOR, *s.SIZE, *s.PLACE, s.ENV, s.TIME_LIMIT, *s.ATTACHED),
    create=Permission.JOB_CREATE,
    read=Permission.JOB_READ,
    manage=Permission.JOB_MANAGE,
)


class TinyReconciler(WorkloadReconciler):
    kind = Tiny.KIND
    model = Tiny
    related: ClassVar[tuple[str, ...]] = ("project", "owner")

    def waits_for(self, row: Any) -> tuple[str, str] | None:
        return needs.missing(row)

    def spec_of(self, row: Any) -> WorkloadSpec:
        keys = keys_of(row)
        return WorkloadSpec(
            **common_fields(row, keys),
            command=("paint", row.color),
            env={**keys.env, **row.env},
            secret_env=keys.secret_env,
        )
