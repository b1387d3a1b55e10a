# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The pages of loads: the list, and one load with how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django_tables2 import RequestConfig

from common.ui.responses import to_yaml
from events import selectors as events
from loaders import selectors
from loaders.models import Load
from loaders.ui.bulk import DEEDS
from loaders.ui.forms import FilterForm, filtered
from loaders.ui.present import bar_of, shown
from loaders.ui.shared import as_command, named
from loaders.ui.tables import LoadTable, RunTable
from projects.access import Permission, roles_kept
from projects.ui.base import ProjectView
from work.services import manifest_of

PER_PAGE = 25
READ: Mapping[str, Permission] = {"GET": Permission.LOAD_READ}


class List(ProjectView):
    """All loads of the project, the latest first."""

    required_permissions: ClassVar[Mapping[str, Permission]] = READ
    template_name = "loaders/list.html"

    @roles_kept()
    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        filters = FilterForm(request.GET)
        rows = selectors.without_objects(selectors.loads_visible_to(self.principal, self.project))
        table = LoadTable(filtered(filters, rows, self.principal), who=self.principal)
        RequestConfig(request, paginate={"per_page": PER_PAGE, "silent": True}).configure(table)
        can_load = self.can(Permission.LOAD_CREATE)
        shown = {"table": table, "filters": filters, "can_load": can_load, "deeds": DEEDS}
        return self.render(shown)


class LoadView(ProjectView):
    """A page of one load."""

    tab: ClassVar[str] = "overview"

    def row(self) -> Load:
        return selectors.load_get(self.principal, self.kwargs["load"], self.project)

    def page(self, row: Load, context: dict[str, Any] | None = None) -> dict[str, Any]:
        state = shown(self.principal, row)
        return {
            "row": row,
            "state": state,
            "tabs": self._tabs(row, may_change=state.may_change),
            **(context or {}),
        }

    def runs(self, row: Load, limit: int) -> RunTable:
        """Return what it did so far, each run with the way to what it wrote."""
        keys = {"project": self.project.slug, "load": row.uid}
        inside = selectors.sees_inside(self.principal, row)
        logs = reverse("loaders:logs", kwargs=keys) if inside else ""
        return RunTable(selectors.runs_of(row, limit), logs=logs, latest=row.launch)

    def _tabs(self, row: Load, *, may_change: bool) -> list[dict[str, Any]]:
        names = [("overview", "loaders:detail", _("Overview"))]
        if selectors.sees_inside(self.principal, row):
            names.append(("logs", "loaders:logs", _("Logs")))
        names += [
            ("events", "loaders:events", _("Events")),
            ("history", "loaders:history", _("History")),
            ("yaml", "loaders:yaml", "YAML"),
        ]
        if may_change:
            names.append(("settings", "loaders:settings", _("Settings")))
        keys = {"project": self.project.slug, "load": row.uid}
        return [
            {"label": label, "url": reverse(route, kwargs=keys), "current": key == self.tab}
            for key, route, label in names
        ]


class Detail(LoadView):
    """What is happening now, what could not be copied, and what it is."""

    required_permissions: ClassVar[Mapping[str, Permission]] = READ
    template_name = "loaders/detail.html"

    def get(self, request: HttpRequest, project: str, load: UUID) -> HttpResponse:
        row = self.row()
        return self.render(self.page(row, {"runs": self.runs(row, 5)}))


class State(LoadView):
    """The part of the page that changes by itself."""

    required_permissions: ClassVar[Mapping[str, Permission]] = READ
    template_name = "loaders/_state.html"

    def row(self) -> Load:
        return selectors.load_look(self.principal, self.kwargs["load"], self.project)

    def get(self, request: HttpRequest, project: str, load: UUID) -> HttpResponse:
        row = self.row()
        return self.render(self.page(row, {"runs": self.runs(row, 5), "is_live": True}))


class Bar(LoadView):
    """The bar in a list, which changes by itself."""

    required_permissions: ClassVar[Mapping[str, Permission]] = READ
    template_name = "loaders/_bar.html"

    def row(self) -> Load:
        return selectors.load_look(self.principal, self.kwargs["load"], self.project)

    def get(self, request: HttpRequest, project: str, load: UUID) -> HttpResponse:
        row = self.row()
        return self.render({"row": row, "bar": bar_of(row)})


class History(LoadView):
    required_permissions: ClassVar[Mapping[str, Permission]] = READ
    template_name = "loaders/history.html"
    tab = "history"

    def get(self, request: HttpRequest, project: str, load: UUID) -> HttpResponse:
        row = self.row()
        return self.render(self.page(row, {"runs": self.runs(row, 100)}))


class Events(LoadView):
    required_permissions: ClassVar[Mapping[str, Permission]] = READ
    template_name = "loaders/events.html"
    tab = "events"

    def get(self, request: HttpRequest, project: str, load: UUID) -> HttpResponse:
        row = self.row()
        told, more = events.newest(events.of_target(row.uid))
        return self.render(self.page(row, {"events": told, "more_events": more}))


class Yaml(LoadView):
    required_permissions: ClassVar[Mapping[str, Permission]] = READ
    template_name = "loaders/yaml.html"
    tab = "yaml"

    def get(self, request: HttpRequest, project: str, load: UUID) -> HttpResponse:
        row = self.row()
        inside = selectors.sees_inside(self.principal, row)
        rows = named(self.principal, row)
        command = as_command(row.name, row.project.slug, row, rows)
        document = manifest_of(row, private=inside)
        document["spec"] |= rows
        context = {
            "document": to_yaml(document),
            "command": command if inside else "",
        }
        return self.render(self.page(row, context))
