"""The environments of one machine that a project may use; who keeps them registers here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from common.hooks import Hook

if TYPE_CHECKING:
    from projects.models import Project

offered: Hook[[Project], Sequence[str]] = Hook()
# Those of one purpose, such as serving models: who names one may have it, and no form offers it.
apart: Hook[[Project], Sequence[str]] = Hook()


def environments_of(project: Project) -> list[str]:
    return sorted({name for names in offered(project) for name in names})


def may_have(project: Project, name: str) -> bool:
    return any(name in names for names in (*offered(project), *apart(project)))
