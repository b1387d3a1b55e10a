"""Secrets at rest: Fernet with keys derived from SECRET_KEY and its fallbacks."""

from __future__ import annotations

import base64
import json
from dataclasses import astuple, dataclass

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

AT_REST = b"berth accounts v1"


def seal(text: str, *, purpose: bytes = AT_REST) -> str:
    """Encrypt it; what is sealed for one purpose opens for no other."""
    return _box(purpose).encrypt(text.encode()).decode()


def unseal(sealed: str, *, purpose: bytes = AT_REST, max_age_s: int | None = None) -> str | None:
    """Return the text, or None when no key of now or before opens it, or it is older."""
    try:
        return _box(purpose).decrypt(sealed.encode(), ttl=max_age_s).decode()
    except InvalidToken:
        return None


def _box(purpose: bytes) -> MultiFernet:
    secrets = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    # Each is derived anew: HKDF takes what it derives from once.
    keys = [HKDF(SHA256(), 32, salt=None, info=purpose).derive(key.encode()) for key in secrets]
    return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in keys])


# What lets a page of the portal through the gate: a ticket for one thing, good for a minute.
#
# The gate may lie at another host than the portal, and whoever listens there is never to see the
# portal's cookie. So a page asks the portal for a ticket. It names the session it came from,
# sealed, and stands only while that session does.


TICKET_AGE_S = 60
_PURPOSE = b"berth gate ticket v1"


@dataclass(frozen=True)
class Ticket:
    session_key: str
    user_pk: int
    name: str  # the workspace or volume that it is for, as the gate's addresses have it


def issue_ticket(ticket: Ticket) -> str:
    return seal(json.dumps(astuple(ticket)), purpose=_PURPOSE)


def read_ticket(sealed: str) -> Ticket | None:
    """Return it; None when it is not ours or too old. Whether its session stands is not asked."""
    text = unseal(sealed, purpose=_PURPOSE, max_age_s=TICKET_AGE_S)
    return Ticket(*json.loads(text)) if text else None
