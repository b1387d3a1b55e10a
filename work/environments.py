"""The environments of one machine that a project may use; who keeps them registers here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from common.hooks import Hook
from runtime.models import ONE_MACHINE

if TYPE_CHECKING:
    from projects.models import Project
    from work.models import Workload

offered: Hook[[Project], Sequence[str]] = Hook()
# Those of one purpose, such as serving models: who names one may have it, and no form offers it.
apart: Hook[[Project], Sequence[str]] = Hook()

# Of one that is made when it is first needed: reason and sentence of what waits for it, or None.
coming: Hook[[Workload], tuple[str, str] | None] = Hook()
LOOK_S = 2.0  # how soon what waits for one looks again


def environments_of(project: Project) -> list[str]:
    return sorted({name for names in offered(project) for name in names})


def may_have(project: Project, name: str) -> bool:
    return any(name in names for names in (*offered(project), *apart(project)))


def waits(row: Workload) -> tuple[str, str] | None:
    """Return reason and sentence of why its environment is not there yet; None: nothing lacks."""
    if row.cluster_key != ONE_MACHINE or not getattr(row, "environment", ""):
        return None
    return next((found for found in coming(row) if found is not None), None)
