"""Secrets at rest: Fernet with keys derived from SECRET_KEY and its fallbacks."""

import base64

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
    return MultiFernet([_key(secret, purpose) for secret in secrets])


def _key(secret: str, purpose: bytes) -> Fernet:
    derived = HKDF(SHA256(), 32, salt=None, info=purpose).derive(secret.encode())
    return Fernet(base64.urlsafe_b64encode(derived))
