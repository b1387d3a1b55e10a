# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Pages of credentials: what there is, storing one, replacing, testing and removing it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django_tables2 import RequestConfig

from credentials import selectors, services
from credentials.models import Credential
from credentials.probe import credential_test
from credentials.ui.forms import RegistryForm, RotateForm
from credentials.ui.tables import CredentialTable, state
from projects.access import Permission, denial
from projects.ui.base import ProjectView
from projects.ui.forms import attempt

PER_PAGE = 25
CREDENTIAL_READ, CREDENTIAL_MANAGE = Permission.CREDENTIAL_READ, Permission.CREDENTIAL_MANAGE


class _View(ProjectView):
    def row(self, uid: UUID) -> Credential:
        return selectors.credential_get(self.principal, uid, self.project)

    @property
    def denied(self) -> str:
        return "" if self.can(CREDENTIAL_MANAGE) else denial(CREDENTIAL_MANAGE)


class List(_View):
    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": CREDENTIAL_READ,
        "POST": CREDENTIAL_MANAGE,
    }
    template_name = "credentials/list.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        return self._page(RegistryForm(initial={"host": request.GET.get("host", "")[:255]}))

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        form = RegistryForm(request.POST)
        if form.is_valid():
            said = form.cleaned_data
            act = partial(
                services.registry_add,
                principal=self.principal,
                project=self.project,
                name=said["name"],
                host=said["host"],
                login=services.Login(said["username"], said["password"]),
                expires_at=form.expires_at,
            )
            row = attempt(form, act)
            if row is not None:
                messages.success(request, _("“%(name)s” is stored.") % {"name": row.name})
                return redirect("credentials:detail", self.project.slug, row.uid)
        return self._page(form, status=422)

    def _page(self, form: RegistryForm, status: int = 200) -> HttpResponse:
        table = CredentialTable(selectors.credentials_visible_to(self.principal, self.project))
        RequestConfig(self.request, paginate={"per_page": PER_PAGE, "silent": True}).configure(
            table
        )
        context: dict[str, Any] = {"table": table, "form": form, "denied": self.denied}
        return self.render(context, status=status)


class Detail(_View):
    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": CREDENTIAL_READ,
        "POST": CREDENTIAL_MANAGE,
    }
    template_name = "credentials/detail.html"

    def get(self, request: HttpRequest, project: str, credential: UUID) -> HttpResponse:
        row = self.row(credential)
        return self._page(row, RotateForm(initial={"username": row.username}))

    def post(self, request: HttpRequest, project: str, credential: UUID) -> HttpResponse:
        row = self.row(credential)
        form = RotateForm(request.POST)
        if form.is_valid():
            said = form.cleaned_data
            act = partial(
                services.credential_rotate,
                principal=self.principal,
                credential=row,
                login=services.Login(said["username"], said["password"]),
                expires_at=form.expires_at,
            )
            if attempt(form, act) is not None:
                messages.success(request, _("The secret is replaced."))
                return redirect("credentials:detail", self.project.slug, row.uid)
        return self._page(row, form, status=422)

    def _page(self, row: Credential, form: RotateForm, status: int = 200) -> HttpResponse:
        context = {"row": row, "form": form, "state": state(row), "denied": self.denied}
        return self.render(context, status=status)


class Delete(_View):
    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": CREDENTIAL_MANAGE}

    def post(self, request: HttpRequest, project: str, credential: UUID) -> HttpResponse:
        row = self.row(credential)
        services.credential_delete(
            principal=self.principal,
            credential=row,
            confirm=request.POST.get("confirm", "").strip(),
        )
        messages.success(request, _("“%(name)s” is removed.") % {"name": row.name})
        return redirect("credentials:list", self.project.slug)


class Test(_View):
    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": CREDENTIAL_MANAGE}

    def post(self, request: HttpRequest, project: str, credential: UUID) -> HttpResponse:
        row = self.row(credential)
        verdict = credential_test(principal=self.principal, credential=row)
        say = messages.success if verdict.ok else messages.error
        say(request, verdict.message)
        return redirect("credentials:detail", self.project.slug, row.uid)
