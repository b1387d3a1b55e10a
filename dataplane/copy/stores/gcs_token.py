"""Tokens for a Google service account: one kind of credential, one place to get them (D4).

The key file is the tenant's: what it says about addresses, other kinds of identity, commands and
files is not believed. google-auth would follow some of that, so this little is our own.
"""

from __future__ import annotations

import asyncio
import json
import time
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlsplit

from dataplane.copy.client import Client
from dataplane.copy.connector import Dialer
from dataplane.copy.head import Broken
from dataplane.copy.http1 import Answer, now
from dataplane.copy.pace import Backoff
from dataplane.copy.problems import Final, Stop
from dataplane.copy.stores import jwt
from dataplane.copy.stores.base import Question

TOKEN_URI = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
_KNOWN_URIS = frozenset({TOKEN_URI, "https://accounts.google.com/o/oauth2/token", ""})
_SCOPE = "https://www.googleapis.com/auth/devstorage."
_LIVES_S = 3600
_EARLY_S = 120.0
_OK = 200


class Token:
    """The access token of one run; ``text`` is "" until ``renew``."""

    def __init__(
        self, account: dict[str, Any], dialer: Dialer, override: str, *, writes: bool
    ) -> None:
        self.text = ""
        self._until = 0.0
        self._skew = 0.0
        self._corrected = False
        self._uri = override or TOKEN_URI
        self._scope = _SCOPE + ("read_write" if writes else "read_only")
        self._email, self._key_id, self._key = _checked(account, override)
        parts = urlsplit(self._uri)
        self._target = parts.path or "/"
        self._client = Client(dialer, dialer.endpoint(f"{parts.scheme}://{parts.netloc}"))

    def fresh(self) -> bool:
        return bool(self.text) and now() < self._until

    def forget(self) -> bool:
        self.text = ""
        return True

    async def close(self) -> None:
        await self._client.close()

    async def renew(self) -> None:
        """Get a new token; a refusal is final."""
        backoff: Backoff = self._client.backoff()
        while True:
            try:
                answer = await self._asked()
            except Broken as error:
                pause = backoff.next()
                if pause is None:
                    text = f"The token for the store can't be had: {error.message}"
                    raise Stop(Final.UNREACHABLE, text) from None
                await asyncio.sleep(pause)
                continue
            if answer.head.status == _OK:
                self._take(answer)
                return
            if answer.head.status // 100 == 5:  # noqa: PLR2004
                pause = backoff.next()
                if pause is not None:
                    await asyncio.sleep(pause)
                    continue
            if not self._correct(answer):
                text = "Google does not accept this service account's key."
                raise Stop(Final.DENIED, text)

    async def _asked(self) -> Answer:
        body = f"grant_type={quote(jwt.GRANT, safe='')}&assertion={self._assertion()}".encode()
        head = (
            f"POST {self._target} HTTP/1.1\r\nhost: {self._client.endpoint.header()}\r\n"
            "content-type: application/x-www-form-urlencoded\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        question = Question("POST", head.encode() + body)
        async with self._client.line() as line:
            return await line.ask(question.raw, method="POST")

    def _take(self, answer: Answer) -> None:
        try:
            data = json.loads(bytes(answer.body))
            token, lives = str(data["access_token"]), float(data.get("expires_in", _LIVES_S))
        except (ValueError, KeyError, TypeError):
            token, lives = "", 0.0
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise Stop(Final.DENIED, "What should give the token for the store gives none.")
        self.text = token
        self._until = now() + max(lives - _EARLY_S, lives / 2)

    def _correct(self, answer: Answer) -> bool:
        """Correct a wrong clock by Google's, once."""
        if self._corrected or b"invalid_grant" not in bytes(answer.body):
            return False
        self._corrected = True
        try:
            at = parsedate_to_datetime(answer.head.fields["date"]).timestamp()
        except (KeyError, ValueError, TypeError):
            return False
        self._skew = at - time.time()
        return abs(self._skew) > 60  # noqa: PLR2004 - seconds; less is not the reason

    def _assertion(self) -> str:
        at = int(time.time() + self._skew)
        claims = {
            "iss": self._email,
            "scope": self._scope,
            "aud": self._uri,
            "iat": at,
            "exp": at + _LIVES_S,
        }
        return jwt.assertion(self._key, self._key_id, claims)


def _checked(account: dict[str, Any], override: str) -> tuple[str, str, Any]:
    """Take the three values that are needed out of a key file; refuse any other kind of one."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if account.get("type") != "service_account":
        raise _wrong("only the key of a service account is taken")
    if account.get("universe_domain", "googleapis.com") != "googleapis.com":
        raise _wrong("it is for another domain than googleapis.com")
    if account.get("token_uri", "") not in _KNOWN_URIS | {override}:
        raise _wrong("its token_uri is not Google's")
    try:
        key = load_pem_private_key(str(account["private_key"]).encode(), None)
        email = str(account["client_email"])
    except (KeyError, ValueError, TypeError, UnsupportedAlgorithm):
        raise _wrong("it is not complete") from None
    if not isinstance(key, RSAPrivateKey):
        raise _wrong("its key is not an RSA key")
    return email, str(account.get("private_key_id", "")), key


def _wrong(why: str) -> Stop:
    return Stop(Final.BAD_PLAN, f"The service account can't be used: {why}.")
