# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The pages of one workspace that are not those of any kind of work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from common.errors import Conflict, Forbidden, Invalid
from common.ui.responses import go, refuse
from notebooks import selectors
from notebooks.kind import WORKSPACE
from notebooks.models import Workspace
from notebooks.ui.connection_info import seen_at
from notebooks.ui.forms import FORM_FIELDS, SizeForm, edit_form
from notebooks.ui.pages import PAGES
from work.kinds import Kind
from work.selectors import share_candidates, shares_of
from work.services import workload_edit
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
        return self.render(self.page(row, {**people(row), "volumes": seen_at(row)}))


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


class Settings(WorkspaceView):
    """Name, size, environment, limit; sharing; delete."""

    demands: ClassVar[Mapping[str, str]] = {"GET": "read", "POST": "create"}
    template_name = "notebooks/settings.html"
    tab = "settings"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.owned()
        return self._page(row, edit_form(self.principal, row))

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.owned()
        form = edit_form(self.principal, row, request.POST)
        if not form.is_valid():
            return self._page(row, form, status=422)
        before, pinned = row.launch, row.image_digest
        try:
            said = form.said()
            newest = said.pop("newest_image", False)
            row = workload_edit(principal=self.principal, row=row, said=said, newest_image=newest)
        except (Invalid, Conflict, Forbidden) as error:
            status = refuse(request, form, error, FORM_FIELDS)
            return self._page(self.owned(), form, status)
        told = (
            _("Saved. It restarts with its new settings.") if row.launch > before else _("Saved.")
        )
        if newest and row.image_digest == pinned:
            told = _("%(saved)s The tag still means the image that is pinned.") % {"saved": told}
        messages.success(request, told)
        return go(request, row.get_absolute_url())

    def _page(self, row: Workspace, form: SizeForm, status: int = 200) -> HttpResponse:
        said = {"cluster": row.cluster_key}
        check = reverse("images:check", args=[self.project.slug], query=said)
        context = {"form": form, "image_check_url": check, **people(row)}
        return self.render(self.page(row, context), status=status)


def people(row: Workspace) -> dict[str, Any]:
    """Return who may open it, and who could be let in."""
    return {
        "shares": list(shares_of(row)),
        "candidates": list(share_candidates(row)),
    }
