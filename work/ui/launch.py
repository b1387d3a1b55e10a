# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The form of something new with its plan, and the settings of what is there."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from common.errors import BerthError, Conflict, Forbidden, Invalid
from common.ui.responses import go, refuse, to_yaml
from placement.clusters import clusters_of
from placement.fleet import Fleet
from projects.access import roles_kept
from work import services
from work.attached import attached_usually
from work.fields import Choice, Edit, Line, Table
from work.selectors import form_values, given_words, may_change, offers_for
from work.services.manifest import manifest_wrap
from work.ui.base import OneView, WorkView
from work.ui.command import attached_named, command_of
from work.ui.forms import WorkForm

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project
    from work.kinds import Kind
    from work.ui.pages import Pages

_MAX_GIVEN = 1300
CREATE: Mapping[str, str] = {"GET": "create", "POST": "create"}


def form_of(
    who: Principal,
    project: Project,
    pages: Pages,
    data: Any = None,
    *,
    row: Any = None,
    given: Mapping[str, Any] | None = None,
) -> WorkForm:
    """Return the form of a new one, or of what may change of ``row`` now.

    ``given``: what the link that led here says of a new one.
    """
    form = _form_of(who, project, pages, data, row, given or {})
    form.given = given or {}
    return form


def _form_of(
    who: Principal, project: Project, pages: Pages, data: Any, row: Any, given: Mapping[str, Any]
) -> WorkForm:
    kind = pages.kind
    if pages.form is not None:
        return pages.form(who, project, data, row=row, given=given)
    if row is None:
        fleet = Fleet(clusters_of(project), project.uid)
        offers = offers_for(who, project, kind, fleet=fleet)
        values = kind.own.read(kind.model(), private=True)
        values |= {**given_words(attached_usually(who, project)), "cluster": "", **given}
        form = WorkForm(data, table=kind.table, offers=offers, values=values)
        form.fleet = fleet
        return form
    offers = offers_for(who, project, kind, row)
    return WorkForm(data, table=changeable(kind, row), offers=offers, values=form_values(row))


def changeable(kind: Kind, row: Any) -> Table:
    """Return the fields that may change as it is now: while it runs, what no process knows."""
    all_of_it = row.is_ended or not kind.once
    allowed = {Edit.ALWAYS, Edit.RESTARTS} if all_of_it else {Edit.ALWAYS}
    return Table(*(field for field in kind.table if field.edit in allowed))


class New(WorkView):
    """The form with all fields."""

    demands: ClassVar[Mapping[str, str]] = CREATE
    template_name = "work/new.html"
    partial_name = "work/_new_form.html"

    @roles_kept()
    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        given = {
            field.name: request.GET[field.name][:_MAX_GIVEN]
            for field in self.kind.table
            if isinstance(field, Line | Choice) and field.name in request.GET
        }
        return self._page(form_of(self.principal, self.project, self.pages, given=given))

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        form = form_of(self.principal, self.project, self.pages, request.POST)
        if not form.is_valid():
            return self._page(form, status=422)
        try:
            row = self.make(form.said(), request.POST.get("nonce", ""))
        except (Invalid, Conflict, Forbidden) as error:
            return self._page(form, refuse(request, form, error, form.names))
        return go(request, self.pages.address("detail", row))

    def make(self, said: Mapping[str, Any], nonce: str) -> Any:
        new: dict[str, Any] = {"project": self.project, "kind": self.kind, "said": said}
        return services.workload_create(principal=self.principal, **new, nonce=nonce, must_fit=True)

    def _page(self, form: WorkForm, status: int = 200) -> HttpResponse:
        """What is wrong with the form stands above it and nowhere else."""
        said = plan_context(self, form)
        if form.is_bound:
            said["problems"] = []
        context = {
            "form": form,
            "nonce": self.request.POST.get("nonce") or secrets.token_urlsafe(12),
            "new_url": self.pages.list_address("new", self.project.slug),
            "plan_url": self.pages.list_address("plan", self.project.slug),
            **said,
        }
        return self.render(context, status=status)


class NewPlan(WorkView):
    """The foot of the form: whether it starts now, what it costs, what it does to the limits."""

    demands: ClassVar[Mapping[str, str]] = {"POST": "create"}
    template_name = "work/_plan.html"

    @roles_kept()
    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        form = form_of(self.principal, self.project, self.pages, request.POST)
        return self.render(plan_context(self, form))


def plan_context(view: WorkView, form: WorkForm) -> dict[str, Any]:
    """Return the plan with the same thing as YAML and as a command, or what is wrong."""
    if form.is_bound and not form.is_valid():
        wrong = [error for errors in form.errors.as_data().values() for error in errors]
        known = [text for error in wrong if error.code != "required" for text in error.messages]
        return {"plan": None, "problems": known}
    said = form.said() if form.is_bound else form.given
    try:
        plan = services.workload_plan(
            principal=view.principal,
            project=view.project,
            kind=view.kind,
            said=said,
            fleet=form.fleet,
        )
    except BerthError as error:
        if not form.is_bound and isinstance(error, Invalid):
            return {"plan": None, "problems": [], "missing": error.message}  # nothing was said yet
        return {"plan": None, "problems": [error.message]}
    attached = attached_named(view.principal, view.project, plan.attached)
    named = view.pages.named(view.principal, plan.row)
    told = {**view.kind.own.read(plan.row, private=True), **attached, **named}
    document = manifest_wrap(view.kind, plan.name, view.project.slug, told)
    typed = {**said, **{name: attached[name] for name in attached if name in said}, **named}
    return {
        "plan": plan,
        "problems": [],
        "plan_yaml": to_yaml(document),
        "plan_command": command_of(
            view.kind, typed, project=view.project.slug, name=plan.name, verb=view.pages.command
        ),
    }


class Settings(OneView):
    """What may change of it, and its deletion."""

    demands: ClassVar[Mapping[str, str]] = {"GET": "read", "POST": "create"}
    template_name = "work/settings.html"
    tab = "settings"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        return self._page(row, self._form(row))

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        form = self._form(row, request.POST)
        if form is None:
            raise Forbidden(_("Only its owner may see or change this."))
        if not form.is_valid():
            return self._page(row, form, status=422)
        try:
            row = services.workload_edit(principal=self.principal, row=row, said=form.said())
        except (Invalid, Conflict, Forbidden) as error:
            return self._page(self.row(), form, refuse(request, form, error, form.names))
        messages.success(request, _("Saved."))
        return go(request, self.pages.address("detail", row))

    def _form(self, row: Any, data: Any = None) -> WorkForm | None:
        """Return None for who may not change it: they may only delete it."""
        if not may_change(self.principal, row):
            return None
        return form_of(self.principal, self.project, self.pages, data, row=row)

    def _page(self, row: Any, form: WorkForm | None, status: int = 200) -> HttpResponse:
        return self.render(self.page(row, {"form": form}), status=status)
