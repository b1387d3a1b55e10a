"""What fake-gcs-server lacks: a service account, and tokens that are asked for and checked."""

from __future__ import annotations

import base64
import json
import secrets
import time
from typing import Any
from urllib.parse import parse_qs

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.support.store_front import Answer, Request

TOKEN_PATH = "/token"
GOOGLES = "https://oauth2.googleapis.com/token"
LIVES_S = 3600


class ServiceAccount:
    """A key of its own; the document is what people download from their provider."""

    def __init__(self) -> None:
        self.email = "loader@berth-test.iam.gserviceaccount.com"
        self.key_id = secrets.token_hex(20)
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def document(self) -> dict[str, Any]:
        private = self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return {
            "type": "service_account",
            "project_id": "berth-test",
            "private_key_id": self.key_id,
            "private_key": private.decode(),
            "client_email": self.email,
            "client_id": "100000000000000000001",
            "auth_uri": "https://accounts.google.com/o/oauth2/auth",
            "token_uri": GOOGLES,
            "universe_domain": "googleapis.com",
        }

    def claims(self, assertion: str) -> dict[str, Any] | None:
        """What a JWT says, or None when this key didn't sign it."""
        try:
            head, body, signature = assertion.split(".")
            self._key.public_key().verify(
                _decoded(signature),
                f"{head}.{body}".encode(),
                padding.PKCS1v15(),
                hashes.SHA256(),
            )
            return dict(json.loads(_decoded(body)))
        except (ValueError, InvalidSignature):
            return None


class Tokens:
    """The rule of a front: gives tokens for signed assertions, and refuses who has none."""

    def __init__(self, account: ServiceAccount) -> None:
        self.account = account
        self.revoked = False
        self.lives_s = LIVES_S
        self.given: dict[str, float] = {}

    def rule(self, request: Request) -> Answer | None:
        if request.path == TOKEN_PATH:
            return self._give(request)
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.revoked or self.given.get(token, 0) < time.time():
            error = {"code": 401, "message": "Invalid Credentials", "status": "UNAUTHENTICATED"}
            return _told(401, {"error": error})
        return None

    def revoke(self) -> None:
        self.revoked = True
        self.given.clear()

    def _give(self, request: Request) -> Answer:
        asked = parse_qs(request.body.decode())
        claims = self.account.claims(asked.get("assertion", [""])[0])
        good = claims is not None and claims.get("iss") == self.account.email
        if self.revoked or not good or claims is None or not self._ours(claims.get("aud")):
            return _told(
                400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."}
            )
        token = f"ya29.{secrets.token_urlsafe(40)}"
        self.given[token] = time.time() + self.lives_s
        answer = {"access_token": token, "expires_in": self.lives_s, "token_type": "Bearer"}
        return _told(200, answer)

    def _ours(self, audience: Any) -> bool:
        """Google's own address, or this one, which libraries take from the document."""
        return audience == GOOGLES or str(audience).startswith("http://127.0.0.1:")


def _told(status: int, body: dict[str, Any]) -> Answer:
    return Answer(status, json.dumps(body).encode(), {"content-type": "application/json"})


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
