# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The pages of one workspace that are not those of any kind of work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from django.http import HttpRequest, HttpResponse

from notebooks import selectors
from notebooks.kind import WORKSPACE
from notebooks.ui.connection_info import seen_at
from notebooks.ui.pages import PAGES
from work.kinds import Kind
from work.ui.base import OneView
from work.ui.pages import Pages

READ: Mapping[str, str] = {"GET": "read"}


class WorkspaceView(OneView):
    """A page of one workspace."""

    pages: ClassVar[Pages] = PAGES
    kind: ClassVar[Kind] = WORKSPACE


class Detail(WorkspaceView):
    """What is happening now: the timeline while it starts, Open when it runs."""

    demands: ClassVar[Mapping[str, str]] = READ
    template_name = "notebooks/detail.html"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        return self.render(self.page(row, {"volumes": seen_at(row)}))


class State(WorkspaceView):
    """The parts of the page that change by themselves: its head, or the one that is named."""

    demands: ClassVar[Mapping[str, str]] = READ
    template_name = "notebooks/_state.html"
    PARTS: ClassVar[Mapping[str, str]] = {
        "head": "notebooks/_head.html",
        "reach": "notebooks/_reach.html",
        "facts": "notebooks/_facts.html",
    }

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        part = self.PARTS.get(request.GET.get("part", ""), "")
        context = self.page(row)
        if part and part != self.PARTS["head"]:
            context |= {"place": context["state"].place, "volumes": seen_at(row)}
        return self.render(context, template=part)


class Usage(WorkspaceView):
    """What it used, drawn and as numbers."""

    demands: ClassVar[Mapping[str, str]] = READ
    template_name = "notebooks/usage.html"
    tab = "usage"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        return self.render(self.page(row, {"samples": selectors.usage_of(row)[:-21:-1]}))
