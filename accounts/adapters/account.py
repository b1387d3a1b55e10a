"""Where allauth asks what Berth's rules are."""

# ruff: noqa: ARG002, FBT001, FBT002 - the signatures are allauth's

from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import structlog
from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.utils import user_username
from allauth.core import context
from django.conf import settings
from django.db import transaction
from django.forms import BaseForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from accounts import hooks, invitations, oidc_session
from accounts.activity import stored_ip
from accounts.models import User
from accounts.names import free_username
from accounts.principal import Principal
from accounts.services import invited_user_accept, record_denied
from accounts.services.sessions import session_forget, sessions_end_others
from common.errors import Unavailable
from common.middleware import client_ip
from events import services as events
from notifications.services import notify

_log = structlog.get_logger(__name__)


class AccountAdapter(DefaultAccountAdapter):
    # --- sign-up ------------------------------------------------------------------------------
    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return settings.BERTH_SIGNUP_OPEN or invitations.permit_of(request) is not None

    def save_user(
        self, request: HttpRequest, user: User, form: BaseForm, commit: bool = True
    ) -> User:
        """Make the account and use the invitation up in one transaction."""
        with transaction.atomic():
            super().save_user(request, user, form, commit=False)
            permit = invitations.permit_of(request)
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
