"""Secrets of launches: derived, so that an engine step run twice gives the same one."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterator
from uuid import UUID

from django.conf import settings

_SALT = b"berth.hubapi.launch"


def digest(secret: str) -> str:
    """What is kept of a secret. Secrets here are long and random: no stretching needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def new_secret() -> str:
    return secrets.token_urlsafe(32)


def derive(purpose: str, uid: UUID, launch: int) -> str:
    """Return the secret of one launch under the current SECRET_KEY."""
    return _derive(settings.SECRET_KEY, purpose, uid, launch)


def derive_matching(purpose: str, uid: UUID, launch: int, known: str) -> str:
    """Return the secret whose digest is ``known``: also one made before the key was rotated.

    A running server keeps what it was started with, so a rotated key must not change it.
    """
    for candidate in _candidates(purpose, uid, launch):
        if hmac.compare_digest(digest(candidate), known):
            return candidate
    return derive(purpose, uid, launch)


def matches(purpose: str, uid: UUID, launch: int, given: str) -> bool:
    """Whether ``given`` is the secret of that launch, under the current key or an older one."""
    candidates = _candidates(purpose, uid, launch)
    return any(hmac.compare_digest(one.encode(), given.encode()) for one in candidates)


def _candidates(purpose: str, uid: UUID, launch: int) -> Iterator[str]:
    for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        yield _derive(key, purpose, uid, launch)


def _derive(key: str, purpose: str, uid: UUID, launch: int) -> str:
    root = hmac.new(_SALT, key.encode(), hashlib.sha256).digest()
    raw = hmac.new(root, f"{purpose}:{uid}:{launch}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
