"""What happens to work of any kind when something below it changes: people, projects.

The apps below know nothing of work; they call what is registered here, inside the transaction of
their act.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Count, Q
from django.utils.translation import gettext as _

from accounts import hooks as accounts
from projects import hooks as projects
from projects.access import ROLE_PERMISSIONS
from projects.hooks import ContentSummary
from runtime.protocol import Phase
from work import kinds, references
from work.choices import StopReason
from work.services.ending import workloads_request_delete, workloads_stop_for
from work.services.sharing import shares_cut_for, shares_revoke_for

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from accounts.models import User
    from accounts.principal import Principal
    from projects.choices import Role
    from projects.models import Project
    from work.kinds import Kind

_NAMED = 20
_ALIVE = ~Q(phase__in=[Phase.STOPPED, Phase.FAILED])


def connect() -> None:
    accounts.user_disabled.register(_user_disabled)
    projects.member_left.register(_member_left)
    projects.role_changed.register(_role_changed)
    projects.register_contents(
        "work", _summarize, request_delete=_request_delete, request_stop=_request_stop
    )
    references.connect()


def _user_disabled(user: User, who: Principal | None) -> None:
    workloads_stop_for(reason=StopReason.OWNER_DISABLED, owner=user, actor=who)
    shares_revoke_for(user=user, actor=who)


def _member_left(project: Project, user: User, who: Principal | None) -> None:
    """Their work stops and is kept; nobody may open it, nor they what was shared with them."""
    workloads_stop_for(reason=StopReason.OWNER_LEFT, project=project, owner=user, actor=who)
    shares_revoke_for(user=user, project=project, actor=who)
    shares_cut_for(owner=user, project=project, actor=who)


def _role_changed(project: Project, user: User, role: Role, who: Principal | None) -> None:
    """Stop what they may not have any more, of the kinds that end with that."""
    lapsed = [x for x in kinds.kinds() if x.lapses and x.create not in ROLE_PERMISSIONS[role]]
    workloads_stop_for(
        reason=StopReason.OWNER_LEFT, project=project, owner=user, actor=who, of=lapsed
    )


def _request_delete(project: Project, who: Principal | None) -> None:
    workloads_request_delete(actor=who, project=project)


def _request_stop(project: Project, who: Principal | None) -> None:
    workloads_stop_for(reason=StopReason.PROJECT_ARCHIVED, project=project, actor=who)


def _summarize(project: Project) -> list[ContentSummary]:
    found = []
    for kind in kinds.kinds():
        rows = kind.model.objects.filter(project=project, deleted_at__isnull=True)
        alive = kind.alive or _ALIVE
        counts = rows.aggregate(
            all=Count("pk"),
            alive=Count("pk", filter=alive),
            waiting=Count("pk", filter=alive & Q(phase=Phase.PENDING)),
        )
        if counts["all"]:
            found.append(_summary(kind, rows, **counts))
    return found


def _summary(kind: Kind, rows: QuerySet[Any], **counts: int) -> ContentSummary:
    """What waits would run: it ends with what does, and is told apart from it."""
    total, alive, waiting = counts["all"], counts["alive"], counts["waiting"]
    said = [kind.count_words(total)]
    if alive > waiting:
        said.append(_("%(n)d running") % {"n": alive - waiting})
    if waiting:
        said.append(_("%(n)d waiting") % {"n": waiting})
    names = tuple(rows.order_by("name").values_list("name", flat=True)[:_NAMED])
    text = ", ".join(said)
    return ContentSummary(kind.word, text, total, alive, names, kind.count_words(alive))
