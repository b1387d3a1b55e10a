"""What can be done to loads from their list, to one and to several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from common.ui.components import Act
from loaders import selectors, services
from loaders.models import Load
from loaders.ui.present import possible
from projects.access import Permission
from projects.ui.base import Bulk, Chosen, Deed, asking
from runtime.protocol import Desired
from work.selectors import may_end
from work.services import workload_delete

if TYPE_CHECKING:
    from accounts.principal import Principal


def _can_cancel(who: Principal, row: Load) -> bool:
    return possible(who, row).cancel


def can_delete(who: Principal, row: Load) -> bool:
    return row.desired != Desired.ABSENT and may_end(who, row)


DEEDS = (
    Deed(
        name="cancel",
        icon="player-stop",
        on_chosen=_("Cancel the chosen"),
        title=lambda n: ngettext("Cancel %(n)d load", "Cancel %(n)d loads", n) % {"n": n},
        done=lambda n: ngettext("%(n)d load ends.", "%(n)d loads end.", n) % {"n": n},
        act=services.load_cancel,
        fits=_can_cancel,
        lost=_("They end for good. What is copied stays."),
    ),
    Deed(
        name="delete",
        icon="trash",
        on_chosen=_("Delete the chosen"),
        title=lambda n: ngettext("Delete %(n)d load", "Delete %(n)d loads", n) % {"n": n},
        done=lambda n: (
            ngettext("%(n)d load is being deleted.", "%(n)d loads are being deleted.", n) % {"n": n}
        ),
        act=workload_delete,
        fits=can_delete,
        lost=_("What is copied stays where it is; what is written of their runs is lost."),
        destroys=True,
    ),
)


class BulkAct(Bulk):
    """Cancels or deletes the loads that were chosen in the list."""

    # the owner, or who may manage: services decide about each
    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.LOAD_READ,
        "POST": Permission.LOAD_READ,
    }
    deeds = DEEDS
    list_route = "loaders:list"

    def chosen(self, keys: Sequence[str]) -> Sequence[Load]:
        rows = selectors.without_objects(selectors.loads_visible_to(self.principal, self.project))
        return list(rows.filter(uid__in=[key for key in keys if _is_uid(key)]))

    def described(self, row: Any) -> Chosen:
        who = "" if row.owner_id == self.principal.user.pk else row.owner.label
        return Chosen(str(row.uid), row.name, who, row.get_absolute_url())


def _is_uid(text: str) -> bool:
    try:
        return bool(UUID(text))
    except ValueError:
        return False


def acts_on(who: Principal, row: Load) -> list[Act]:
    """Return the menu of one load in the list."""
    keys = {"project": row.project.slug, "load": row.uid}
    can, own = possible(who, row), row.owner_id == who.user.pk
    found = []
    for allowed, word, icon, route in (
        (can.resume, _t("Resume"), "player-play", "loaders:resume"),
        (
            can.start and not can.resume,
            _t("Load again") if row.launch else _t("Start loading"),
            "player-play",
            "loaders:start",
        ),
        (own and can.pause, _t("Pause"), "player-pause", "loaders:pause"),
        (own and can.cancel, _t("Cancel"), "player-stop", "loaders:cancel"),
    ):
        if allowed:
            found.append(Act(word, icon, reverse(route, kwargs=keys), posts=True))
    if selectors.sees_inside(who, row):
        found.append(Act(_t("Logs"), "file-text", reverse("loaders:logs", kwargs=keys)))
    if not own and can.cancel:  # the page asks why
        asks = asking("loaders:bulk", row.project, "cancel", str(row.uid))
        found.append(Act(_t("Cancel"), "player-stop", asks))
    if can_delete(who, row):
        asks = asking("loaders:bulk", row.project, "delete", str(row.uid))
        found.append(Act(_t("Delete"), "trash", asks, destroys=True))
    return found
