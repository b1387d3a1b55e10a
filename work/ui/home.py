"""What the first screen tells of work whose pages are made here: one's own that is not over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import Q

from runtime.protocol import Desired
from work.selectors import visible_to
from work.ui.pages import Pages, registered

if TYPE_CHECKING:
    from accounts.principal import Principal

SHOWN = 6
LOOKED_AT = 50  # more of one's own at once is looked for in the lists


@dataclass(frozen=True)
class Group:
    """Those of one kind; ``others``: where there are more of them, all places of some."""

    pages: Pages
    rows: list[Any]
    others: list[tuple[str, str]]  # name and address of the list

    @property
    def title_id(self) -> str:
        return f"own-{self.pages.kind.word}"


def running(who: Principal) -> list[Group]:
    """Return what goes on of each kind, the newest first; a kind of which nothing does is not."""
    found = [_group(who, pages) for pages in registered()]
    return [group for group in found if group.rows]


def _group(who: Principal, pages: Pages) -> Group:
    goes_on = Q()
    for word in pages.goes_on:
        goes_on |= pages.states.filters[word]
    mine = visible_to(who, pages.kind).filter(goes_on, owner=who.user, desired=Desired.RUNNING)
    rows = list(mine[:LOOKED_AT])
    places = {row.project.slug: row.project.name for row in rows} if len(rows) > SHOWN else {}
    others = [
        (name, pages.list_address("list", slug, query={"mine": "1"}))
        for slug, name in sorted(places.items(), key=lambda place: place[1])
    ]
    return Group(pages, rows[:SHOWN], others)
