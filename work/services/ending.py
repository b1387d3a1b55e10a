"""Stop and delete, by a person or by what happened to a person or a project."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accounts.models import User
    from accounts.principal import Principal
    from projects.models import Project
    from work.models import Workload


def workload_stop(*, principal: Principal, row: Workload, said: str = "") -> Workload:
    """Ask it to stop. ``said`` is why, where it is somebody else's (``projects.others``)."""
    raise NotImplementedError


def workloads_stop_for(
    *,
    reason: str,
    project: Project | None = None,
    owner: User | None = None,
    actor: Principal | None = None,
) -> int:
    """Stop all of a project, of a person, or of a person in a project."""
    raise NotImplementedError


def workload_delete(
    *, principal: Principal, row: Workload, typed_name: str | None = None, said: str = ""
) -> Workload:
    """Ask for its removal. ``typed_name`` None: the door itself is explicit (API, CLI)."""
    raise NotImplementedError
