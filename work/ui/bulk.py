"""What can be done to work of a kind from its list, to one and to several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.ids import is_uid
from common.ui.components import Act
from projects.ui.base import Bulk, Chosen, Deed, asking
from runtime.protocol import Desired, Phase
from work import services
from work.selectors import may_end, reads_private, visible_to
from work.ui.base import WorkView
from work.ui.pages import Pages, Verb, pages_of
from work.ui.verbs import shown_verbs, verbs_of

if TYPE_CHECKING:
    from accounts.principal import Principal


def can_delete(who: Principal, row: Any) -> bool:
    return row.desired != Desired.ABSENT and may_end(who, row)


def deeds_of(pages: Pages) -> tuple[Deed, ...]:
    words = pages.words

    def of(verb: Verb) -> Deed:
        return Deed(
            name=verb.name,
            icon=verb.icon,
            on_chosen=words.stop_chosen,
            title=words.stop_many,
            done=words.stopping_many,
            act=verb.act,
            fits=lambda who, row: bool(verb.word(who, row)),
            lost=words.stop_lost,
        )

    return (
        *(of(verb) for verb in verbs_of(pages) if verb.chosen),
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
        known = [key for key in keys if self.kind.key != "uid" or is_uid(key)]
        return list(rows.filter(**{f"{self.kind.key}__in": known}))

    def described(self, row: Any) -> Chosen:
        who = "" if row.owner_id == self.principal.user.pk else row.owner.label
        return Chosen(str(self.kind.key_of(row)), row.name, who, row.get_absolute_url())


def acts_on(who: Principal, row: Any) -> list[Act]:
    """Return the menu of one in the list."""
    pages, own = pages_of(row), row.owner_id == who.user.pk
    there = row.desired != Desired.ABSENT
    bulk_route, key = f"{pages.routes}:bulk", str(pages.kind.key_of(row))
    found = []
    if own and pages.open_url and row.shown_phase == Phase.RUNNING and (url := pages.open_url(row)):
        found.append(Act(_t("Open"), "external-link", url))
    for shown in shown_verbs(who, row, listed=True):
        if not shown.asks:
            found.append(Act(shown.word, shown.verb.icon, shown.url, posts=True))
        elif shown.verb.chosen:  # the page asks why
            asks = asking(bulk_route, row.project, shown.verb.name, key)
            found.append(Act(shown.word, shown.verb.icon, asks))
    for allowed, word, icon, route in (
        (there and reads_private(who, row), _t("Logs"), "file-text", "logs"),
        (there and own, _t("Settings"), "settings", "settings"),
    ):
        if allowed:
            found.append(Act(word, icon, pages.address(route, row)))
    if can_delete(who, row):
        asks = asking(bulk_route, row.project, "delete", key)
        found.append(Act(_t("Delete"), "trash", asks, destroys=True))
    return found
