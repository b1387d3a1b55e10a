"""What a load says of itself: its fields, its rights, what only loads have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from loaders import policies
from loaders.choices import StopReason, Task
from loaders.fields import TABLE
from loaders.models import ACTIVE, Load
from loaders.selectors import RELATED, sees_inside
from loaders.services import create, ending, runs
from loaders.services.plan import judge
from loaders.services.resolve import look_up
from projects.access import Permission
from work.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.principal import Principal
    from projects.models import Project


def _defaults(principal: Principal, project: Project, said: Mapping[str, Any]) -> Load:
    del said
    return Load(
        project=project,
        owner=principal.user,
        kind=Load.KIND,
        cpu_milli=settings.BERTH_LOAD_CPU_MILLI,
        memory_mib=settings.BERTH_LOAD_MEMORY_MIB,
    )


def _launch(principal: Principal, row: Load) -> None:
    runs.begin(principal, row, task=Task.LOAD)


LOAD = Kind(
    word=Load.KIND,
    document="Load",
    model=Load,
    one=_("Load"),
    many=_("Loads"),
    icon="database-import",
    table=TABLE,
    create=Permission.LOAD_CREATE,
    read=Permission.LOAD_READ,
    manage=Permission.LOAD_MANAGE,
    managed=True,
    lapses=True,
    key="uid",
    opens=sees_inside,
    defaults=_defaults,
    first_name=lambda row: policies.name_for(policies.parse_url(row.url)),
    look_up=look_up,
    placed=False,
    check_new=create.check_new,
    prepare=create.prepare,
    change=create.change,
    check_edit=create.check_edit,
    judge=judge,
    launch=_launch,
    start=runs.load_start,
    done=lambda row: row.loaded_at is not None,
    hidden=Q(made_for__isnull=False),
    ends_hidden=False,
    related=RELATED[2:],  # project and owner are of every kind
    deferred=("credential__sealed",),
    stop_reasons=StopReason,
    asked=StopReason.PAUSED.value,
    stop_notice="",
    stop_notices=ending.NOTICES,
    stopping=ending.stopping,
    rest=ending.rest_schedules,
    made="created",
    stopped=ending.VERBS,
    taken=_("There is a load of that name in this project already."),
    counted=lambda n: ngettext("%(n)d load", "%(n)d loads", n) % {"n": n},
    attachments=(),
    once=True,
    timeline=False,
    alive=ACTIVE | Q(retry_at__isnull=False),
)
