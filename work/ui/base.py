"""The base of the pages of any kind of work, and how a kind gets its own of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar

from django.urls import reverse
from django.utils.translation import gettext as _

from common.errors import Forbidden
from projects.ui.base import ProjectView
from work.kinds import Kind
from work.selectors import reads_private, workload_get
from work.ui.pages import Pages
from work.ui.present import Shown

V = TypeVar("V", bound="WorkView")


class WorkView(ProjectView):
    """A page of work; ``demands`` says which right of the kind each verb asks for."""

    demands: ClassVar[Mapping[str, str]] = {}  # verb → create, read or manage
    pages: ClassVar[Pages]
    kind: ClassVar[Kind]

    @classmethod
    def of(cls, pages: Pages, **more: Any) -> type[Self]:
        """Return this page for one kind."""
        rights = {verb: getattr(pages.kind, right) for verb, right in cls.demands.items()}
        own = {"pages": pages, "kind": pages.kind, "required_permissions": rights, **more}
        name = f"{pages.kind.word.title()}{cls.__name__}"
        return type(name, (cls,), {"__doc__": cls.__doc__, "__module__": cls.__module__, **own})

    def context(self) -> dict[str, Any]:
        may_create = self.can(self.kind.create) and not self.project.archived_at
        return {
            **super().context(),
            "pages": self.pages,
            "kind": self.kind,
            "words": self.pages.words,
            "may_create": may_create,
            "list_url": self.pages.list_address("list", self.project.slug),
        }


class OneView(WorkView):
    """A page of one piece of work."""

    tab: ClassVar[str] = "overview"

    def row(self) -> Any:
        key = self.kwargs[self.kind.word]
        unread = self.pages.unread
        return workload_get(self.principal, self.kind, key, self.project, unread=unread)

    def inside(self) -> Any:
        """Return it for who may read what it wrote: of most kinds its owner."""
        row = self.row()
        if not reads_private(self.principal, row):
            raise Forbidden(_("Only its owner may see or change this."))
        return row

    def page(self, row: Any, context: Mapping[str, Any] | None = None) -> dict[str, Any]:
        state = (self.pages.shown or Shown.of)(self.principal, row)
        return {
            "row": row,
            "state": state,
            "tabs": self._tabs(row, is_owner=state.is_owner, may_end=state.may_end),
            "subtitle": self.pages.subtitle(self.principal, row) if self.pages.subtitle else "",
            **(context or {}),
        }

    def _tabs(self, row: Any, *, is_owner: bool, may_end: bool) -> list[dict[str, Any]]:
        names = [("overview", "detail", _("Overview"))]
        if reads_private(self.principal, row):
            names.append(("logs", "logs", _("Logs")))
        names.append(("events", "events", _("Events")))
        names += [(tab.key, tab.route, tab.label) for tab in self.pages.tabs(self.principal, row)]
        names.append(("yaml", "yaml", "YAML"))
        if is_owner or (may_end and not self.pages.private_settings):
            names.append(("settings", "settings", _("Settings")))
        return [
            {"label": label, "url": self._at(route, row), "current": key == self.tab}
            for key, route, label in names
        ]

    def _at(self, route: str, row: Any) -> str:
        """Return the address of a page of its own, or of one that another app brings."""
        if ":" not in route:
            return self.pages.address(route, row)
        keys = {"project": row.project.slug, self.kind.word: self.kind.key_of(row)}
        return reverse(route, kwargs=keys)
