"""The files below a folder of a volume, for pages and answers that show them elsewhere.

They are told by the person's own file browser there, which is opened where it is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import httpx
from django.utils.translation import gettext as _

from common.errors import Unavailable
from files.models import FileSession
from files.reconciler import token_of
from files.selectors import why
from files.services import session_open, session_touch
from runtime import gateway

if TYPE_CHECKING:
    from uuid import UUID

    from accounts.principal import Principal
    from projects.models import Project

QUESTION = "files/below"
MOST = 1000
SECONDS = 5  # that the walk may take
_MOST_ANSWER = 2 * 1024 * 1024
_NUMBERS = re.compile(r"([0-9]+)")
_PATIENCE_S = 3.0  # beyond the walk


@dataclass(frozen=True)
class Below:
    """``is_open`` False: ask again, or read in ``message`` why it can't be opened."""

    is_open: bool
    has_failed: bool = False
    message: str = ""
    files: list[tuple[str, int]] = field(default_factory=list)  # below the folder, and size
    complete: bool = True
    ran_out: bool = False  # of time: another moment it may be complete


def files_below(*, principal: Principal, project: Project, volume_uid: UUID, folder: str) -> Below:
    """Return the files below a folder, links left out; a folder that is not there has none."""
    row = session_open(principal=principal, project=project, volume_uid=volume_uid)
    if not row.is_open:
        return Below(is_open=False, has_failed=row.has_failed, message=why(row))
    session_touch(uid=row.uid)
    asked = {"session": str(row.uid), "folder": folder}
    said = gateway.ask(QUESTION, asked, timeout_s=SECONDS + 2 * _PATIENCE_S)
    files = [(str(path), int(size)) for path, size in said["files"]]
    complete, ran_out = bool(said["complete"]), bool(said.get("ran_out"))
    return Below(is_open=True, files=files, complete=complete, ran_out=ran_out)


def answer(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask the server beside the data: a tenant runs it, so nothing that it says is believed."""
    rows = FileSession.objects.select_related("project", "person", "volume")
    row = rows.filter(uid=payload["session"]).first()
    if row is None or not row.is_open:
        raise Unavailable(_("The file browser does not answer; try again in a moment."))
    folder = quote(str(payload["folder"]))
    found = _Found(len(folder) + 1)
    try:
        with (
            httpx.Client(timeout=SECONDS + _PATIENCE_S, trust_env=False) as client,
            client.stream(
                "GET",
                f"http://{row.address}/search?path={quote(folder)}&q=%2A&seconds={SECONDS}",
                headers={
                    "Authorization": f"Bearer {token_of(row)}",
                    "X-Berth-Person": str(row.person.uid),
                    "Accept-Encoding": "identity",
                },
            ) as response,
        ):
            response.raise_for_status()
            for line in _lines(response):
                found.read(line)
    except (httpx.HTTPError, ValueError, RecursionError) as error:
        said = _("The file browser does not answer; try again in a moment.")
        raise Unavailable(said) from error
    files = sorted(found.files, key=lambda one: _in_order(one[0]))
    complete = found.complete and len(files) <= MOST
    return {"files": files[:MOST], "complete": complete, "ran_out": found.ran_out}


def _in_order(path: str) -> list[tuple[int, str]]:
    """Numbers in names by their size: step 9 comes before step 10."""
    return [
        (int(part[:18]), part) if part.isascii() and part.isdecimal() else (0, part)
        for part in _NUMBERS.split(path)
    ]


class _Found:
    def __init__(self, start: int) -> None:
        self.start = start  # of a path below the folder
        self.files: list[tuple[str, int]] = []
        self.complete = False
        self.ran_out = False

    def read(self, line: str) -> None:
        said = json.loads(line)
        entries = said.get("entries", ()) if isinstance(said, dict) else ()
        for one in entries if isinstance(entries, list) else ():
            if isinstance(one, dict) and one.get("kind") == "file":
                path = unquote(str(one.get("path", ""))[self.start :], errors="replace")
                path = path.encode(errors="replace").decode()  # halves of letters
                size = one.get("size")
                if "\0" in path or {"", ".", ".."} & set(path.split("/")):
                    continue  # not below the folder
                self.files.append((path, size if type(size) is int and 0 <= size < 2**63 else 0))
        done = said.get("done") if isinstance(said, dict) else None
        if isinstance(done, dict):
            self.complete = done.get("complete") is True
            hits = done.get("hits")
            self.ran_out = not self.complete and type(hits) is int and hits < MOST


def _lines(response: httpx.Response) -> list[str]:
    body = bytearray()
    for part in response.iter_raw():
        body += part
        if len(body) > _MOST_ANSWER:  # so many long names are not all of them
            body = body[: body.rfind(b"\n") + 1]
            break
    return body.decode(errors="replace").splitlines()
