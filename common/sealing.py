"""Sealing to a public key: whoever holds only that can write a secret, never read it again.

A sealed text is ``v1.<key id>.<ephemeral public key><cipher text>``: X25519 with a fresh key for
each text, HKDF-SHA256 over both public keys, ChaCha20-Poly1305. Knows no Django, since keys
are made before there is a portal.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

if TYPE_CHECKING:
    from collections.abc import Iterable

_VERSION = "v1"
_SIZE = 32
_NONCE = bytes(12)  # each text has a key of its own, so a fixed nonce is used once


class SealError(Exception):
    """A key or a sealed text that is not what it should be; never carries either."""


def new_pair() -> tuple[str, str]:
    """Return (public, private), both as text for settings."""
    private = X25519PrivateKey.generate()
    return _text(private.public_key().public_bytes_raw()), _text(private.private_bytes_raw())


def public_of(private: str) -> str:
    return _text(_private(private).public_key().public_bytes_raw())


def seal(text: str, public: str) -> str:
    receiver = _public(public)
    fresh = X25519PrivateKey.generate()
    sender = fresh.public_key().public_bytes_raw()
    box = _box(fresh.exchange(receiver), sender, receiver.public_bytes_raw())
    sealed = box.encrypt(_NONCE, text.encode(), _VERSION.encode())
    return f"{_VERSION}.{key_id(public)}.{_text(sender + sealed)}"


def unseal(sealed: str, privates: Iterable[str]) -> str:
    """Open with whichever private key it was sealed for; SealError when none fits."""
    version, _, rest = sealed.partition(".")
    name, _, body = rest.partition(".")
    raw = _raw(body)
    if version != _VERSION or len(raw) <= _SIZE:
        message = "This is not a sealed text of this version."
        raise SealError(message)
    for text in privates:
        private = _private(text)
        public = private.public_key().public_bytes_raw()
        if key_id(_text(public)) != name:
            continue
        sender = raw[:_SIZE]
        shared = private.exchange(X25519PublicKey.from_public_bytes(sender))
        try:
            box = _box(shared, sender, public)
            return box.decrypt(_NONCE, raw[_SIZE:], _VERSION.encode()).decode()
        except InvalidTag as error:
            message = "The sealed text was changed."
            raise SealError(message) from error
    message = "It was sealed for another key than the one that is set."
    raise SealError(message)


def key_id(public: str) -> str:
    """Return a short name of a public key, to tell keys apart."""
    return hashlib.sha256(_public(public).public_bytes_raw()).hexdigest()[:12]


def _box(shared: bytes, sender: bytes, receiver: bytes) -> ChaCha20Poly1305:
    info = b"berth sealed v1" + sender + receiver
    return ChaCha20Poly1305(HKDF(SHA256(), _SIZE, salt=None, info=info).derive(shared))


def _private(text: str) -> X25519PrivateKey:
    try:
        return X25519PrivateKey.from_private_bytes(_raw(text))
    except ValueError as error:
        message = "The private key is not one that Berth made."
        raise SealError(message) from error


def _public(text: str) -> X25519PublicKey:
    try:
        return X25519PublicKey.from_public_bytes(_raw(text))
    except ValueError as error:
        message = "The public key is not one that Berth made."
        raise SealError(message) from error


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _raw(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        message = "This is not text that Berth sealed or made."
        raise SealError(message) from error
