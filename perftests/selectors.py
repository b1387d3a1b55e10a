"""Performance tests that somebody may see, with the baselines that they stand beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from common.errors import NotFound
from perftests.models import PerfTest
from perftests.rules import Compared, compare
from projects.access import Permission, scoped

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project


def visible_to(who: Principal, project: Project) -> QuerySet[PerfTest]:
    rows = scoped(PerfTest.objects.filter(project=project), who, Permission.JOB_READ)
    return rows.select_related("project", "owner", "job__project").order_by("-id")


def perftest_get(who: Principal, project: Project, uid: UUID) -> PerfTest:
    row = visible_to(who, project).filter(uid=uid).first()
    if row is None:
        raise NotFound(_("There is no such thing, or you may not see it."))
    return row


def compared(rows: Sequence[PerfTest]) -> dict[int, Compared]:
    """Return how each stands beside its baseline, by its key; in one query."""
    if not rows:
        return {}
    chosen = PerfTest.objects.filter(project=rows[0].project_id, is_baseline=True)
    baselines = {_shape(one): one for one in chosen}
    found = {}
    for row in rows:
        baseline = baselines.get(_shape(row))
        if baseline is None or baseline.pk == row.pk or not row.lines:
            continue
        if told := compare(row, baseline):
            found[row.pk] = told
    return found


def _shape(row: PerfTest) -> tuple[object, ...]:
    return (row.project_id, *(getattr(row, name) for name in PerfTest.SHAPE[1:]))
