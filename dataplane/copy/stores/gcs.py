"""Google Cloud Storage: its library asks, but for bodies, and its answers are understood here."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from dataplane.copy.connector import Dialer
from dataplane.copy.http1 import Broken, Head
from dataplane.copy.keys import is_text
from dataplane.copy.plan import Plan
from dataplane.copy.problems import Code, Final, Stop, Trouble, Unknown, shown
from dataplane.copy.stores.base import (
    NOT_TEXT,
    PAGE,
    Item,
    LibraryStore,
    NoStore,
    Page,
    of_status,
    seconds_of,
    size_of,
)
from dataplane.copy.transport import ELSEWHERE, Transport
from dataplane.sending import Send

if TYPE_CHECKING:
    from dataplane.copy.calls import Calls, Client
    from dataplane.gcs_client import ServiceAccount

ENDPOINT = "https://storage.googleapis.com"
TOKEN_URI = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
_KNOWN_URIS = frozenset({TOKEN_URI, "https://accounts.google.com/o/oauth2/token", ""})
_ITEM = "name,size,generation,crc32c,md5Hash,updated"
_FIELDS = f"nextPageToken,items({_ITEM})"
_SLOW = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "dailyLimit"})


class Gcs(LibraryStore):
    """One bucket."""

    def __init__(self, plan: Plan, dialer: Dialer) -> None:
        self.bucket = plan.store.bucket
        self.endpoint = dialer.endpoint(plan.outbound.gcs_endpoint or ENDPOINT)
        self._url = f"{'https' if self.endpoint.tls else 'http'}://{self.endpoint.header()}"
        self._host = self.endpoint.header()
        self._root = f"/storage/v1/b/{_quoted(self.bucket)}/o"
        self._account: ServiceAccount | None = None
        uri = plan.outbound.gcs_token_uri or TOKEN_URI
        endpoints = [self.endpoint]
        if not plan.store.anonymous:
            parts = urlsplit(uri)
            endpoints.append(dialer.endpoint(f"{parts.scheme}://{parts.netloc}"))
            scope = "read_write" if plan.direction == "out" else "read_only"
            self._account = _account(plan, uri, scope, self._sent)
        super().__init__(Transport(dialer, *endpoints))

    def _made(self) -> Any:
        from dataplane.gcs_client import gcs_client  # takes a fifth of a second

        return gcs_client(self._account, self._sent, endpoint=self._url, project="berth")

    def at(self, path: str) -> str:
        return self._url + path

    def blob(self, key: str) -> Any:
        return self.client.bucket(self.bucket).blob(key)

    def fresh(self) -> bool:
        return self._account is None or self._account.valid

    async def renew(self, client: Client) -> None:
        """Get a token; a refusal is final."""
        from dataplane.gcs_client import NoToken

        account, backoff = self._account, client.backoff()
        if account is None:
            return
        while True:
            try:
                await client.made(account.refresh, alone=True)
            except Trouble as trouble:
                why = trouble.message
            except NoToken as refused:
                if refused.said.status // 100 == 2:  # noqa: PLR2004
                    text = "What should give the token for the store gives none."
                    raise Stop(Final.DENIED, text) from None
                if refused.said.status // 100 != 5:  # noqa: PLR2004
                    text = "Google does not accept this service account's key."
                    raise Stop(Final.DENIED, text) from None
                why = f"Google answers {refused.said.status}."
            else:
                return
            pause = backoff.next()
            if pause is None:
                text = f"The token for the store can't be had: {why}"
                raise Stop(Final.UNREACHABLE, text)
            await asyncio.sleep(pause)

    def stale(self) -> bool:
        if self._account is not None:
            self._account.forget()
        return self._account is not None

    # --- what the library asks --------------------------------------------------------------

    async def listed(
        self, calls: Calls, prefix: str, token: str = "", *, most: int = PAGE, alone: bool = False
    ) -> Page:
        at = {"page_token": token or None}
        return await calls.made(lambda: self._listed(prefix, most, at), alone=alone)

    async def later(self, calls: Calls, prefix: str, before: str, last: str) -> Page:
        del before  # a listing begins with the key itself
        return await calls.made(lambda: self._listed(prefix, PAGE, {"start_offset": last}))

    def _listed(self, prefix: str, most: int, at: dict[str, Any]) -> Page:
        found = self.client.list_blobs(
            self.bucket, prefix=prefix or None, page_size=most, fields=_FIELDS, retry=None, **at
        )
        try:
            page = list(next(found.pages))
        except StopIteration:
            page = []
        except (ValueError, TypeError, AttributeError):
            raise NoStore("The endpoint does not answer as Google Cloud Storage.") from None
        items: list[Item] = []
        bad: list[tuple[str, Trouble]] = []
        for blob in page:
            try:
                item = item_of(blob)
            except Trouble as trouble:
                bad.append((shown(str(blob.name)), trouble))
                continue
            if is_text(item.key):
                items.append(item)
            else:
                bad.append((shown(item.key), Trouble(Code.BAD_KEY, NOT_TEXT)))
        return Page(items, bad, str(found.next_page_token or ""))

    async def described(self, calls: Calls, key: str) -> Item:
        def asked() -> Item:
            blob = self.blob(key)
            blob.reload(retry=None)
            return item_of(blob)

        return await calls.made(asked)

    def checked(self, answer: Any, *good: int) -> None:
        """Raise what an answer means that is no success."""
        if answer.status_code // 100 != 2 and answer.status_code not in good:  # noqa: PLR2004
            from google.cloud.exceptions import from_http_response

            raise from_http_response(answer)

    # --- bodies -----------------------------------------------------------------------------

    def get_question(self, item: Item, start: int = 0, end: int | None = None) -> bytes:
        # as it is stored, never unpacked on the way
        fields = {"host": self._host, "user-agent": "berth/1", "accept-encoding": "gzip"}
        if end is not None:
            fields["range"] = f"bytes={start}-{end - 1}"
        if self._account is not None:
            fields["authorization"] = f"Bearer {self._account.token}"
        pinned = f"&generation={_quoted(item.etag)}" if item.etag else ""
        lines = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
        target = f"{self._root}/{_quoted(item.key)}?alt=media{pinned}"
        return f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode()

    def sums(self, head: Head, item: Item | None = None) -> Mapping[str, str]:
        found = {}
        for piece in head.fields.get("x-goog-hash", "").split(","):
            name, _, value = piece.strip().partition("=")
            if name == "crc32c" and value:
                found["crc32c"] = value
            elif name == "md5" and value:
                found["md5"] = _hex(value)
        return found or (item.sums if item is not None else {})

    def state_of(self, head: Head) -> str:
        return head.fields.get("x-goog-generation", "")

    # --- troubles ---------------------------------------------------------------------------

    def trouble(self, head: Head, body: memoryview) -> Exception:
        try:
            error = json.loads(bytes(body))["error"]
            first = (error.get("errors") or [{}])[0]
            return self._of(
                head.status, str(first.get("reason", "")), str(error.get("message", ""))
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return self._of(head.status, "", "")

    def meant(self, error: Exception) -> Exception:
        from google.api_core.exceptions import GoogleAPICallError
        from google.auth.exceptions import GoogleAuthError
        from google.cloud.exceptions import from_http_response
        from google.cloud.storage.exceptions import InvalidResponse
        from requests import RequestException

        from dataplane.gcs_client import NoToken

        if isinstance(error, NoToken):
            return Unknown()
        if isinstance(error, InvalidResponse):
            error = from_http_response(error.response)
        if isinstance(error, GoogleAPICallError):
            first = error.errors[0] if error.errors else {}
            reason = str(first.get("reason", "")) if isinstance(first, dict) else ""
            return self._of(int(error.code or 0), reason, str(error.message))
        if isinstance(error, (GoogleAuthError, RequestException, ValueError, KeyError)):
            return Trouble(Code.IO, "The store's answer can't be read.")
        return error

    def _of(self, status: int, reason: str, said: str) -> Exception:
        if status // 100 == 3 and status != 304:  # noqa: PLR2004 - redirects
            return Stop(Final.REFUSED_ADDRESS, ELSEWHERE)
        if status == 404 and "bucket does not exist" in said.lower():  # noqa: PLR2004
            return Stop(Final.NO_BUCKET, f"There is no bucket “{self.bucket}”.")
        if status == 401 and reason not in _SLOW:  # noqa: PLR2004
            return Unknown()
        return of_status(status, reason, slow=reason in _SLOW)


def item_of(blob: Any) -> Item:
    """Read the library's description of an object; its numbers may be none."""
    said = blob._properties  # noqa: SLF001 - what the store wrote: the library's own fields raise
    try:
        sums = {}
        if said.get("crc32c"):
            sums["crc32c"] = str(said["crc32c"])
        if said.get("md5Hash"):
            sums["md5"] = _hex(str(said["md5Hash"]))
        size, generation = size_of(said.get("size", 0)), str(said.get("generation", ""))
        changed = seconds_of(str(said.get("updated", "")))
        return Item(str(blob.name), size, generation, generation, changed, sums)
    except (KeyError, ValueError, TypeError, AttributeError):
        raise Broken("The store's listing can't be read.") from None


