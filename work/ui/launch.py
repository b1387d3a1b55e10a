# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The form of something new with its plan, and the settings of what is there."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
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
from work.fields import Edit, Table
from work.selectors import form_values, given_words, may_change, offers_for
from work.services.manifest import manifest_wrap
from work.ui.base import OneView, WorkView
from work.ui.command import attached_named, command_of
from work.ui.forms import WorkForm, to_form

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project
    from work.kinds import Kind
    from work.ui.pages import Fill

CREATE: Mapping[str, str] = {"GET": "create", "POST": "create"}


def form_of(
    who: Principal, project: Project, kind: Kind, data: Any = None, *, row: Any = None
) -> WorkForm:
    """Return the form of a new one, or of what may change of ``row`` now."""
    if row is None:
        fleet = Fleet(clusters_of(project), project.uid)
        offers = offers_for(who, project, kind, fleet=fleet)
        values = kind.own.read(kind.model(), private=True)
        values |= given_words(attached_usually(who, project)) | {"cluster": ""}
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
        form = form_of(self.principal, self.project, self.kind)
        word = request.GET.get("fill", "")
        for key, value in self._filled(form, word).items():
            form.initial[key] = value
        return self._page(form, fill=word)

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        form = form_of(self.principal, self.project, self.kind, request.POST)
        if word := request.POST.get("fill"):
            data = request.POST.copy()
            for key, value in self._filled(form, word).items():
                several = value if isinstance(value, list) else [value]
                data.setlist(key, ["" if one is None else str(one) for one in several])
            form = form_of(self.principal, self.project, self.kind, data)
            return self._page(form, fill=word)
        if not form.is_valid():
            return self._page(form, status=422)
        try:
            row = services.workload_create(
                principal=self.principal,
                project=self.project,
                kind=self.kind,
                said=form.said(),
                nonce=request.POST.get("nonce", ""),
                must_fit=True,
            )
        except (Invalid, Conflict, Forbidden) as error:
            return self._page(form, refuse(request, form, error, form.names))
        return go(request, self.pages.address("detail", row))

    def _filled(self, form: WorkForm, word: str) -> dict[str, Any]:
        """Return what a size to begin with writes into the form; all else is as it was."""
        said = next((fill.said for fill in self._fills(form) if fill.word == word), {})
        return {form.names[n]: to_form(self.kind.table[n], value) for n, value in said.items()}

    def _fills(self, form: WorkForm) -> Sequence[Fill]:
        return self.pages.fills(form.fleet) if form.fleet else ()

    def _page(self, form: WorkForm, status: int = 200, fill: str = "") -> HttpResponse:
        """What is wrong with the form stands above it and nowhere else."""
        said = plan_context(self, form)
        if form.is_bound:
            said["problems"] = []
        context = {
            "form": form,
            "fills": self._fills(form),
            "fill": fill,
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
        form = form_of(self.principal, self.project, self.kind, request.POST)
        return self.render(plan_context(self, form))


def plan_context(view: WorkView, form: WorkForm) -> dict[str, Any]:
    """Return the plan with the same thing as YAML and as a command, or what is wrong."""
    if form.is_bound and not form.is_valid():
        problems = [str(error) for errors in form.errors.values() for error in errors]
        return {"plan": None, "problems": problems}
    said = form.said() if form.is_bound else {}
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
    named = attached_named(view.principal, view.project, plan.attached)
    told = view.kind.own.read(plan.row, private=True) | named
    document = manifest_wrap(view.kind, plan.name, view.project.slug, told)
    return {
        "plan": plan,
        "problems": [],
        "plan_yaml": to_yaml(document),
        "plan_command": command_of(
            view.kind,
            said | {name: named[name] for name in named if name in said},
            project=view.project.slug,
            name=plan.name,
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
        row = self.owned()
        form = form_of(self.principal, self.project, self.kind, request.POST, row=row)
        if not form.is_valid():
            return self._page(row, form, status=422)
        try:
            row = services.workload_edit(principal=self.principal, row=row, said=form.said())
        except (Invalid, Conflict, Forbidden) as error:
            return self._page(self.owned(), form, refuse(request, form, error, form.names))
        messages.success(request, _("Saved."))
        return go(request, self.pages.address("detail", row))

    def _form(self, row: Any) -> WorkForm | None:
        """Return None for others than its owner: they may only delete it."""
        if row.owner_id != self.principal.user.pk or not may_change(self.principal, row):
            return None
        return form_of(self.principal, self.project, self.kind, row=row)

    def _page(self, row: Any, form: WorkForm | None, status: int = 200) -> HttpResponse:
        return self.render(self.page(row, {"form": form}), status=status)
