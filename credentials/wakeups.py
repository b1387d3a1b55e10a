"""Waking what hands secrets to clusters when one changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projects.models import ProjectPlace
from runtime.hints import hint_uids

if TYPE_CHECKING:
    from projects.models import Project


def wake(project: Project) -> None:
    """Mark the project's places due: each compares the version of its sign-ins and writes."""
    rows = ProjectPlace.objects.filter(project=project, deleted_at__isnull=True)
    hint_uids(ProjectPlace.KIND, list(rows.values_list("uid", flat=True)))
