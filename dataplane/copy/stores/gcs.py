"""Google Cloud Storage by its JSON API: questions, and how its answers are read."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from dataplane.copy.connector import Dialer
from dataplane.copy.head import Broken, Head
from dataplane.copy.keys import is_text
from dataplane.copy.plan import Plan
from dataplane.copy.problems import Code, Denied, Final, Stop, Trouble, Unknown, shown
from dataplane.copy.stores.base import Item, Multipart, Page, Plain, Question, size_of
from dataplane.copy.stores.gcs_token import Token
from dataplane.copy.stores.s3xml import stamp

ENDPOINT = "https://storage.googleapis.com"
PAGE = 1000
_AGENT = "berth/1"
_FIELDS = "nextPageToken,items(name,size,generation,crc32c,md5Hash,updated)"
_ITEM = "name,size,generation,crc32c,md5Hash,updated"
_TOKEN = re.compile(rb'"nextPageToken"\s*:\s*"([^"\\]{1,4096})"')
_SLOW = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded", "dailyLimit"})
_SLOW_STATUS = frozenset({429, 503})
_AGAIN_STATUS = frozenset({408, 500, 502, 504})


class Gcs(Plain):
    """One bucket. Only ``renew`` does input and output."""

    tells_later = True

    def __init__(self, plan: Plan, dialer: Dialer) -> None:
        self.bucket = plan.store.bucket
        self.endpoint = dialer.endpoint(plan.outbound.gcs_endpoint or ENDPOINT)
        self._host = self.endpoint.header()
        self._root = f"/storage/v1/b/{_quoted(self.bucket)}/o"
        self._token = None
        if not plan.store.anonymous:
            writes = plan.direction == "out"
            account = plan.store.service_account or {}
            self._token = Token(account, dialer, plan.outbound.gcs_token_uri, writes=writes)

    def fresh(self) -> bool:
        return self._token is None or self._token.fresh()

    async def renew(self) -> None:
        if self._token is not None:
            await self._token.renew()

    def stale(self) -> bool:
        return self._token is not None and self._token.forget()

    async def close(self) -> None:
        if self._token is not None:
            await self._token.close()

    # --- questions --------------------------------------------------------------------------

    def question(
        self, method: str, target: str, headers: Mapping[str, str] | None = None
    ) -> Question:
        fields = {"host": self._host, "user-agent": _AGENT, **(headers or {})}
        if self._token is not None:
            fields["authorization"] = f"Bearer {self._token.text}"
        lines = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
        return Question(method, f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode())

    def list_question(self, prefix: str, token: str, most: int = PAGE) -> Question:
        return self._listing(prefix, most, "pageToken", token)

    def later_question(self, prefix: str, before: str, last: str) -> Question:
        del before  # a listing begins with the key itself
        return self._listing(prefix, PAGE, "startOffset", last)

    def _listing(self, prefix: str, most: int, where: str, at: str) -> Question:
        query = {"maxResults": str(most), "fields": _FIELDS}
        if prefix:
            query["prefix"] = prefix
        if at:
            query[where] = at
        return self.question("GET", f"{self._root}?{_query(query)}")

    def get_question(self, item: Item, start: int = 0, end: int | None = None) -> Question:
        headers = {"accept-encoding": "gzip"}  # as it is stored, never unpacked on the way
        if end is not None:
            headers["range"] = f"bytes={start}-{end - 1}"
        pinned = f"&generation={_quoted(item.etag)}" if item.etag else ""
        return self.question("GET", f"{self.target(item.key)}?alt=media{pinned}", headers)

    def head_question(self, key: str, part: int = 0) -> Question:
        del part
        return self.question("GET", f"{self.target(key)}?fields={_quoted(_ITEM)}")

    def target(self, key: str) -> str:
        return f"{self._root}/{_quoted(key)}"

    # --- answers ----------------------------------------------------------------------------

    def next_token(self, body: memoryview) -> str | None:
        found = _TOKEN.search(body)
        return found[1].decode() if found else None

    def page(self, body: memoryview, prefix: str = "", token: str = "") -> Page:
        del prefix, token
        data = json_of(body)
        if data is None or not isinstance(data.get("items", []), list):
            raise Stop(Final.UNREACHABLE, "The endpoint does not answer as Google Cloud Storage.")
        items = []
        bad: list[tuple[str, Trouble]] = []
        for entry in data.get("items", []):
            try:
                item = _item(entry)
            except Trouble as trouble:
                bad.append((shown(str(entry["name"])), trouble))
                continue
            if is_text(item.key):
                items.append(item)
            else:
                text = "The key can't be the name of a file: it is not valid text."
                bad.append((shown(item.key), Trouble(Code.BAD_KEY, text)))
        return Page(items, bad, str(data.get("nextPageToken") or ""))

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

    def described(self, key: str, head: Head, body: memoryview) -> Item:
        del head
        data = json_of(body)
        if data is None or data.get("name") != key:
            raise Broken("The store's description of an object can't be read.")
        return _item(data)

    def multipart(self, item: Item, head: Head | None) -> Multipart | None:
        del item, head
        return None

    def trouble(self, head: Head, body: memoryview) -> Exception:
        error = (json_of(body) or {}).get("error")
        details = error.get("errors") if isinstance(error, dict) else None
        first = details[0] if isinstance(details, list) and details else {}
        reason = str(first.get("reason", "")) if isinstance(first, dict) else ""
        said = str(error.get("message", "")) if isinstance(error, dict) else ""
        status = head.status
        if status // 100 == 3:  # noqa: PLR2004 - redirects
            text = "The store sends elsewhere, and loads follow no redirects."
            return Stop(Final.REFUSED_ADDRESS, text)
        if status == 404 and "bucket does not exist" in said.lower():  # noqa: PLR2004
            return Stop(Final.NO_BUCKET, f"There is no bucket “{self.bucket}”.")
        if reason in _SLOW or status in _SLOW_STATUS:
            text = "The store asks for fewer calls."
            return Trouble(Code.UNREACHABLE, text, again=True, slow=True)
        return _of_status(status, reason)

    def skewed(self, at: float | None) -> bool:
        del at
        return False


def _of_status(status: int, reason: str) -> Trouble:
    if status in _AGAIN_STATUS:
        return Trouble(Code.UNREACHABLE, "The store has an internal error.", again=True)
    if status == 401:  # noqa: PLR2004
        return Unknown()
    if status == 403:  # noqa: PLR2004
        return Denied("The store refuses access.")
    if status == 404:  # noqa: PLR2004
        return Trouble(Code.GONE, "The object is not there any more.")
    if status in {304, 412, 416}:
        return Trouble(Code.CHANGED, "The object changed while it was copied.")
    said = f" ({shown(reason, 60)})" if reason else ""
    return Trouble(Code.IO, f"The store answers {status}{said}.")


def _item(entry: Any) -> Item:
    try:
        sums = {}
        if entry.get("crc32c"):
            sums["crc32c"] = str(entry["crc32c"])
        if entry.get("md5Hash"):
            sums["md5"] = _hex(str(entry["md5Hash"]))
        name, size = str(entry["name"]), size_of(entry.get("size", 0))
        generation = str(entry.get("generation", ""))
        return Item(name, size, generation, generation, stamp(entry.get("updated", "")), sums)
    except (KeyError, ValueError, TypeError, AttributeError):
        raise Broken("The store's listing can't be read.") from None


def json_of(body: memoryview) -> dict[str, Any] | None:
    try:
        data = json.loads(bytes(body))
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _hex(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).hex()
    except (binascii.Error, ValueError):
        return ""


def _quoted(text: str) -> str:
    return quote(text, safe="-._~")


def _query(pairs: dict[str, str]) -> str:
    return "&".join(f"{name}={_quoted(value)}" for name, value in pairs.items())
