"""Who is at the other end of a connection, whether that is still so, and who was refused.

What reads the database is synchronous and called through ``common.streams.look``. What is merely
noted there waits by itself; whoever asks for something does not: on one machine there is one
writer at a time, and the disk may be busy with what people upload.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import structlog
from django.utils.translation import gettext as _

from accounts import crypto
from accounts.models import ApiToken, SshKey, User
from accounts.principal import Principal
from accounts.services.sessions import record_denied
from accounts.services.tokens import token_authenticate
from common.errors import BerthError, Forbidden, NotFound
from common.streams import closing, look
from hubapi import sessions

_notes = ThreadPoolExecutor(1, thread_name_prefix="gate-notes")
_due: set[str] = set()
_lock = threading.Lock()
log = structlog.get_logger(__name__)
T = TypeVar("T")


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


def later(key: str, note: Callable[[], object]) -> None:
    """Write ``note`` soon, without being waited for; what is waiting under ``key`` is enough."""
    with _lock:
        if key in _due:
            return
        _due.add(key)
    _notes.submit(_note, key, note)


def _note(key: str, note: Callable[[], object]) -> None:
    try:
        closing(note, None)
    except Exception as error:  # noqa: BLE001 - the next use notes it again
        log.warning("gate.not_noted", key=key, error=repr(error))
    finally:
        with _lock:
            _due.discard(key)


async def admitted(caller: Caller, what: str, name: str, question: Callable[[], T]) -> T:
    """Return what ``question`` answers; where it says no, that is recorded and raised.

    ``what`` he wanted (terminal, files …) of the workspace or volume ``name``.
    """
    try:
        return await look(question)
    except (Forbidden, NotFound) as error:
        later(
            f"denied {caller.user_pk} {what} {name}",
            partial(_record_denied, caller, what, name, error),
        )
        raise


def _record_denied(caller: Caller, what: str, name: str, error: BerthError) -> None:
    with suppress(BerthError):  # signed out meanwhile: then nobody was refused
        record_denied(
            verb="access.forbidden" if isinstance(error, Forbidden) else "access.not-found",
            ip=caller.ip,
            who=principal_of(caller),
            message=error.message[:300],
            data={"route": f"gate/{what}", "id": name[:80]},
        )
