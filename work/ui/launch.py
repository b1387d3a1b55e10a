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
from work.fields import Choice, Count, Devices, Edit, Field, Line, Table
from work.kinds import kind_of
from work.selectors import form_values, given_words, may_change, offers_for
from work.services.base import require_startable
from work.services.manifest import manifest_wrap
from work.services.resolve import resolved
from work.ui.base import OneView, WorkView
from work.ui.command import attached_named, command_of, told_apart
from work.ui.forms import WorkForm, to_form

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project
    from work.kinds import Kind
    from work.ui.pages import Fill, Pages

CREATE: Mapping[str, str] = {"GET": "create", "POST": "create"}
_MAX_BESIDE = 40
_MAX_GIVEN = 1300
_DIGITS = 9


def form_of(
    who: Principal, project: Project, kind: Kind, data: Any = None, *, row: Any
) -> WorkForm:
    """Return the form of a new one that begins as ``row``, or of what may change of it now."""
    if row.pk is None:
        fleet = Fleet(clusters_of(project), project.uid)
        offers = offers_for(who, project, kind, fleet=fleet)
        # What a preset sets of variables is there in any case.
        values = kind.own.read(row, private=True) | {"env": {}}
        values |= given_words(kind.attached_first(who, row) or attached_usually(who, project))
        form = WorkForm(data, table=kind.table, offers=offers, values=values)
        form.fleet = fleet
        return form
    return WorkForm(
        data,
        table=changeable(kind, row),
        offers=offers_for(who, project, kind, row),
        values=form_values(row),
        renews=kind.renews and bool(row.pinned_tag),
    )


def form_for(
    pages: Pages, who: Principal, project: Project, data: Any = None, *, row: Any
) -> WorkForm:
    """Return the form of a kind: made of its table, or its own."""
    if pages.form is not None:
        return pages.form(who, project, data, row=row)
    return form_of(who, project, pages.kind, data, row=row)


def likely_cluster(kind: Kind, who: Principal, project: Project, given: Any) -> str:
    """Return the key of the cluster where what its form says would go; "": none lets it in.

    ``given``: fields of the form, as they were sent.
    """
    try:
        row = _begun(kind, who, project, given)
        form = form_of(who, project, kind, given, row=row)
        form.is_valid()  # what can't be read is not said
        said = {**kind.beside_of(row), **form.said()}
        return str(resolved(principal=who, project=project, kind=kind, said=said).row.cluster_key)
    except BerthError:
        return ""


def _begun(kind: Kind, who: Principal, project: Project, given: Mapping[str, str]) -> Any:
    """Return what a new one begins as, not saved: what is said beside its fields decides that."""
    beside = {name: given[name][:_MAX_BESIDE] for name in kind.beside if given.get(name)}
    return kind.new(who, project, beside)


def _given(field: Field, text: str | None) -> str | int | None:
    """Return what a link that led to the form says of a field; what can't be read is not said."""
    if text is None or not isinstance(field, Line | Choice | Count | Devices):
        return None
    if not isinstance(field, Count):
        return text[:_MAX_GIVEN]
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
    return int(text) if is_number else None


def changeable(kind: Kind, row: Any) -> Table:
    """Return the fields that may change as it is now: while it runs, what no process knows."""
    all_of_it = row.is_ended or not kind.once
    allowed = {Edit.ALWAYS, Edit.RESTARTS} if all_of_it else {Edit.ALWAYS}
    return Table(*(one for one in kind.table if one.edit in allowed and _makes_sense(one, row)))


def _makes_sense(field: Field, row: Any) -> bool:
    return not field.only or kind_of(row.kind).table[field.only[0]].read(row) == field.only[1]


class NewView(WorkView):
    """What the form of a new one and its foot share."""

    def row(self, given: Mapping[str, str]) -> Any:
        return _begun(self.kind, self.principal, self.project, given)

    def form(self, row: Any, data: Any = None) -> WorkForm:
        return form_for(self.pages, self.principal, self.project, data, row=row)

    def plan(self, row: Any, form: WorkForm) -> dict[str, Any]:
        """Return the plan with the same as YAML and as a command, or what is wrong."""
        if form.is_bound and not form.is_valid():
            known = [
                f"{form[key].label}: {text}" if key in form.fields else text
                for key, errors in form.errors.as_data().items()
                for error in errors
                if error.code != "required"
                for text in error.messages
            ]
            return {"plan": None, "problems": known}
        own, kind = form.said() if form.is_bound else dict(form.given), self.kind
        beside = kind.beside_of(row)
        asked: dict[str, Any] = {"principal": self.principal, "project": self.project, "kind": kind}
        try:
            plan = services.workload_plan(**asked, said={**beside, **own}, fleet=form.fleet)
        except BerthError as error:
            if not form.is_bound and isinstance(error, Invalid):
                return {"plan": None, "problems": [], "missing": error.message}  # nothing was said
            return {"plan": None, "problems": [error.message]}
        slug, name = self.project.slug, plan.name
        named = attached_named(self.principal, self.project, plan.attached)
        always = self.pages.named(self.principal, plan.row)
        told = {**kind.beside_of(plan.row), **kind.own.read(plan.row, private=True)}
        told |= {**named, **always}
        who = self.principal, self.project
        usual = kind.new(*who, {**beside, **own}) if own else row
        said = told_apart(kind, own | {key: named[key] for key in named if key in own}, row, usual)
        told_by, begins = [str(word) for word in beside.values() if word], self.pages.begins
        there: dict[str, Any] = {"project": slug, "name": name, "group": self.pages.group}
        there["verb"] = (self.pages.verb, *(() if begins else told_by))
        there["begins"] = [part for word in told_by for part in (begins, word) if begins]
        return {
            "plan": plan,
            "problems": [],
            "plan_yaml": to_yaml(manifest_wrap(kind, name, slug, told)),
            "plan_command": command_of(kind, {**said, **always}, **there),
        }


