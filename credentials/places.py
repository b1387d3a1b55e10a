"""Waking what hands secrets to clusters when one changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime import reconcilers
from runtime.hints import hint_uids

if TYPE_CHECKING:
    from projects.models import Project

PLACE = "place"  # a project on one cluster


def wake(project: Project) -> None:
    """Mark the project's places due: each compares the version of its sign-ins and writes."""
    known = reconcilers.registered().get(PLACE)
    if known is None:
        return
    rows = known.model._default_manager.filter(  # noqa: SLF001
        project=project, deleted_at__isnull=True
    )
    hint_uids(PLACE, list(rows.values_list("uid", flat=True)))
