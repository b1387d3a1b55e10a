"""What happens to workspaces when something below them changes: people, projects.

The apps below know nothing of workspaces; they call what is registered here, inside the
transaction of their act.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Count, Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts import hooks as accounts
from notebooks import references
from notebooks.choices import StopReason
from notebooks.models import Workspace
from notebooks.services.lifecycle import workspaces_request_delete, workspaces_stop_for
from notebooks.services.sharing import shares_cut_for, shares_revoke_for
from projects import hooks
from projects import hooks as projects
from projects.hooks import ContentSummary
from runtime.protocol import Phase

if TYPE_CHECKING:
    from accounts.models import User
    from accounts.principal import Principal
    from projects.models import Project

_NAMED = 20


def connect() -> None:
    accounts.user_disabled.register(_user_disabled)
    projects.member_left.register(_member_left)
    hooks.register_contents(
        Workspace.KIND, _summarize, request_delete=_request_delete, request_stop=_request_stop
    )
    references.connect()


def _user_disabled(user: User, who: Principal | None) -> None:
    """Stop (and keep) what a disabled person runs, and take away what was shared with him."""
    workspaces_stop_for(reason=StopReason.OWNER_DISABLED, owner=user, actor=who)
    shares_revoke_for(user=user, actor=who)


def _member_left(project: Project, user: User, who: Principal | None) -> None:
    """His workspaces stop and are kept; nobody may open them, he neither."""
    workspaces_stop_for(reason=StopReason.OWNER_LEFT, project=project, owner=user, actor=who)
    shares_revoke_for(user=user, project=project, actor=who)
    shares_cut_for(owner=user, project=project, actor=who)


def _summarize(project: Project) -> list[ContentSummary]:
    rows = Workspace.objects.filter(project=project, deleted_at__isnull=True)
    alive = ~Q(phase__in=[Phase.STOPPED, Phase.FAILED])
    counts = rows.aggregate(all=Count("pk"), running=Count("pk", filter=alive))
    total, running = counts["all"], counts["running"]
    text = ngettext("%(n)d workspace", "%(n)d workspaces", total) % {"n": total}
    if running:
        text = _("%(workspaces)s, %(running)d running") % {"workspaces": text, "running": running}
    names = tuple(rows.order_by("name").values_list("name", flat=True)[:_NAMED])
    runs = ngettext("%(n)d workspace", "%(n)d workspaces", running) % {"n": running}
    return [ContentSummary(Workspace.KIND, text, total, running, names, runs)]


def _request_delete(project: Project, who: Principal | None) -> None:
    workspaces_request_delete(actor=who, project=project)


def _request_stop(project: Project, who: Principal | None) -> None:
    workspaces_stop_for(reason=StopReason.PROJECT_ARCHIVED, project=project, actor=who)
