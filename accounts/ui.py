"""The settings pages of a person: profile, security, sessions, keys, a terminal that signs in."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar
from uuid import UUID

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django import template
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounts import hooks, selectors
from accounts.forms import DeviceApproveForm, DeviceForm, ProfileForm, SshKeyForm, TokenForm
from accounts.principal import Principal
from accounts.services.people import profile_update
from accounts.services.sessions import (
    device_approve,
    device_deny,
    device_find,
    session_revoke,
    sessions_end_others,
)
from accounts.services.tokens import ssh_key_add, ssh_key_remove, token_create, token_revoke
from common.clock import now
from common.errors import BerthError, NotFound
from common.ui.views import PlatformView

TABS: tuple[tuple[str, Promise | str], ...] = (
    ("accounts:profile", _("Profile")),
    ("accounts:security", _("Security")),
    ("accounts:sessions", _("Sessions")),
    ("accounts:tokens", _("API tokens")),
    ("accounts:ssh-keys", _("SSH keys")),
)
_more: list[tuple[str, Promise | str, Callable[[], bool]]] = []


def add_tab(name: str, label: Promise | str, shown: Callable[[], bool]) -> None:
    """Called by apps above that have a page among the own settings, where it makes sense."""
    if name not in {known for known, _label, _shown in _more}:
        _more.append((name, label, shown))


def tabs(path: str) -> list[dict[str, Any]]:
    every = [*TABS, *((name, label) for name, label, shown in _more if shown())]
    found: list[dict[str, Any]] = [{"label": label, "url": reverse(name)} for name, label in every]
    for tab in found:
        tab["current"] = path.startswith(str(tab["url"]))
    if not any(tab["current"] for tab in found) and path.startswith("/accounts/"):
        found[1]["current"] = True  # password, e-mail and second factors belong to Security
    return found


class SettingsView(PlatformView):
    required_platform: ClassVar[Any] = "user"
    principal: Principal

    def context(self) -> dict[str, Any]:
        return {**super().context(), "person": self.principal.user}

    def done(self, sentence: object, target: str) -> HttpResponse:
        """Say what happened and go back; an htmx request is led there as well."""
        messages.success(self.request, str(sentence))
        return HttpResponseRedirect(reverse(target))


class Profile(SettingsView):
    template_name: ClassVar[str] = "accounts/profile.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        names = ("display_name", "language", "timezone", "theme")
        values = {name: getattr(self.principal.user, name) for name in names}
        return self.render({"form": ProfileForm(initial=values)})

    def post(self, request: HttpRequest) -> HttpResponse:
        form = ProfileForm(request.POST)
        if not form.is_valid():
            return self.render({"form": form}, status=400)
        profile_update(who=self.principal, **form.cleaned_data)
        return self.done(_("Your profile was saved."), "accounts:profile")


class Security(SettingsView):
    template_name: ClassVar[str] = "accounts/security.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        user = self.principal.user
        kinds = list(Authenticator.objects.filter(user=user).values_list("type", flat=True))
        address = EmailAddress.objects.filter(user=user, email__iexact=user.email).first()
        return self.render(
            {
                "has_password": user.has_usable_password(),
                "email_verified": bool(address and address.verified),
                "totp": Authenticator.Type.TOTP in kinds,
                "passkeys": kinds.count(Authenticator.Type.WEBAUTHN),
                "recovery": Authenticator.Type.RECOVERY_CODES in kinds,
                "sso_name": settings.BERTH_OIDC_NAME if settings.BERTH_OIDC_ISSUER else "",
                "sso_connected": SocialAccount.objects.filter(user=user).exists(),
            }
        )


class Sessions(SettingsView):
    template_name: ClassVar[str] = "accounts/sessions.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        key = request.session.session_key or ""
        return self.render({"sessions": selectors.sessions_of(self.principal, key)})


class SessionEnd(SettingsView):
    required_platform: ClassVar[dict[str, str]] = {"POST": "user"}

    def post(self, request: HttpRequest, session_id: int) -> HttpResponse:
        session_revoke(who=self.principal, session_id=session_id)
        if not request.session.exists(request.session.session_key or ""):
            request.session.flush()  # it was this one
            return HttpResponseRedirect(reverse("account_login"))
        return self.done(_("The session was ended."), "accounts:sessions")


class SessionsEndOthers(SettingsView):
    required_platform: ClassVar[dict[str, str]] = {"POST": "user"}

    def post(self, request: HttpRequest) -> HttpResponse:
        sessions_end_others(
            user=self.principal.user,
            keep=request.session.session_key or "",
            who=self.principal,
        )
        return self.done(_("All other sessions were ended."), "accounts:sessions")


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


class Device(SettingsView):
    template_name: ClassVar[str] = "accounts/device.html"
    required_platform: ClassVar[dict[str, str]] = {"GET": "user"}

    def get(self, request: HttpRequest) -> HttpResponse:
        code = request.GET.get("code", "")[:16]
        if not code:
            return self.render({"form": DeviceForm()})
        try:
            waiting = device_find(user_code=code)
        except NotFound as error:
            form = DeviceForm({"code": code})
            form.is_valid()
            form.add_error(None, error.message)
            return self.render({"form": form}, status=404)
        approve = DeviceApproveForm(initial={"code": code, "days": 30})
        return self.render({"waiting": waiting, "approve": approve, "code": code})


class DeviceAnswer(SettingsView):
    template_name: ClassVar[str] = "accounts/device.html"
    required_platform: ClassVar[dict[str, str]] = {"POST": "user"}

    def post(self, request: HttpRequest) -> HttpResponse:
        form = DeviceApproveForm(request.POST)
        if not form.is_valid():
            return self.render({"form": DeviceForm(request.POST)}, status=400)
        data = form.cleaned_data
        if request.POST.get("answer") != "approve":
            device_deny(who=self.principal, user_code=data["code"])
            return self.done(_("The terminal was refused."), "accounts:device")
        device_approve(
            who=self.principal,
            user_code=data["code"],
            read_only=data["read_only"],
            days=data["days"],
        )
        return self.render({"approved": True})


register = template.Library()


@register.inclusion_tag("components/tabs.html", takes_context=True)
def settings_tabs(context: dict[str, Any]) -> dict[str, Any]:
    return {"tabs": tabs(context["request"].path), "label": gettext("Settings")}
