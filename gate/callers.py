"""Who is at the other end of a connection, and whether that is still so.

Synchronous: everything here reads the database and is called through ``common.streams.look``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from django.utils.translation import gettext as _

from accounts import crypto
from accounts.models import ApiToken, SshKey, User
from accounts.principal import Principal
from accounts.services.tokens import token_authenticate
from common.errors import BerthError
from hubapi import sessions


class SignedOut(BerthError):  # noqa: N818 - named like its siblings in common.errors
    """Nobody is signed in here, or not any more."""

    status = 401
    code = "signed-out"


@dataclass(frozen=True)
class Caller:
    """Plain values that outlive a connection to the database."""

    user_pk: int
    username: str
    ip: str = ""
    session_key: str = ""
    token_pk: int | None = None
    ssh_key_pk: int | None = None
    language: str = "en"  # what is told to them

    @property
    def by(self) -> str:
        return "token" if self.token_pk else "ssh" if self.ssh_key_pk else "session"


def from_ticket(sealed: str, name: str, ip: str, language: str = "en") -> Caller:
    """Return who was given this ticket for ``name``; ``language``: where they chose none."""
    ticket = crypto.read_ticket(sealed)
    if ticket is None or ticket.name != name:
        raise SignedOut(_("Sign in to the portal first, and open this from its page."))
    caller = Caller(ticket.user_pk, "", ip, session_key=ticket.session_key)
    user = principal_of(caller).user
    return replace(caller, username=user.username, language=user.language or language)


def from_token(secret: str, ip: str) -> Caller:
    """Return whose API token this is."""
    token = token_authenticate(secret=secret, ip=ip)
    if token is None:
        raise SignedOut(_("This token is unknown, expired or revoked."))
    return Caller(token.user_id, token.user.username, ip, token_pk=token.pk)


def from_ssh_key(key: SshKey, ip: str) -> Caller:
    return Caller(key.user_id, key.user.username, ip, ssh_key_pk=key.pk)


def principal_of(caller: Caller) -> Principal:
    """Look afresh: the session, token or key must still stand for an active person."""
    user = User.objects.filter(pk=caller.user_pk, is_active=True).first()
    if user is None:
        raise SignedOut(_("This account is not active."))
    if caller.token_pk is not None:
        token = ApiToken.objects.filter(pk=caller.token_pk).first()
        if token is None or not token.is_live:
            raise SignedOut(_("This token is unknown, expired or revoked."))
        return Principal(user=user, token=token, ip=caller.ip)
    if caller.ssh_key_pk is not None:
        if not SshKey.objects.filter(pk=caller.ssh_key_pk, user=user).exists():
            raise SignedOut(_("This SSH key was removed."))
        return Principal(user=user, ip=caller.ip)
    if not sessions.stands_for(caller.session_key, user):
        raise SignedOut(_("Sign in to the portal first."))
    sessions.end_if_over(caller.session_key, user)
    if not sessions.stands_for(caller.session_key, user):
        raise SignedOut(_("The sign-in is over; sign in again."))
    return Principal(user=user, ip=caller.ip)
