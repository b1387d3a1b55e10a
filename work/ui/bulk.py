"""What can be done to work of a kind from its list, to one and to several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.ui.components import Act
from projects.ui.base import Bulk, Chosen, Deed, asking
from runtime.protocol import Desired, Phase
from work import services
from work.selectors import may_change, may_end, visible_to
from work.ui.base import WorkView
from work.ui.pages import Pages, pages_of

if TYPE_CHECKING:
    from accounts.principal import Principal


def _can_stop(who: Principal, row: Any) -> bool:
    pages = pages_of(row)
    goes_on = row.desired == Desired.RUNNING and not pages.states.is_over(row)
    return goes_on and may_end(who, row)


def can_delete(who: Principal, row: Any) -> bool:
    return row.desired != Desired.ABSENT and may_end(who, row)


def deeds_of(pages: Pages) -> tuple[Deed, ...]:
    words = pages.words
    return (
        Deed(
            name="stop",
            icon="player-stop",
            on_chosen=words.stop_chosen,
            title=words.stop_many,
            done=words.stopping_many,
            act=services.workload_stop,
            fits=_can_stop,
            lost=words.stop_lost,
        ),
        Deed(
            name="delete",
            icon="trash",
            on_chosen=_("Delete the chosen"),
            title=words.delete_many,
            done=words.deleting_many,
            act=services.workload_delete,
            fits=can_delete,
            lost=words.delete_lost,
            destroys=True,
        ),
    )


class BulkAct(WorkView, Bulk):
    """Ends or deletes what was chosen in the list."""

    # the owner, or who may manage: services decide about each
    demands: ClassVar[Mapping[str, str]] = {"GET": "read", "POST": "read"}

    def chosen(self, keys: Sequence[str]) -> Sequence[Any]:
        rows = visible_to(self.principal, self.kind, self.project)
        return list(rows.filter(short_id__in=keys))

    def described(self, row: Any) -> Chosen:
        who = "" if row.owner_id == self.principal.user.pk else row.owner.label
        return Chosen(row.short_id, row.name, who, row.get_absolute_url())


def acts_on(who: Principal, row: Any) -> list[Act]:
    """Return the menu of one in the list."""
    pages, own = pages_of(row), row.owner_id == who.user.pk
    words, there = pages.words, row.desired != Desired.ABSENT
    over = pages.states.is_over(row)
    starts = there and over and may_change(who, row) and not row.project.archived_at
    found = []
    if own and pages.open_url and row.shown_phase == Phase.RUNNING and (url := pages.open_url(row)):
        found.append(Act(_t("Open"), "external-link", url))
    for allowed, word, icon, route, posts in (
        (starts, pages.again(row), "player-play", "start", True),
        (own and _can_stop(who, row), words.stop, "player-stop", "stop", True),
        (own and there, _t("Logs"), "file-text", "logs", False),
        (own and there, _t("Settings"), "settings", "settings", False),
    ):
        if allowed:
            found.append(Act(word, icon, pages.address(route, row), posts=posts))
    bulk_route = f"{pages.routes}:bulk"
    if not own and _can_stop(who, row):  # the page asks why
        asks = asking(bulk_route, row.project, "stop", row.short_id)
        found.append(Act(words.stop, "player-stop", asks))
    if can_delete(who, row):
        asks = asking(bulk_route, row.project, "delete", row.short_id)
        found.append(Act(_t("Delete"), "trash", asks, destroys=True))
    return found
