"""Artifacts of MLflow, by the proxy of its tracking server: what it lists and hands on itself.

A folder is listed whole, so the tree is walked as an HDFS is (``hdfs.step``). An answer says of no
state, and there is no checksum: a file is known by its length.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dataplane.copy.connector import Dialer
from dataplane.copy.http1 import Head
from dataplane.copy.keys import is_text
from dataplane.copy.plan import StorePlan
from dataplane.copy.problems import Code, Denied, Final, Stop, Trouble, shown
from dataplane.copy.stores.base import (
    NO_SUMS,
    NOT_TEXT,
    PAGE,
    Item,
    NoStore,
    Page,
    Store,
    of_status,
    size_of,
)
from dataplane.copy.stores.hdfs import FOLDER_MAX, below, step, token_after

if TYPE_CHECKING:
    from dataplane.copy.calls import Calls

ROOT = "/api/2.0/mlflow-artifacts/artifacts"
_LEADS_ELSEWHERE = "The key can't be the name of a file: it leads elsewhere."


class Mlflow(Store):
    """The artifacts that one tracking server hands on."""

    def __init__(self, plan: StorePlan, dialer: Dialer) -> None:
        self.endpoint = dialer.endpoint(plan.endpoint)
        self._who = ""
        if plan.user:
            pair = base64.b64encode(f"{plan.user}:{plan.token}".encode()).decode()
            self._who = f"authorization: Basic {pair}\r\n"
        elif plan.token:
            self._who = f"authorization: Bearer {plan.token}\r\n"

    async def listed(
        self, calls: Calls, prefix: str, token: str = "", *, most: int = PAGE, alone: bool = False
    ) -> Page:
        del most  # a folder is told whole
        folder = step(prefix.strip("/"), token).folder
        target = f"{ROOT}?path={quote(folder, safe='')}"
        answer = await calls.once(lambda: self._question(target), alone=alone)
        return self.page(answer.body, prefix, token)

    async def described(self, calls: Calls, key: str) -> Item:
        page = await self.listed(calls, key.rpartition("/")[0])
        found = next((item for item in page.items if item.key == key), None)
        if found is None:
            raise Trouble(Code.GONE, "The file is not there any more.")
        return found

    def get_question(self, item: Item, start: int = 0, end: int | None = None) -> bytes:
        part = "" if end is None else f"range: bytes={start}-{end - 1}\r\n"
        return self._question(f"{ROOT}/{quote(item.key, safe='/-._~')}", part)

    def page(self, body: memoryview, prefix: str = "", token: str = "") -> Page:
        at = step(prefix.strip("/"), token)
        items: list[Item] = []
        bad: list[tuple[str, Trouble]] = []
        folders: list[str] = []
        for entry in _entries(body):
            # older servers tell the whole path, newer ones the name
            name = str(entry.get("path") or "").rstrip("/").rpartition("/")[2]
            key = below(at.folder, name)
            if (trouble := _odd(name, key, is_folder=bool(entry.get("is_dir")))) is not None:
                bad.append((shown(key), trouble))
            elif entry.get("is_dir"):
                folders.append(name)
            else:
                try:
                    size = size_of(entry.get("file_size", 0))
                    items.append(Item(key, size, f"size-{size}"))
                except Trouble as odd:
                    bad.append((shown(key), odd))
        return Page(items, bad, token_after(at, folders, ""), len(folders))

    def missed(self, prefix: str, token: str, trouble: Trouble) -> Page | None:
        """Name a folder that can't be listed, and go on beside it; not so the first one."""
        if not token or trouble.again:
            return None
        at = step(prefix.strip("/"), token)
        return Page([], [(f"{shown(at.folder)}/", trouble)], token_after(at, [], ""), 1)

    def sums(self, head: Head, item: Item | None = None) -> Mapping[str, str]:
        del head, item
        return NO_SUMS

    def state_of(self, head: Head) -> str:
        del head
        return ""

    def trouble(self, head: Head, body: memoryview) -> Exception:
        if head.status == 401:  # noqa: PLR2004
            return Stop(Final.DENIED, "MLflow does not accept this credential.")
        if head.status == 403:  # noqa: PLR2004
            return Denied("MLflow refuses access.")
        said = _read(body)
        return of_status(
            head.status, str(said.get("error_code", "")) if isinstance(said, dict) else ""
        )

    def _question(self, target: str, more: str = "") -> bytes:
        lines = f"host: {self.endpoint.header()}\r\nuser-agent: berth/1\r\n{self._who}{more}"
        return f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode()


def _odd(name: str, key: str, *, is_folder: bool) -> Trouble | None:
    """Return why an entry can't be looked at further."""
    if not name or name in {".", ".."}:
        return Trouble(Code.BAD_KEY, _LEADS_ELSEWHERE)
    if not is_text(key):
        return Trouble(Code.BAD_KEY, NOT_TEXT)
    if is_folder and len(key.encode()) > FOLDER_MAX:
        return Trouble(Code.BAD_KEY, "The key can't be the name of a file: it is too long.")
    return None


def _entries(body: memoryview) -> list[dict[str, Any]]:
    """Return what a folder has; a folder that is not there has nothing."""
    said = _read(body)
    files = said.get("files", []) if isinstance(said, dict) else None
    if not isinstance(files, list) or not all(isinstance(one, dict) for one in files):
        raise NoStore("The endpoint does not answer as MLflow's proxy of artifacts.")
    return files


def _read(body: memoryview) -> Any:
    try:
        return json.loads(bytes(body))
    except (ValueError, RecursionError):
        return None
