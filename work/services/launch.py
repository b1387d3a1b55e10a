"""Starting: one press makes a workload, another one starts it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from projects.models import Project
    from work.kinds import Kind
    from work.models import Workload


def workload_create(
    *,
    principal: Principal,
    project: Project,
    kind: Kind,
    said: Mapping[str, Any],
    nonce: str = "",
    must_fit: bool = False,
) -> Workload:
    """Make and start one. ``said`` as API and document say it; what is None was not said."""
    raise NotImplementedError


def workload_start(*, principal: Principal, row: Workload) -> Workload:
    """Start one that ended again: a new launch with the same settings."""
    raise NotImplementedError
