"""Which clusters a project may use. Operators decide; what runs elsewhere goes on."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils.translation import gettext as _

from clusters.models import Cluster
from common.errors import Forbidden, wrong
from events.services import record
from projects.access import Permission, require
from projects.services.life import changed, lock

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project


@transaction.atomic
def project_set_clusters(
    *, principal: Principal, project: Project, keys: Collection[str]
) -> list[str]:
    """Limit a project to some clusters; none means all of them. Nothing is stopped."""
    require(principal, project, Permission.PROJECT_READ)
    if not principal.is_operator:
        raise Forbidden(_("Operators decide which clusters a project may use."))
    row = lock(project)
    wanted = sorted(set(keys))
    found = list(Cluster.objects.filter(key__in=wanted))
    if unknown := set(wanted) - {c.key for c in found}:
        sentence = _("There is no cluster called “%(name)s”.") % {"name": min(unknown)[:63]}
        raise wrong("clusters", sentence)
    before = sorted(row.clusters.values_list("key", flat=True))
    if before == wanted:
        return wanted
    row.clusters.set(found)
    record(
        actor=principal,
        verb="project.clusters-changed",
        target=row,
        project_uid=row.uid,
        message=", ".join(wanted) or _("all clusters"),
        data={"from": before, "to": wanted},
    )
    changed(row)
    return wanted
