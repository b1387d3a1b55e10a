# ruff: noqa: ARG002 - handlers get what is in the URL
"""What the pages of a project's credentials and of one's own have in common."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django_tables2 import RequestConfig

from accounts.ui import SettingsView
from common.errors import BerthError
from common.ui.views import BerthView
from credentials import references, selectors, services
from credentials.choices import CredentialKind
from credentials.kinds import KINDS, TOLD, Kind, Part, kind_of
from credentials.models import Credential
from credentials.probe import credential_test
from credentials.ui.forms import AddForm, CredentialTable, EditForm, FilterForm, RotateForm, state
from events.selectors import newest, of_target
from projects.access import Permission, denial
from projects.models import Project
from projects.ui.base import ProjectView
from projects.ui.forms import attempt

if TYPE_CHECKING:
    from django.db.models import QuerySet


PER_PAGE = 25
_NAMED = 20
_TABS = {
    "overview": "credentials/detail.html",
    "events": "credentials/events.html",
    "settings": "credentials/settings.html",
}
_IDS = "new_%s"  # of the second form of a page


class Shelf(BerthView):
    """Where credentials lie: a project, or (``place`` None) a person."""

    frame = "base.html"
    tab = "overview"  # of the pages of one

    @property
    def place(self) -> Project | None:
        raise NotImplementedError

    @property
    def rows(self) -> QuerySet[Credential]:
        raise NotImplementedError

    @property
    def denied(self) -> str:
        """Why nothing may be changed here; "" where it may."""
        return ""

    def url(self, name: str, row: Credential | None = None) -> str:
        raise NotImplementedError

    def row(self) -> Credential:
        """Return the one that the address names."""
        raise NotImplementedError

    def kinds(self) -> list[Kind]:
        pulled = CredentialKind.REGISTRY
        return [k for k in KINDS.values() if self.place is not None or k.kind is not pulled]

    def list_page(self, form: AddForm, status: int = 200) -> HttpResponse:
        filters = FilterForm(self.request.GET, self.kinds())
        table = CredentialTable(filters.narrowed(self.rows))
        if self.place is None:
            table.columns.hide("usable_by")
        paginate = {"per_page": PER_PAGE, "silent": True}
        RequestConfig(self.request, paginate=paginate).configure(table)
        context: dict[str, Any] = {
            "frame": self.frame,
            "table": table,
            "filters": filters,
            "empty_always": not filters.narrows,  # ``kind`` alone narrows nothing
            "form": form,
            "kinds": self.kinds(),
            "denied": self.denied,
            "personal": self.place is None,
        }
        return self.render(context, status=status)

    def add_form(self, name: str, **given: Any) -> AddForm:
        named = name if name in {k.kind.value for k in self.kinds()} else self.kinds()[0].kind.value
        return AddForm(KINDS[named], personal=self.place is None, **given)

    def asked_form(self) -> AddForm:
        """Return the form of the kind that the address names.

        What was typed stays when another kind is chosen; a host comes with the page of an image.
        """
        said = self.request.GET
        kept = {name: said.get(name, "")[:255] for name in ("host", "name", "description")}
        usual = CredentialKind.REGISTRY.value if kept["host"] else ""
        return self.add_form(said.get("kind", usual), initial=kept)

    def show_all(self, request: HttpRequest, **kwargs: object) -> HttpResponse:
        return self.list_page(self.asked_form())

    def add(self, request: HttpRequest, **kwargs: object) -> HttpResponse:
        usual = "" if self.place is None else CredentialKind.REGISTRY.value
        name = request.POST.get("kind", usual)
        form = self.add_form(name, data=request.POST, files=request.FILES)
        if form.is_valid():
            act = partial(
                services.credential_add,
                principal=self.principal,
                project=self.place,
                kind=form.kind.kind.value,
                label=services.Label(**form.label, expires_at=form.expires_at),
                fields=form.said(),
            )
            row = attempt(form, act)
            if row is not None:
                messages.success(request, _("“%(name)s” is stored.") % {"name": row.name})
                return redirect(row.get_absolute_url())
        return self.list_page(form, status=422)

    def show(self, request: HttpRequest, **kwargs: object) -> HttpResponse:
        return self.one_page(self.row(), self.tab)

    def one_page(
        self,
        row: Credential,
        tab: str = "overview",
        *,
        rotate: RotateForm | None = None,
        edit: EditForm | None = None,
        status: int = 200,
    ) -> HttpResponse:
        kind = kind_of(row.kind)
        kept = {name: row.public.get(name) for name in kind.shown()}
        reason = self.denied or _why_not(self.principal, row)
        used_by = references.of(row)
        told, more = newest(of_target(row.uid)) if tab == "events" else ([], False)
        context = {
            "frame": self.frame,
            "row": row,
            "facts": facts_of(row, kind),
            "rotate": rotate or RotateForm(kind, initial=kept, auto_id=_IDS),
            "edit": edit or EditForm(row, kind),
            "holders": used_by,
            "removal": _removal(row, used_by),
            "state": state(row),
            "denied": reason,
            "may_remove": not self.denied,
            "urls": {n: self.url(n, row) for n in ("list", "settings", "edit", "test", "delete")},
            "tabs": self._tabs(row, tab),
            "events": told,
            "more_events": more,
        }
        return self.render(context, status=status, template=_TABS[tab])

    def _tabs(self, row: Credential, current: str) -> list[dict[str, Any]]:
        words = {"overview": _("Overview"), "events": _("Events"), "settings": _("Settings")}
        return [
            {
                "label": words[tab],
                "url": row.get_absolute_url() if tab == "overview" else self.url(tab, row),
                "current": tab == current,
            }
            for tab in _TABS
        ]

    def rotate(self, request: HttpRequest, **kwargs: object) -> HttpResponse:
        row = self.row()
        form = RotateForm(kind_of(row.kind), data=request.POST, files=request.FILES, auto_id=_IDS)
        if form.is_valid():
            said = {name: value for name, value in form.said().items() if value}
            act = partial(
                services.credential_rotate,
                principal=self.principal,
                credential=row,
                fields=said,
                expires_at=form.expires_at,
            )
            if attempt(form, act) is not None:
                messages.success(request, _("The secret is replaced."))
                return redirect(row.get_absolute_url())
        return self.one_page(row, "settings", rotate=form, status=422)

    def change(self, request: HttpRequest, **kwargs: object) -> HttpResponse:
        row = self.row()
        form = EditForm(row, kind_of(row.kind), data=request.POST)
        if form.is_valid():
            act = partial(
                services.credential_edit,
                principal=self.principal,
                credential=row,
                changes=form.changes(),
            )
            if attempt(form, act) is not None:
                messages.success(request, _("The changes are kept."))
                return redirect(row.get_absolute_url())
        return self.one_page(row, "settings", edit=form, status=422)

    def remove(self, request: HttpRequest, **kwargs: object) -> HttpResponse:
        row = self.row()
        confirm = request.POST.get("confirm", "").strip()
        services.credential_delete(principal=self.principal, credential=row, confirm=confirm)
        messages.success(request, _("“%(name)s” is removed.") % {"name": row.name})
        return redirect(self.url("list"))

    def test(self, request: HttpRequest, **kwargs: object) -> HttpResponse:
        row = self.row()
        verdict = credential_test(principal=self.principal, credential=row)
        say = {True: messages.success, False: messages.error, None: messages.info}[verdict.ok]
        say(request, verdict.message)
        return redirect(row.get_absolute_url())


def facts_of(row: Credential, kind: Kind) -> list[tuple[str | Promise, object]]:
    """Return what may be shown of it besides what every kind has."""
    found: list[tuple[str | Promise, object]] = []
    for given in kind.fields:
        value = row.public.get(given.name)
        if given.hidden or given.part is Part.TARGET or value in (None, "", []):
            continue  # what it opens stands above already
        choices = dict(given.choices)
        if isinstance(value, bool):
            value = _("yes") if value else _("no")
        found.append((given.label, choices.get(str(value), value)))
    found += [(label, row.public[name]) for name, label in TOLD.items() if row.public.get(name)]
    return [(label, ", ".join(v) if isinstance(v, list) else v) for label, v in found]


def _removal(row: Credential, used_by: list[references.Holder]) -> str:
    """Say what its removal does, and to whom."""
    if row.kind == CredentialKind.REGISTRY:
        return _("Images that need it can't be pulled any more. What runs goes on.")
    text = _(
        "Its copies are taken from all work within a minute. A program that has read it already"
        " keeps what it read."
    )
    if not used_by:
        return text
    named = ", ".join(holder.name for holder in used_by[:_NAMED])
    more = "" if len(used_by) <= _NAMED else " …"
    return f"{text} " + _("It is used by: %(names)s.") % {"names": named + more}


def _why_not(who: Any, row: Credential) -> str:
    try:
        services.require_manage(who, row)
    except BerthError as error:
        return error.message
    return ""


READ, MANAGE = Permission.CREDENTIAL_READ, Permission.CREDENTIAL_MANAGE
_BOTH: Mapping[str, Permission] = {"GET": READ, "POST": MANAGE}
_POST: Mapping[str, Permission] = {"POST": MANAGE}


class _ProjectShelf(Shelf, ProjectView):
    template_name = "credentials/list.html"

    @property
    def place(self) -> Project | None:
        return self.project

    @property
    def rows(self) -> QuerySet[Credential]:
        return selectors.credentials_visible_to(self.principal, self.project)

    @property
    def denied(self) -> str:
        return "" if self.can(MANAGE) else denial(MANAGE)

    def url(self, name: str, row: Credential | None = None) -> str:
        parts = [self.project.slug, *([] if name == "list" or row is None else [row.uid])]
        return reverse(f"credentials:{name}", args=parts)

    def row(self) -> Credential:
        return selectors.credential_get(self.principal, self.kwargs["credential"], self.project)


class List(_ProjectShelf):
    required_permissions: ClassVar[Mapping[str, Permission]] = _BOTH
    get, post = Shelf.show_all, Shelf.add


class Detail(_ProjectShelf):
    required_permissions: ClassVar[Mapping[str, Permission]] = _BOTH
    get, post = Shelf.show, Shelf.rotate


class Events(_ProjectShelf):
    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": READ}
    tab, get = "events", Shelf.show


class Settings(_ProjectShelf):
    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": READ}
    tab, get = "settings", Shelf.show


class Edit(_ProjectShelf):
    required_permissions: ClassVar[Mapping[str, Permission]] = _POST
    post = Shelf.change


class Delete(_ProjectShelf):
    stands_on = Settings
    required_permissions: ClassVar[Mapping[str, Permission]] = _POST
    post = Shelf.remove


class Test(_ProjectShelf):
    required_permissions: ClassVar[Mapping[str, Permission]] = _POST
    post = Shelf.test


class _OwnShelf(Shelf, SettingsView):
    template_name = "credentials/list.html"
    frame = "accounts/settings_base.html"

    @property
    def place(self) -> Project | None:
        return None

    @property
    def rows(self) -> QuerySet[Credential]:
        return selectors.credentials_own(self.principal)

    def url(self, name: str, row: Credential | None = None) -> str:
        if name == "list" or row is None:
            return reverse("credentials:own")
        return reverse(f"credentials:own-{name}", args=[row.uid])

    def row(self) -> Credential:
        return selectors.credential_own_get(self.principal, self.kwargs["own"])


class Own(_OwnShelf):
    get, post = Shelf.show_all, Shelf.add


class OwnDetail(_OwnShelf):
    get, post = Shelf.show, Shelf.rotate


class OwnEvents(_OwnShelf):
    tab, get = "events", Shelf.show


class OwnSettings(_OwnShelf):
    tab, get = "settings", Shelf.show


class OwnEdit(_OwnShelf):
    required_platform: ClassVar[Any] = {"POST": "user"}
    post = Shelf.change


class OwnDelete(_OwnShelf):
    stands_on = OwnSettings
    required_platform: ClassVar[Any] = {"POST": "user"}
    post = Shelf.remove


class OwnTest(_OwnShelf):
    required_platform: ClassVar[Any] = {"POST": "user"}
    post = Shelf.test
