"""What volumes add to the life of projects and clusters, and what follows from their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Count, Q
from django.utils.translation import ngettext

from notifications.services import notify
from projects import hooks
from projects.choices import Role
from projects.hooks import ContentSummary
from projects.models import Membership, ProjectNamespace
from runtime.protocol import Phase
from runtime.reconcilers import on_transition
from volumes.choices import VolumeKind
from volumes.models import Volume
from volumes.services.create import project_volume_try, project_volumes_ensure
from volumes.services.removal import transfers_end, volumes_request_delete

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from accounts.models import User
    from accounts.principal import Principal
    from projects.models import Project
    from runtime.reconcilers import Transition

_NAMED = 20
NEARLY_FULL = "nearly-full"  # noted by the reconciler


def connect() -> None:
    hooks.register_contents(Volume.KIND, _summarize, request_delete=_request_delete)
    hooks.project_created.register(project_volumes_ensure)
    on_transition(place_made)
    on_transition(nearly_full)
    on_transition(gone)


def place_made(transition: Transition) -> None:
    """A project has its first place on a cluster: there its shared volume is made."""
    place = transition.row
    if not isinstance(place, ProjectNamespace) or transition.after != Phase.RUNNING:
        return
    if transition.before != Phase.RUNNING:
        project_volume_try(place.project, place.cluster_key)


def nearly_full(transition: Transition) -> None:
    """Tell those who can do something about it, once for each time that it fills up."""
    row = transition.row
    if not isinstance(row, Volume):
        return
    if all(word != NEARLY_FULL for word, _message in transition.outcome.timeline):
        return
    notify(
        users=_concerned(row),
        kind="volume.nearly-full",
        params={"name": row.name, "percent": row.percent or 0, "project": row.project.name},
        url=row.get_absolute_url(),
        key=str(row.uid),
        project_id=row.project_id,
    )


def gone(transition: Transition) -> None:
    """What is no more is offered to nobody, however it went."""
    if transition.gone and isinstance(transition.row, Volume):
        transfers_end(transition.row)


def _concerned(row: Volume) -> list[User]:
    """Return a home's owner, a volume's maker, else the project's owners and managers."""
    if row.kind == VolumeKind.HOME:
        return [row.owner] if row.owner else []
    leading = Q(role__in=[Role.OWNER, Role.MANAGER])
    if row.created_by is not None:
        leading = Q(user=row.created_by)
    rows = Membership.objects.filter(leading, project=row.project, user__is_active=True)
    return [m.user for m in rows.select_related("user")]


def _summarize(project: Project) -> list[ContentSummary]:
    rows = Volume.objects.filter(project=project, deleted_at__isnull=True)
    is_home = Q(kind=VolumeKind.HOME)
    counts = rows.aggregate(homes=Count("pk", filter=is_home), data=Count("pk", filter=~is_home))
    homes, data = counts["homes"], counts["data"]
    text = ngettext("%(n)d home with its files", "%(n)d homes with their files", homes)
    found = [_summary(text, homes, rows.filter(is_home))] if homes else []
    text = ngettext("%(n)d volume with its files", "%(n)d volumes with their files", data)
    return [*found, _summary(text, data, rows.exclude(is_home))] if data else found


def _summary(text: str, total: int, rows: QuerySet[Volume]) -> ContentSummary:
    names = tuple(rows.order_by("name").values_list("name", flat=True)[:_NAMED])
    return ContentSummary(Volume.KIND, text % {"n": total}, total, 0, names)


def _request_delete(project: Project, who: Principal | None) -> None:
    volumes_request_delete(actor=who, project=project)
