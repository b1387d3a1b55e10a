# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Pages of credentials: what there is, storing one, replacing, changing, testing, removing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from accounts.ui import SettingsView
from credentials import selectors
from credentials.choices import CredentialKind
from credentials.models import Credential
from credentials.ui.base import Shelf
from projects.access import Permission, denial
from projects.models import Project
from projects.ui.base import ProjectView

if TYPE_CHECKING:
    from django.db.models import QuerySet

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

    def row(self, uid: UUID) -> Credential:
        return selectors.credential_get(self.principal, uid, self.project)


class List(_ProjectShelf):
    required_permissions: ClassVar[Mapping[str, Permission]] = _BOTH

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        return self.list_page(self.asked_form())

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        return self.add(request, request.POST.get("kind", CredentialKind.REGISTRY.value))


class Detail(_ProjectShelf):
    required_permissions: ClassVar[Mapping[str, Permission]] = _BOTH

    def get(self, request: HttpRequest, project: str, credential: UUID) -> HttpResponse:
        return self.one_page(self.row(credential))

    def post(self, request: HttpRequest, project: str, credential: UUID) -> HttpResponse:
        return self.rotate(request, self.row(credential))


class Events(_ProjectShelf):
    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": READ}

    def get(self, request: HttpRequest, project: str, credential: UUID) -> HttpResponse:
        return self.one_page(self.row(credential), "events")


class Settings(_ProjectShelf):
    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": READ}

    def get(self, request: HttpRequest, project: str, credential: UUID) -> HttpResponse:
        return self.one_page(self.row(credential), "settings")


class Edit(_ProjectShelf):
    required_permissions: ClassVar[Mapping[str, Permission]] = _POST

    def post(self, request: HttpRequest, project: str, credential: UUID) -> HttpResponse:
        return self.change(request, self.row(credential))


class Delete(_ProjectShelf):
    stands_on = Settings
    required_permissions: ClassVar[Mapping[str, Permission]] = _POST

    def post(self, request: HttpRequest, project: str, credential: UUID) -> HttpResponse:
        return self.remove(request, self.row(credential))


class Test(_ProjectShelf):
    required_permissions: ClassVar[Mapping[str, Permission]] = _POST

    def post(self, request: HttpRequest, project: str, credential: UUID) -> HttpResponse:
        return self.test(request, self.row(credential))


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

    def row(self, uid: UUID) -> Credential:
        return selectors.credential_own_get(self.principal, uid)


class Own(_OwnShelf):
    def get(self, request: HttpRequest) -> HttpResponse:
        return self.list_page(self.asked_form())

    def post(self, request: HttpRequest) -> HttpResponse:
        return self.add(request, request.POST.get("kind", ""))


class OwnDetail(_OwnShelf):
    def get(self, request: HttpRequest, own: UUID) -> HttpResponse:
        return self.one_page(self.row(own))

    def post(self, request: HttpRequest, own: UUID) -> HttpResponse:
        return self.rotate(request, self.row(own))


class OwnEvents(_OwnShelf):
    def get(self, request: HttpRequest, own: UUID) -> HttpResponse:
        return self.one_page(self.row(own), "events")


class OwnSettings(_OwnShelf):
    def get(self, request: HttpRequest, own: UUID) -> HttpResponse:
        return self.one_page(self.row(own), "settings")


class OwnEdit(_OwnShelf):
    required_platform: ClassVar[Any] = {"POST": "user"}

    def post(self, request: HttpRequest, own: UUID) -> HttpResponse:
        return self.change(request, self.row(own))


class OwnDelete(_OwnShelf):
    stands_on = OwnSettings
    required_platform: ClassVar[Any] = {"POST": "user"}

    def post(self, request: HttpRequest, own: UUID) -> HttpResponse:
        return self.remove(request, self.row(own))


class OwnTest(_OwnShelf):
    required_platform: ClassVar[Any] = {"POST": "user"}

    def post(self, request: HttpRequest, own: UUID) -> HttpResponse:
        return self.test(request, self.row(own))
