# ruff: noqa: ARG002, FBT001, FBT002 - the signatures are allauth's
# ruff: noqa: ARG002 - the signatures are allauth's
"""Where allauth asks what Berth's rules are."""

from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import requests
import structlog
from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.models import EmailAddress
from allauth.account.utils import user_username
from allauth.core import context
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers.base.constants import AuthProcess
from django.conf import settings
from django.db import transaction
from django.forms import BaseForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from accounts import hooks, oidc_session
from accounts.crypto import seal, unseal
from accounts.middleware import stored_ip
from accounts.models import User
from accounts.principal import Principal
from accounts.selectors import free_username
from accounts.services.people import invited_user_accept, user_readmit
from accounts.services.sessions import record_denied, session_forget, sessions_end_others
from common.errors import Unavailable
from common.middleware import client_ip
from common.trust import Believing
from events import services as events
from notifications.services import notify

_log = structlog.get_logger(__name__)


class AccountAdapter(DefaultAccountAdapter):
    # --- sign-up ------------------------------------------------------------------------------
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return settings.BERTH_SIGNUP_OPEN or hooks.permit_of(request) is not None

    def save_user(
        self, request: HttpRequest, user: User, form: BaseForm, commit: bool = True
    ) -> User:
        """Make the account and use the invitation up in one transaction."""
        with transaction.atomic():
            super().save_user(request, user, form, commit=False)
            permit = hooks.permit_of(request)
            user.save()
            if permit is not None:
                self.stash_verified_email(request, permit.email)
                invited_user_accept(request=request, user=user)
            events.record(
                actor=Principal(user=user, ip=client_ip(request)),
                verb="user.signed-up",
                target=user,
            )
        return user

    def populate_username(self, request: HttpRequest, user: User) -> None:
        if not user.username:
            user_username(user, free_username(user.email.partition("@")[0]))

    # --- sign-in and sign-out -----------------------------------------------------------------
    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        name = str(credentials.get("username") or credentials.get("email") or "")
        record_denied(verb="user.sign-in-denied", ip=client_ip(request), name=name)

    def post_login(
        self, request: HttpRequest, user: User, *, signal_kwargs: Any, **kwargs: Any
    ) -> HttpResponse:
        response = super().post_login(request, user, signal_kwargs=signal_kwargs, **kwargs)
        sociallogin = (signal_kwargs or {}).get("sociallogin")
        with transaction.atomic():
            events.record(
                actor=Principal(user=user, ip=client_ip(request)),
                verb="user.signed-in",
                target=user,
                data={"by": "single sign-on" if sociallogin else "Berth"},
            )
        if sociallogin is not None:
            oidc_session.begin(request, user, sociallogin)
        return response

    def respond_user_inactive(self, request: HttpRequest, user: User) -> HttpResponse:
        record_denied(
            verb="user.sign-in-denied",
            ip=client_ip(request),
            name=user.username,
            message="refused by the identity provider" if user.is_refused else "disabled",
        )
        if user.is_refused:
            said = {"is_refused": True, "provider": settings.BERTH_OIDC_NAME}
            return render(request, "account/account_inactive.html", said)
        return super().respond_user_inactive(request, user)

    def logout(self, request: HttpRequest) -> None:
        user, key = request.user, request.session.session_key
        super().logout(request)
        if isinstance(user, User) and key:
            session_forget(user=user, session_key=key)
            events.record(
                actor=Principal(user=user, ip=client_ip(request)),
                verb="user.signed-out",
                target=user,
            )

    # --- password -----------------------------------------------------------------------------
    def set_password(self, user: User, password: str) -> None:
        """Whoever knew the old password loses the sessions he may have."""
        super().set_password(user, password)
        request = context.request
        own = request.user.is_authenticated and request.user.pk == user.pk
        who = Principal(user=user, ip=client_ip(request))
        keep = (request.session.session_key or "") if own else ""
        sessions_end_others(user=user, keep=keep, who=who)
        if keep:  # this session goes on under a new key; what hangs on the old one does not
            hooks.sessions_ended(user, [keep])
        events.record(actor=who, verb="user.password-changed", target=user)
        notify(users=[user], kind="account.password-changed", url="/settings/security")

    # --- mail ---------------------------------------------------------------------------------
    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Links lead to the portal's own address, whatever host the request named."""
        fixed = {k: _public(v) if k.endswith("_url") else v for k, v in context.items()}
        host = urlsplit(settings.BERTH_PUBLIC_URL).netloc
        fixed["current_site"] = {"name": "Berth", "domain": host}
        try:
            super().send_mail(template_prefix, email, fixed)
        except OSError as error:  # SMTPException is one
            _log.warning("mail_failed", template=template_prefix, error=type(error).__name__)
            raise Unavailable(_("Mail can't be sent at the moment. Ask an operator.")) from error

    def send_notification_mail(self, *args: Any, **kwargs: Any) -> None:
        with suppress(Unavailable):  # logged; the act it tells of must not fail for it
            super().send_notification_mail(*args, **kwargs)

    # --- the caller ---------------------------------------------------------------------------
    def get_client_ip(self, request: HttpRequest) -> str:
        return stored_ip(request)