def _account(plan: Plan, uri: str, scope: str, send: Send) -> ServiceAccount:
    """Take the three values that are needed out of a key file; refuse any other kind of one."""
    from dataplane.gcs_client import ServiceAccount, signer_of

    account = plan.store.service_account or {}
    if account.get("type") != "service_account":
        raise _wrong("only the key of a service account is taken")
    if account.get("universe_domain", "googleapis.com") != "googleapis.com":
        raise _wrong("it is for another domain than googleapis.com")
    if account.get("token_uri", "") not in _KNOWN_URIS | {plan.outbound.gcs_token_uri}:
        raise _wrong("its token_uri is not Google's")
    try:
        email, key = str(account["client_email"]), str(account["private_key"])
        signer = signer_of(key, str(account.get("private_key_id", "")))
    except KeyError:
        raise _wrong("it is not complete") from None
    except ValueError:
        raise _wrong("its key is not an RSA key") from None
    return ServiceAccount(email, signer, token_uri=uri, scope=scope, send=send)


def _wrong(why: str) -> Stop:
    return Stop(Final.BAD_PLAN, f"The service account can't be used: {why}.")


def _hex(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).hex()
    except (binascii.Error, ValueError):
        return ""


def _quoted(text: str) -> str:
    return quote(text, safe="-._~")
