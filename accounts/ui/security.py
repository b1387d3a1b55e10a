"""Password, second factors, sessions."""

from typing import ClassVar

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from accounts import selectors
from accounts.services import session_revoke, sessions_end_others
from accounts.ui.base import SettingsView


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