def _public(url: object) -> str:
    parts = urlsplit(str(url))
    query = f"?{parts.query}" if parts.query else ""
    return f"{settings.BERTH_PUBLIC_URL}{parts.path}{query}"


class MFAAdapter(DefaultMFAAdapter):
    def encrypt(self, text: str) -> str:
        return seal(text)

    def decrypt(self, encrypted_text: str) -> str:
        # A key that was thrown away makes the factor useless, not everything else broken.
        return unseal(encrypted_text) or ""

    def send_notification_mail(self, *args: Any, **kwargs: Any) -> None:
        super().send_notification_mail(*args, **kwargs)


class SocialAccountAdapter(DefaultSocialAccountAdapter):
    """One provider from the settings; accounts are made at the first sign-in.

    An address that the provider does not call verified is dropped before anything looks at it.
    A verified one links to the account that verified the same address itself, and to no other.
    """

    def get_requests_session(self) -> requests.Session:
        """As allauth's, and it believes the operator's own authority too."""
        session: requests.Session = super().get_requests_session()
        session.mount("https://", Believing())
        return session

    def list_apps(
        self, request: HttpRequest, provider: str | None = None, client_id: str | None = None
    ) -> list[SocialApp]:
        if not (settings.BERTH_OIDC_ISSUER and settings.BERTH_OIDC_CLIENT_ID):
            return []
        if provider not in {None, "oidc"} or client_id not in {None, settings.BERTH_OIDC_CLIENT_ID}:
            return []
        app = SocialApp(
            provider="oidc",
            provider_id="oidc",
            name=settings.BERTH_OIDC_NAME,
            client_id=settings.BERTH_OIDC_CLIENT_ID,
            secret=settings.BERTH_OIDC_CLIENT_SECRET,
        )
        app.settings = {
            "server_url": settings.BERTH_OIDC_ISSUER.rstrip("/"),
            "oauth_pkce_enabled": True,
            "scope": list(settings.BERTH_OIDC_SCOPES),
        }
        return [app]

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return True  # the provider decides who may come; sign-up by form stays closed

    def is_auto_signup_allowed(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return True

    def populate_user(
        self, request: HttpRequest, sociallogin: SocialLogin, data: dict[str, Any]
    ) -> User:
        user = sociallogin.user
        # Some providers write the claim as a word; anything else than a clear yes is a no.
        kept = [e for e in sociallogin.email_addresses if e.verified in {True, "true"}]
        for address in kept:
            address.email, address.verified = address.email.lower(), True
        sociallogin.email_addresses = kept
        verified = [e.email for e in kept]
        name = str(data.get("name") or "")[:120]
        user.username = str(data.get("username") or "")[:64]
        user.email = verified[0] if verified else ""
        user.display_name = name if name.isprintable() else ""
        return user

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Refuse when the verified address belongs to an account that never verified it.

        Somebody whom the provider had refused is let in again: this is its yes.
        """
        connects = sociallogin.state.get("process") == AuthProcess.CONNECT
        if sociallogin.is_existing and not connects and sociallogin.user.is_refused:
            user_readmit(user=sociallogin.user, ip=client_ip(request))
        if connects or sociallogin.is_existing or not sociallogin.email_addresses:
            return
        email = sociallogin.email_addresses[0].email
        if User.objects.filter(email__iexact=email).exists() or (
            EmailAddress.objects.filter(email__iexact=email).exists()
        ):
            record_denied(
                verb="user.sign-in-denied",
                ip=client_ip(request),
                name=email,
                message="single sign-on: the address belongs to another account",
            )
            page = render(request, "socialaccount/address_taken.html", {"email": email}, status=409)
            raise ImmediateHttpResponse(page)

    def authenticate_by_email(self, sociallogin: SocialLogin) -> tuple[User, str] | None:
        if not settings.BERTH_OIDC_LINK_VERIFIED_EMAIL:
            return None
        for address in sociallogin.email_addresses:
            own = (
                EmailAddress.objects.select_related("user")
                .filter(email__iexact=address.email, verified=True)
                .first()
            )
            if own is not None:
                return own.user, own.email
        return None

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> User:
        with transaction.atomic():
            user = sociallogin.user
            # allauth has emptied a name that is taken, so it is read from the claims again.
            said = (sociallogin.account.extra_data or {}).get("userinfo") or {}
            wanted = str(said.get("preferred_username") or "") or user.email.partition("@")[0]
            user.username = free_username(wanted)
            user.set_unusable_password()
            sociallogin.save(request)
            events.record(
                actor=Principal(user=user, ip=client_ip(request)),
                verb="user.created",
                target=user,
                message="single sign-on",
            )
        return user

    def on_authentication_error(
        self, request: HttpRequest, provider: Any, error: Any = None, **kwargs: Any
    ) -> None:
        record_denied(
            verb="user.sign-in-denied",
            ip=client_ip(request),
            message=f"single sign-on: {error} {kwargs.get('exception') or ''}"[:200],
        )
