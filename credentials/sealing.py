"""Secrets at rest: sealed with the newest key, opened with any that is known.

What is sealed names what it belongs to (a credential its row), so that a sealed text that somebody
moves elsewhere opens nothing there.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.utils.translation import gettext as _

from common.errors import Unavailable


@dataclass(frozen=True)
class Ring:
    """The keys, newest first; ``name`` is of the newest and says nothing about it."""

    box: MultiFernet
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.names[0]


def ring() -> Ring:
    """Return the keys of now; Unavailable where there is none."""
    keys = tuple(settings.BERTH_CREDENTIAL_KEYS)
    if not keys:
        raise Unavailable(
            _("BERTH_CREDENTIAL_KEYS is not set, so no secret can be kept."), code="no-key"
        )
    return ring_of(keys)


@lru_cache(maxsize=8)
def ring_of(keys: tuple[str, ...]) -> Ring:
    made = [_derived(key) for key in keys]
    names = tuple(hashlib.sha256(b"berth key name" + key).hexdigest()[:16] for key in made)
    return Ring(MultiFernet([Fernet(key) for key in made]), names)


def seal(of: UUID | str, secret: dict[str, str]) -> tuple[str, str]:
    """Return (sealed text, name of the key)."""
    now = ring()
    text = json.dumps({"of": str(of), "secret": secret}, separators=(",", ":"))
    return now.box.encrypt(text.encode()).decode(), now.name


def unseal(of: UUID | str, sealed: str) -> dict[str, str]:
    """Return the secret, or raise Unavailable: no known key opens it, or it belongs elsewhere."""
    try:
        held = json.loads(ring().box.decrypt(sealed.encode()))
    except InvalidToken:
        raise Unavailable(
            _(
                "No key of BERTH_CREDENTIAL_KEYS opens this secret. Put back the key that it was"
                " sealed with, or store the secret again."
            ),
            code="wrong-key",
        ) from None
    if held.get("of") != str(of):
        raise Unavailable(_("This secret belongs to something else."), code="wrong-key")
    return {str(k): str(v) for k, v in held["secret"].items()}


def _derived(key: str) -> bytes:
    made = HKDF(SHA256(), 32, salt=None, info=b"berth credentials v1").derive(key.encode())
    return base64.urlsafe_b64encode(made)
