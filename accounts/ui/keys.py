"""API tokens and SSH keys."""

from datetime import timedelta
from typing import Any, ClassVar
from uuid import UUID

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from accounts import hooks, selectors
from accounts.forms import SshKeyForm, TokenForm
from accounts.services import ssh_key_add, ssh_key_remove, token_create, token_revoke
from accounts.ui.base import SettingsView
from common.clock import now
from common.errors import BerthError


def _projects(user: Any) -> list[tuple[str, str]]:
    return [choice for choices in hooks.project_choices(user) for choice in choices]


class Tokens(SettingsView):
    template_name: ClassVar[str] = "accounts/tokens.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return self._page(self._form())

    def post(self, request: HttpRequest) -> HttpResponse:
        form = self._form(request.POST)
        if not form.is_valid():
            return self._page(form, status=400)
        data = form.cleaned_data
        try:
            token, secret = token_create(
                who=self.principal,
                name=data["name"],
                scopes=data["scopes"],
                read_only=data["read_only"],
                project_uids=data.get("project_uids", []),
                expires_at=now() + timedelta(days=data["days"]),
            )
        except BerthError as error:
            form.add_error(None, str(error.message))
            return self._page(form, status=error.status)
        # In this answer only: no redirect, nothing kept in the session.
        response = self._page(self._form(), {"made": token, "secret": secret}, status=201)
        response["Cache-Control"] = "no-store"
        return response

    def _form(self, data: Any = None) -> TokenForm:
        return TokenForm(data, projects=_projects(self.principal.user))

    def _page(
        self, form: TokenForm, extra: dict[str, Any] | None = None, status: int = 200
    ) -> HttpResponse:
        names = dict(_projects(self.principal.user))
        tokens = list(selectors.live_tokens_of(self.principal)[:200])
        rows = [
            {"token": t, "projects": [names.get(u, u[:8]) for u in t.project_uids]} for t in tokens
        ]
        context = {"form": form, "rows": rows, "portal_url": settings.BERTH_PUBLIC_URL}
        return self.render({**context, **(extra or {})}, status=status)


class TokenRevoke(SettingsView):
    required_platform: ClassVar[dict[str, str]] = {"POST": "user"}

    def post(self, request: HttpRequest, uid: UUID) -> HttpResponse:  # noqa: ARG002
        token = token_revoke(who=self.principal, uid=uid)
        return self.done(_("“%s” opens nothing any more.") % token.name, "accounts:tokens")


class SshKeys(SettingsView):
    template_name: ClassVar[str] = "accounts/ssh_keys.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return self._page(SshKeyForm())

    def post(self, request: HttpRequest) -> HttpResponse:
        form = SshKeyForm(request.POST)
        if not form.is_valid():
            return self._page(form, status=400)
        try:
            key = ssh_key_add(who=self.principal, **form.cleaned_data)
        except BerthError as error:
            form.add_error("public_key" if "public_key" in error.fields else None, error.message)
            return self._page(form, status=error.status)
        return self.done(_("The key “%s” was added.") % key.name, "accounts:ssh-keys")

    def _page(self, form: SshKeyForm, status: int = 200) -> HttpResponse:
        keys = selectors.ssh_keys_of(self.principal)
        servers = [server for server in hooks.ssh_servers() if server is not None]
        return self.render({"form": form, "keys": keys, "servers": servers}, status=status)


class SshKeyRemove(SettingsView):
    required_platform: ClassVar[dict[str, str]] = {"POST": "user"}

    def post(self, request: HttpRequest, uid: UUID) -> HttpResponse:  # noqa: ARG002
        ssh_key_remove(who=self.principal, uid=uid)
        return self.done(_("The key was removed."), "accounts:ssh-keys")
