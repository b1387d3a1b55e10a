# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Pages of webhooks: a project's, and one's own among the settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path, reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables

from accounts.ui import SettingsView
from common.errors import Invalid
from common.paging import paginate
from common.ui.views import BerthView
from notifications.kinds import KINDS
from projects.access import Permission
from projects.models import Project
from projects.ui.base import ProjectView
from projects.ui.forms import attempt
from webhooks import selectors, services
from webhooks.models import Delivery, Webhook


class WebhookForm(forms.Form):
    """A webhook; of one that is there the address stays where none is typed."""

    name = forms.CharField(label=_("Name"), max_length=services.NAME_MAX)
    url = forms.CharField(
        label=_("Address"),
        max_length=services.URL_MAX,
        widget=forms.TextInput(
            attrs={"autocomplete": "off", "spellcheck": "false", "inputmode": "url"}
        ),
        help_text=_("Begins with https://. Incoming webhooks of Slack and Mattermost fit."),
    )
    enabled = forms.BooleanField(label=_("On"), required=False)
    kinds = forms.MultipleChoiceField(
        label=_("What it is told"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("None chosen: everything."),
    )

    def __init__(
        self, *args: Any, place: Project | None, row: Webhook | None = None, **kwargs: Any
    ) -> None:
        if row is not None:
            kwargs["initial"] = {"name": row.name, "enabled": row.enabled, "kinds": row.kinds}
        super().__init__(*args, **kwargs)
        known = selectors.kinds_for(place)
        self.fields["kinds"].choices = [(k.name, k.label) for k in known]  # type: ignore[attr-defined]
        if row is None:
            del self.fields["enabled"]
            return
        self.fields["url"].required = False
        self.fields["url"].help_text = _("Empty: it stays as it is.")
        self.fields["url"].widget.attrs["placeholder"] = row.shown


class _Shelf(BerthView):
    """Where webhooks lie: a project, or (``place`` None) a person."""

    frame = "base.html"

    @property
    def place(self) -> Project | None:
        raise NotImplementedError

    def url(self, name: str, row: Webhook | None = None) -> str:
        raise NotImplementedError

    @property
    def row(self) -> Webhook:
        uid = self.kwargs.get("webhook") or self.kwargs["own_webhook"]
        return selectors.webhook_get(self.principal, uid, self.place)

    def show_all(self, request: HttpRequest, **kwargs: object) -> HttpResponse:
        return self._list(WebhookForm(place=self.place))

    @sensitive_variables("secret")
    def add(self, request: HttpRequest, **kwargs: object) -> HttpResponse:
        form = WebhookForm(request.POST, place=self.place)
        if form.is_valid():
            act = partial(
                services.webhook_make,
                principal=self.principal,
                project=self.place,
                **form.cleaned_data,
            )
            if (made := attempt(form, act)) is not None:
                row, secret = made
                return self._one(row, secret=secret)
        return self._list(form, status=422)

    def show(self, request: HttpRequest, **kwargs: object) -> HttpResponse:
        return self._one(self.row)

    def change(self, request: HttpRequest, **kwargs: object) -> HttpResponse:
        row = self.row
        form = WebhookForm(request.POST, place=self.place, row=row)
        if form.is_valid():
            act = partial(
                services.webhook_change,
                principal=self.principal,
                webhook=row,
                changes=form.cleaned_data,
            )
            if attempt(form, act) is not None:
                messages.success(request, _t("Saved."))
                return redirect(self.url("detail", row))
        return self._one(row, form=form, status=422)

    @sensitive_variables("secret")
    def replace_secret(self, request: HttpRequest, **kwargs: object) -> HttpResponse:
        row = self.row
        secret = services.secret_replace(principal=self.principal, webhook=row)
        return self._one(row, secret=secret)

    def test(self, request: HttpRequest, **kwargs: object) -> HttpResponse:
        row = self.row
        services.webhook_test(principal=self.principal, webhook=row)
        messages.success(request, _t("A test is on its way; how it went is told below."))
        return redirect(self.url("detail", row))

    def remove(self, request: HttpRequest, **kwargs: object) -> HttpResponse:
        row = self.row
        if request.POST.get("confirm", "").strip() != row.name:
            raise Invalid(_t("The typed name is not the webhook's. Nothing was deleted."))
        services.webhook_delete(principal=self.principal, webhook=row)
        messages.success(request, _t("The webhook “%(name)s” is deleted.") % {"name": row.name})
        return redirect(self.url("list"))

    def _list(self, form: WebhookForm, status: int = 200) -> HttpResponse:
        rows = list(selectors.webhooks_of(self.principal, self.place))
        return self.render(
            {
                "frame": self.frame,
                "rows": [{"row": row, "url": self.url("detail", row)} for row in rows],
                "form": form,
                "personal": self.place is None,
                "is_full": len(rows) >= services.MOST,
            },
            status=status,
            template="webhooks/list.html",
        )

    def _one(
        self, row: Webhook, *, form: WebhookForm | None = None, secret: str = "", status: int = 200
    ) -> HttpResponse:
        page = paginate(self.request, selectors.deliveries_of(row))
        sent: list[Delivery] = list(page)
        deliveries = [{"row": one, "text": selectors.text_for(one)} for one in sent]
        names = ("list", "detail", "secret", "test", "delete")
        answer = self.render(
            {
                "frame": self.frame,
                "row": row,
                "form": form or WebhookForm(place=self.place, row=row),
                "secret": secret,
                "page": page,
                "deliveries": deliveries,
                "is_busy": any(one.is_open and one.attempts == 0 for one in sent),
                "hears": [KINDS[k].label for k in row.kinds if k in KINDS],
                "urls": {name: self.url(name, row) for name in names},
            },
            status=status,
            template="webhooks/detail.html",
        )
        if secret:
            answer["Cache-Control"] = "no-store"
        return answer


_MANAGE = Permission.WEBHOOK_MANAGE
_GET: Mapping[str, Permission] = {"GET": _MANAGE}
_POST: Mapping[str, Permission] = {"POST": _MANAGE}


class _ProjectShelf(_Shelf, ProjectView):
    template_name = "webhooks/list.html"

    @property
    def place(self) -> Project | None:
        return self.project

    def url(self, name: str, row: Webhook | None = None) -> str:
        parts = [self.project.slug, *([] if name == "list" or row is None else [row.uid])]
        return reverse(f"webhooks:{name}", args=parts)


class List(_ProjectShelf):
    required_permissions: ClassVar[Mapping[str, Permission]] = {**_GET, **_POST}
    get, post = _Shelf.show_all, _Shelf.add


class Detail(_ProjectShelf):
    required_permissions: ClassVar[Mapping[str, Permission]] = {**_GET, **_POST}
    get, post = _Shelf.show, _Shelf.change


class Secret(_ProjectShelf):
    stands_on = Detail
    required_permissions: ClassVar[Mapping[str, Permission]] = _POST
    post = _Shelf.replace_secret


class Test(_ProjectShelf):
    stands_on = Detail
    required_permissions: ClassVar[Mapping[str, Permission]] = _POST
    post = _Shelf.test


class Delete(_ProjectShelf):
    stands_on = Detail
    required_permissions: ClassVar[Mapping[str, Permission]] = _POST
    post = _Shelf.remove


class _OwnShelf(_Shelf, SettingsView):
    template_name = "webhooks/list.html"
    frame = "accounts/settings_base.html"

    @property
    def place(self) -> Project | None:
        return None

    def url(self, name: str, row: Webhook | None = None) -> str:
        if name == "list" or row is None:
            return reverse("webhooks:own")
        return reverse(f"webhooks:own-{name}", args=[row.uid])


class Own(_OwnShelf):
    get, post = _Shelf.show_all, _Shelf.add


class OwnDetail(_OwnShelf):
    get, post = _Shelf.show, _Shelf.change


class OwnSecret(_OwnShelf):
    stands_on = OwnDetail
    required_platform: ClassVar[Any] = {"POST": "user"}
    post = _Shelf.replace_secret


class OwnTest(_OwnShelf):
    stands_on = OwnDetail
    required_platform: ClassVar[Any] = {"POST": "user"}
    post = _Shelf.test


class OwnDelete(_OwnShelf):
    stands_on = OwnDetail
    required_platform: ClassVar[Any] = {"POST": "user"}
    post = _Shelf.remove


app_name = "webhooks"
_ONE = "projects/<slug:project>/webhooks/<uuid:webhook>"
_MY = "settings/webhooks/<uuid:own_webhook>"
urlpatterns = [
    path("projects/<slug:project>/webhooks/", List.as_view(), name="list"),
    path(f"{_ONE}/", Detail.as_view(), name="detail"),
    path(f"{_ONE}/secret", Secret.as_view(), name="secret"),
    path(f"{_ONE}/test", Test.as_view(), name="test"),
    path(f"{_ONE}/delete", Delete.as_view(), name="delete"),
    path("settings/webhooks", Own.as_view(), name="own"),
    path(_MY, OwnDetail.as_view(), name="own-detail"),
    path(f"{_MY}/secret", OwnSecret.as_view(), name="own-secret"),
    path(f"{_MY}/test", OwnTest.as_view(), name="own-test"),
    path(f"{_MY}/delete", OwnDelete.as_view(), name="own-delete"),
]
