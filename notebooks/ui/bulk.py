"""What can be done to workspaces from their list, to one and to several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django.urls import reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from common.ui.components import Act
from notebooks.hub import open_url
from notebooks.kind import WORKSPACE
from notebooks.models import Workspace
from notebooks.ui.rights import may_keep
from projects.access import Permission, role_of
from projects.ui.base import Bulk, Chosen, Deed, asking
from runtime.protocol import Desired, Phase
from work.selectors import may_end, visible_to
from work.services import workload_delete, workload_stop

if TYPE_CHECKING:
    from accounts.principal import Principal


def _can_stop(who: Principal, row: Workspace) -> bool:
    return row.desired == Desired.RUNNING and not row.is_ended and may_end(who, row)


def _can_delete(who: Principal, row: Workspace) -> bool:
    return row.desired != Desired.ABSENT and may_end(who, row)


def _delete(*, principal: Principal, row: Workspace, said: str) -> None:
    workload_delete(principal=principal, row=row, said=said)


def _stop(*, principal: Principal, row: Workspace, said: str) -> None:
    workload_stop(principal=principal, row=row, said=said)


DEEDS = (
    Deed(
        name="stop",
        icon="player-stop",
        on_chosen=_("Stop the chosen"),
        title=lambda n: ngettext("Stop %(n)d workspace", "Stop %(n)d workspaces", n) % {"n": n},
        done=lambda n: (
            ngettext("%(n)d workspace is stopping.", "%(n)d workspaces are stopping.", n) % {"n": n}
        ),
        act=_stop,
        fits=_can_stop,
        lost=_("What runs in them ends. Files, packages and addresses are kept."),
    ),
    Deed(
        name="delete",
        icon="trash",
        on_chosen=_("Delete the chosen"),
        title=lambda n: ngettext("Delete %(n)d workspace", "Delete %(n)d workspaces", n) % {"n": n},
        done=lambda n: (
            ngettext("%(n)d workspace is being deleted.", "%(n)d workspaces are being deleted.", n)
            % {"n": n}
        ),
        act=_delete,
        fits=_can_delete,
        lost=_(
            "What runs in them ends at once. Installed packages, logs and addresses are lost."
            " Homes and their files stay."
        ),
        destroys=True,
    ),
)


class BulkAct(Bulk):
    """Stops or deletes the workspaces that were chosen in the list."""

    # the owner, or who may manage: services decide about each
    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.WORKSPACE_READ,
        "POST": Permission.WORKSPACE_READ,
    }
    deeds = DEEDS
    list_route = "notebooks:list"

    def chosen(self, keys: Sequence[str]) -> Sequence[Workspace]:
        rows = visible_to(self.principal, WORKSPACE, self.project)
        return list(rows.filter(short_id__in=keys))

    def described(self, row: Any) -> Chosen:
        who = "" if row.owner_id == self.principal.user.pk else row.owner.label
        return Chosen(row.short_id, row.name, who, row.get_absolute_url())


def can_choose(who: Principal, row: Workspace) -> bool:
    return _can_delete(who, row)


def acts_on(who: Principal, row: Workspace) -> list[Act]:
    """Return the menu of one workspace in the list."""
    keys = {"project": row.project.slug, "workspace": row.short_id}
    own = row.owner_id == who.user.pk
    keeps = may_keep(who, row, role_of(who, row.project)) and not row.project.archived_at
    again = _t("Retry") if row.shown_phase == Phase.FAILED else _t("Resume")
    there = own and row.desired != Desired.ABSENT
    acts = []
    if own and row.shown_phase == Phase.RUNNING and (url := open_url(row)):
        acts.append(Act(_t("Open"), "external-link", url))
    for allowed, word, icon, route, posts in (
        (keeps and row.is_ended, again, "player-play", "notebooks:start", True),
        (own and _can_stop(who, row), _t("Stop"), "player-stop", "notebooks:stop", True),
        (there, _t("Logs"), "file-text", "notebooks:logs", False),
        (there, _t("Settings"), "settings", "notebooks:settings", False),
    ):
        if allowed:
            acts.append(Act(word, icon, reverse(route, kwargs=keys), posts=posts))
    if not own and _can_stop(who, row):  # the page asks why
        asks = asking("notebooks:bulk", row.project, "stop", row.short_id)
        acts.append(Act(_t("Stop"), "player-stop", asks))
    if _can_delete(who, row):
        asks = asking("notebooks:bulk", row.project, "delete", row.short_id)
        acts.append(Act(_t("Delete"), "trash", asks, destroys=True))
    return acts
