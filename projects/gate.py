"""Lets an invited person make an account although sign-up is closed (accounts.hooks)."""

from django.http import HttpRequest

from accounts.crypto import seal, unseal
from accounts.hooks import Permit
from accounts.models import User
from common.errors import NotFound
from common.middleware import client_ip
from projects import services

SESSION_SECRET = "berth_invitation"  # noqa: S105 - the name of a session key


def secret_keep(request: HttpRequest, secret: str) -> None:
    """Keep a link's secret in the session; encrypted, because the session is a row."""
    request.session[SESSION_SECRET] = seal(secret)


def secret_of(request: HttpRequest) -> str:
    return unseal(request.session.get(SESSION_SECRET, "")) or ""


def secret_take(request: HttpRequest) -> str:
    secret = secret_of(request)
    request.session.pop(SESSION_SECRET, None)
    return secret


class InvitationGate:
    """The link's secret lies in the visitor's session, never in a later address."""

    def permit(self, request: HttpRequest) -> Permit | None:
        secret = secret_of(request)
        if not secret:
            return None
        try:
            row = services.invitation_find(secret)
        except NotFound:
            return None
        return Permit(email=row.email, invited_to=row.project.name if row.project else "")

    def accept(self, request: HttpRequest, user: User) -> None:
        secret = secret_take(request)
        services.invitation_accept(user=user, secret=secret, ip=client_ip(request))
