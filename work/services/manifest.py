"""The YAML door of any kind: the same fields as the form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project
    from work.kinds import Kind
    from work.models import Workload
    from work.services.plan import Plan


def manifest_of(row: Workload, *, private: bool) -> dict[str, Any]:
    """Return the document of a workload; what may hold a secret for its owner only."""
    raise NotImplementedError


def manifest_plan(*, principal: Principal, project: Project, kind: Kind, document: Any) -> Plan:
    """Say what ``manifest_apply`` would do now."""
    raise NotImplementedError


def manifest_apply(
    *, principal: Principal, project: Project, kind: Kind, document: Any
) -> Workload:
    """Create what the document names, or change it and start it when it is there."""
    raise NotImplementedError