class New(NewView):
    """The form with all fields; a press that says none of them starts what it begins as."""

    demands: ClassVar[Mapping[str, str]] = CREATE
    template_name = "work/new.html"
    partial_name = "work/_new_form.html"

    @roles_kept()
    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        require_startable(self.principal, self.project, self.kind)
        row = self.row(request.GET.dict())
        form = self.form(row)
        word = request.GET.get("fill", "")
        form.initial.update(self._filled(form, word))
        form.given = {
            field.name: value
            for field in self.kind.table
            if (value := _given(field, request.GET.get(field.name))) is not None
        }
        form.given = {**self.pages.follows(self.principal, self.project, form), **form.given}
        told = {n: to_form(self.kind.table[n], value) for n, value in form.given.items()}
        form.initial.update({form.names[name]: value for name, value in told.items()})
        form.choose_volume(request.GET.get("volume", "")[:36])
        return self._page(row, form, fill=word)

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        row = self.row(request.POST.dict())
        form = self.form(row, request.POST)
        if word := request.POST.get("fill"):
            data = request.POST.copy()
            for key, value in self._filled(form, word).items():
                several = value if isinstance(value, list) else [value]
                data.setlist(key, ["" if one is None else str(one) for one in several])
            return self._page(row, self.form(row, data), fill=word)
        if not form.is_valid():
            return self._page(row, form, status=422)
        try:
            made = self.make({**self.kind.beside_of(row), **form.said()})
        except (Invalid, Conflict, Forbidden) as error:
            if not set(form.fields) & set(request.POST):
                request.berth_error = error  # type: ignore[attr-defined]  # as ``refuse`` does
                return self._page(row, self.form(row), error.status, refusal=error.message)
            return self._page(row, form, refuse(request, form, error, form.names))
        query = {"open": "1"} if self.pages.open_url else {}
        return go(request, self.pages.address("detail", made, query=query))

    def make(self, said: Mapping[str, Any]) -> Any:
        new: dict[str, Any] = {"project": self.project, "kind": self.kind, "said": said}
        nonce = self.request.POST.get("nonce", "")
        return services.workload_create(principal=self.principal, **new, nonce=nonce, must_fit=True)

    def _filled(self, form: WorkForm, word: str) -> dict[str, Any]:
        """Return what a size to begin with writes into the form; all else is as it was."""
        said = next((fill.said for fill in self._fills(form) if fill.word == word), {})
        return {form.names[n]: to_form(self.kind.table[n], value) for n, value in said.items()}

    def _fills(self, form: WorkForm) -> Sequence[Fill]:
        return self.pages.fills(form.fleet) if form.fleet else ()

    def _page(
        self, row: Any, form: WorkForm, status: int = 200, *, refusal: str = "", fill: str = ""
    ) -> HttpResponse:
        """``refusal``, and what is wrong with the form, stand above it and nowhere else."""
        said = self.plan(row, form)
        if form.is_bound:
            said["problems"] = []
        context = {
            "form": form,
            "fills": self._fills(form),
            "fill": fill,
            "beside": self.kind.beside_of(row),
            "nonce": self.request.POST.get("nonce") or secrets.token_urlsafe(12),
            "new_url": self.pages.list_address("new", self.project.slug),
            "plan_url": self.pages.list_address("plan", self.project.slug),
            "image_check_url": self.pages.image_check_address(self.project.slug),
            "refusal": refusal,
            **self.pages.new_part_of(row),
            **said,
        }
        return self.render(context, status=status)


class NewPlan(NewView):
    """The foot of the form: whether it starts now, what it costs, what it does to the limits."""

    demands: ClassVar[Mapping[str, str]] = {"POST": "create"}
    template_name = "work/_plan.html"

    @roles_kept()
    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        row = self.row(request.POST.dict())
        return self.render(self.plan(row, self.form(row, request.POST)))


class Settings(OneView):
    """What may change of it, and its deletion."""

    demands: ClassVar[Mapping[str, str]] = {"GET": "read", "POST": "create"}
    template_name = "work/settings.html"
    tab = "settings"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.inside() if self.pages.private_settings else self.row()
        return self._page(row, self._form(row))

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        form = self._form(row, request.POST)
        if form is None:
            raise Forbidden(_("Only its owner may see or change this."))
        if not form.is_valid():
            return self._page(row, form, status=422)
        before, pinned = row.launch, getattr(row, "image_digest", "")
        newest = bool(form.cleaned_data.get("newest_image"))
        try:
            row = services.workload_edit(
                principal=self.principal, row=row, said=form.said(), newest_image=newest
            )
        except (Invalid, Conflict, Forbidden) as error:
            return self._page(self.row(), form, refuse(request, form, error, form.names))
        restarts = row.launch > before
        told = _("Saved. It restarts with its new settings.") if restarts else _("Saved.")
        if newest and row.image_digest == pinned:
            told = _("%(saved)s The tag still means the image that is pinned.") % {"saved": told}
        messages.success(request, told)
        return go(request, self.pages.address("detail", row))

    def _form(self, row: Any, data: Any = None) -> WorkForm | None:
        """Return None for who may not change it: they may only delete it."""
        if not may_change(self.principal, row):
            return None
        return form_for(self.pages, self.principal, self.project, data, row=row)

    def _page(self, row: Any, form: WorkForm | None, status: int = 200) -> HttpResponse:
        check = self.pages.image_check_address(self.project.slug, row.cluster_key)
        return self.render(self.page(row, {"form": form, "image_check_url": check}), status=status)
