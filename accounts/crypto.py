"""Secrets at rest: Fernet with keys derived from SECRET_KEY and its fallbacks."""

import base64

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings


def seal(text: str) -> str:
    return _box().encrypt(text.encode()).decode()


def unseal(sealed: str) -> str | None:
    """Return the text, or None when no key of now or before opens it."""
    try:
        return _box().decrypt(sealed.encode()).decode()
    except InvalidToken:
        return None


def _box() -> MultiFernet:
    return MultiFernet([_key(s) for s in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _key(secret: str) -> Fernet:
    derived = HKDF(SHA256(), 32, salt=None, info=b"berth accounts v1").derive(secret.encode())
    return Fernet(base64.urlsafe_b64encode(derived))
