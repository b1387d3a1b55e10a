"""What a Google service account signs to be given a token (RFC 7523)."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def assertion(key: RSAPrivateKey, key_id: str, claims: dict[str, Any]) -> str:
    """Return the claims, signed."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    head = {"alg": "RS256", "typ": "JWT", "kid": key_id}
    signed = f"{_encoded(json.dumps(head).encode())}.{_encoded(json.dumps(claims).encode())}"
    signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{signed}.{_encoded(signature)}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
