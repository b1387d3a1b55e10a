"""The plan before the act: the same answer in the form's foot, ``--plan`` and the API."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from common.changes import Change
    from placement.decision import Decision
    from placement.fleet import Fleet
    from projects.models import Project
    from work.kinds import Kind
    from work.models import Workload
    from work.services.attachments import Attached


@dataclass(frozen=True)
class QuotaEffect:
    """What would be used of one limit afterwards; ``limit`` None: no limit."""

    resource: str
    label: str
    used: int
    after: int
    limit: int | None
    used_words: str
    after_words: str
    limit_words: str


@dataclass(frozen=True)
class Plan:
    """``action`` is create, update or none; ``allowed`` False: it would be refused now.

    ``row`` is what it would be: unsaved for a new one, the changed row of an edit.
    """

    action: str
    name: str
    row: Workload
    attached: Attached
    changes: tuple[Change, ...] = ()
    restarts: bool = False
    allowed: bool = True
    refusal: str = ""
    quota: tuple[QuotaEffect, ...] = ()
    decision: Decision | None = None  # None: nothing would start
    cost_per_hour: Decimal = Decimal(0)
    sentences: tuple[str, ...] = field(default=())


def workload_plan(
    *,
    principal: Principal,
    project: Project,
    kind: Kind,
    said: Mapping[str, Any],
    row: Workload | None = None,
    fleet: Fleet | None = None,
) -> Plan:
    """Say what a launch (or an edit of ``row``) would do now. Changes nothing."""
    raise NotImplementedError
