# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The form of a new load with its plan, and the settings of one that is there."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from common.errors import BerthError
from loaders import services
from loaders.choices import Task
from loaders.kind import LOAD
from loaders.models import Load
from loaders.ui.forms import NAMES, HowForm, LoadForm, edit_form
from loaders.ui.shared import as_command, as_yaml, named
from loaders.ui.views import LoadView
from projects.access import Permission
from projects.ui.base import ProjectView
from projects.ui.forms import attempt
from work.services import workload_edit, workload_plan

CREATE: Mapping[str, Permission] = {
    "GET": Permission.LOAD_CREATE,
    "POST": Permission.LOAD_CREATE,
}
_BUTTONS = {"": Task.LOAD, "load": Task.LOAD, "dry-run": Task.DRY_RUN}
_PREFILLED = ("url", "credential", "volume", "folder", "direction")


class New(ProjectView):
    """Three fields and one press."""

    required_permissions: ClassVar[Mapping[str, Permission]] = CREATE
    template_name = "loaders/new.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        initial = {k: request.GET[k][:1300] for k in _PREFILLED if k in request.GET}
        form = LoadForm(who=self.principal, project=self.project, initial=initial)
        return self._page(form)

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        form = LoadForm(request.POST, who=self.principal, project=self.project)
        if not form.is_valid():
            return self._page(form, status=422)
        act = partial(
            services.load_create,
            principal=self.principal,
            project=self.project,
            said=form.said(),
            task=_BUTTONS.get(request.POST.get("start", ""), Task.LOAD),
            nonce=request.POST.get("nonce", ""),
        )
        row = attempt(form, act, NAMES)
        if row is None:
            return self._page(form, status=422)
        return redirect(row.get_absolute_url())

    def _page(self, form: LoadForm, status: int = 200) -> HttpResponse:
        nonce = self.request.POST.get("nonce") or secrets.token_urlsafe(12)
        context = {"form": form, "nonce": nonce, "opened": _opened(form)}
        context |= plan_context(self, form) if form.is_bound and form.is_valid() else {}
        return self.render(context, status=status)


class NewPlan(ProjectView):
    """The foot of the form: what it does, what to mind, and the same thing as YAML."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.LOAD_CREATE}
    template_name = "loaders/_plan.html"

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        form = LoadForm(request.POST, who=self.principal, project=self.project)
        if not request.POST.get("url", "").strip():
            return self.render({"plan": None, "problems": []})
        return self.render(plan_context(self, form))


class Settings(LoadView):
    """How it copies and when; delete."""

    required_permissions: ClassVar[Mapping[str, Permission]] = CREATE
    template_name = "loaders/settings.html"
    tab = "settings"

    def get(self, request: HttpRequest, project: str, load: UUID) -> HttpResponse:
        row = self.row()
        return self._page(row, edit_form(row, self.principal))

    def post(self, request: HttpRequest, project: str, load: UUID) -> HttpResponse:
        row = self.row()
        form = edit_form(row, self.principal, request.POST)
        if not form.is_valid():
            return self._page(row, form, status=422)
        act = partial(workload_edit, principal=self.principal, row=row, said=form.said())
        if attempt(form, act) is None:
            return self._page(row, form, status=422)
        messages.success(request, _("Saved."))
        return redirect(row.get_absolute_url())

    def _page(self, row: Load, form: HowForm, status: int = 200) -> HttpResponse:
        return self.render(self.page(row, {"form": form}), status=status)


def plan_context(view: ProjectView, form: LoadForm) -> dict[str, Any]:
    """Return the plan with the same thing as YAML and as a command, or what is wrong."""
    if not form.is_valid():
        problems = [str(error) for errors in form.errors.values() for error in errors]
        return {"plan": None, "problems": problems}
    try:
        plan = workload_plan(
            principal=view.principal, project=view.project, kind=LOAD, said=form.said()
        )
    except BerthError as error:
        return {"plan": None, "problems": [error.message]}
    slug, rows = view.project.slug, named(view.principal, plan.row)
    return {
        "plan": plan,
        "problems": [],
        "plan_yaml": as_yaml(plan.name, slug, plan.row, rows),
        "plan_command": as_command(plan.name, slug, plan.row, rows),
    }


def _opened(form: LoadForm) -> bool:
    """Whether what is folded away must be seen: something in it is wrong."""
    needed = {"credential", "url", "volume", "cache_size"}
    return bool(set(form.errors) - needed - {"__all__"})
