"""Reading presets and workspaces. All rows come through ``projects.access``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db.models import Q
from django.utils.translation import gettext as _

from common.clock import now
from common.errors import Conflict, NotFound
from metrics import selectors as metrics
from notebooks.models import Preset, Workspace
from parking.choices import Act
from parking.judgement import Rule
from projects.access import Permission, scoped
from projects.models import Membership
from runtime.protocol import Desired, Phase
from work.fields import is_storable

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from accounts.principal import Principal
    from projects.models import Project

_WARN_BEFORE, _GRACE = 15, 5  # minutes, of what is idle by the rule of its preset
_EXTENSION, _EXTENSIONS = 60, 2
USAGE_SHOWN, USAGE_STEP = timedelta(hours=2), timedelta(seconds=30)


def presets_for(project: Project) -> QuerySet[Preset]:
    """Return the active presets that may be used in ``project``."""
    return _usable_in(project).distinct().order_by("position", "name")


def _usable_in(project: Project) -> QuerySet[Preset]:
    """Return the same in no order; one that several projects have comes as often."""
    return Preset.objects.filter(Q(projects=None) | Q(projects=project), is_active=True)


def presets_visible_to(who: Principal) -> QuerySet[Preset]:
    """Return the active presets of any project ``who`` belongs to; operators see all."""
    if who.is_operator:
        return Preset.objects.order_by("position", "name")
    mine = scoped(Membership.objects.filter(user=who.user), who, Permission.WORKSPACE_READ).values(
        "project_id"
    )
    return (
        Preset.objects.filter(Q(projects=None) | Q(projects__in=mine), is_active=True)
        .distinct()
        .order_by("position", "name")
    )


def idle_rules() -> dict[int, Rule]:
    """Return the rules of presets for workspaces that run, by primary key.

    Such a rule is about the workspace, whether it has GPUs or not.
    """
    rows = Workspace.objects.filter(
        desired=Desired.RUNNING,
        phase=Phase.RUNNING,
        deleted_at__isnull=True,
        idle_stop_minutes__isnull=False,
    )
    return {
        pk: Rule(
            minutes=minutes,
            notice=min(_WARN_BEFORE, minutes // 2),
            least=_GRACE,
            act=Act.STOP,
            extension=_EXTENSION,
            extensions=_EXTENSIONS,
        )
        for pk, minutes in rows.values_list("pk", "idle_stop_minutes")
        if minutes is not None
    }


def preset_get(project: Project, slug: str) -> Preset:
    """Return a preset that may be used in ``project``, or NotFound."""
    known = is_storable(slug)
    preset = _usable_in(project).filter(slug=slug).first() if known else None
    if preset is None:
        raise NotFound(_("There is no such preset in this project."))
    return preset


def default_preset(project: Project) -> Preset:
    """Return what a launch takes that says nothing: no GPU where there is a preset without."""
    presets = presets_for(project)
    preset = presets.filter(gpus=0).first() or presets.first()
    if preset is None:
        raise Conflict(_("There is no preset in this project yet."), code="no-preset")
    return preset


def environments_of(project: Project) -> list[str]:
    return sorted(set(presets_for(project).values_list("environment", flat=True)))


@dataclass(frozen=True)
class Used:
    """What a workspace used on average from ``at`` on. None: unknown, which is not 0.

    ``gpu_shared``: others use its GPUs too, and the figures are of the GPUs. ``gpu_simulated``:
    there are no such GPUs.
    """

    at: datetime
    cpu_milli: int | None
    memory_mib: int | None
    gpu_utilisation: float | None
    gpu_memory_mib: int | None
    gpu_shared: bool
    gpu_simulated: bool


def usage_of(workspace: Workspace) -> list[Used]:
    """Return what it used in the last two hours, for each half minute in which it was measured."""
    found = metrics.series([workspace.uid], now() - USAGE_SHOWN, USAGE_STEP)
    return [
        Used(
            at=span.at,
            cpu_milli=_whole(span.mean("cpu_milli")),
            memory_mib=_whole(span.mean("memory_mib")),
            gpu_utilisation=span.mean("gpu_utilisation"),
            gpu_memory_mib=_whole(span.mean("gpu_memory_mib")),
            gpu_shared=span.shared,
            gpu_simulated=span.simulated,
        )
        for span in found.get(workspace.uid, [])
    ]


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
