"""Files of one volume through the gate: asking, sending, taking. Goes on where it was."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import random
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
import httpx

from berth_cli.client import (
    EXIT_CONFLICT,
    EXIT_ERROR,
    EXIT_TIMEOUT,
    EXIT_UNREACHABLE,
    ApiError,
    exit_of,
    opened,
)
from berth_cli.context import Session
from berth_cli.output import printable
from berth_cli.volumes import base, find

SMALL = 8 * 1024 * 1024
PIECE = 32 * 1024 * 1024
READ = 256 * 1024
OPENS_WITHIN_S = 180.0
RETRY_S = (1, 2, 5, 10, 20)
LONGEST = 200  # bytes of a name within that of its part: file systems allow 255 for both
_GONE = frozenset({"files-closed", "files-away"})
_AGAIN = frozenset({"offset", "short", "checksum", "in-use"})  # of a piece
T = TypeVar("T")


class Lost(Exception):  # noqa: N818 - what happened
    """The connection broke: the same may be asked again."""


@dataclass
class Place:
    """The files of one volume through the gate."""

    s: Session
    name: str
    url: str = ""
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = to_gate(self.s, httpx.Timeout(90.0, connect=10.0))
        self.path = f"{base(self.s)}/{find(self.s, self.name)['id']}/files"

    def open(self) -> None:
        """Begin the file browser's server and wait until the gate answers for it."""
        said = self.s.client.post(self.path)
        deadline = time.monotonic() + OPENS_WITHIN_S
        while not (said["is_open"] and self._answers(said["url"])):
            if said["phase"] == "failed":
                raise ApiError(f"The files could not be opened: {said['message']}", EXIT_ERROR)
            if time.monotonic() > deadline:
                why = said["message"] or "the gate does not answer"
                raise ApiError(f"The files are not open yet: {why}", EXIT_TIMEOUT)
            time.sleep(0.5)
            said = self.s.client.get(self.path)
            if said["phase"] == "closed":
                said = self.s.client.post(self.path)

    def _answers(self, url: str) -> bool:
        self.url = url
        with contextlib.suppress(httpx.TransportError):
            return self.http.get(f"{url}/info").is_success
        return False

    def ask(self, method: str, act: str, **options: Any) -> httpx.Response:
        """Ask; when the files were closed meanwhile they are opened again, once.

        Where too much is asked at once nothing was done: the same is asked again some times.
        """
        pauses, closed = iter(RETRY_S), False
        while True:
            answer = self._ask(method, act, **options)
            if answer.is_success:
                return answer
            problem = problem_of(answer.content)
            code = problem.get("code")
            if code in _GONE and not closed:
                closed = True
                self.open()
            elif code != "busy" or (pause := next(pauses, None)) is None:
                raise refusal(answer.status_code, problem)
            else:
                time.sleep(pause * (0.5 + random.random()))  # noqa: S311 - not all at one moment

    def _ask(self, method: str, act: str, **options: Any) -> httpx.Response:
        try:
            return self.http.request(method, f"{self.url}/{act}", **options)
        except httpx.TransportError as error:
            raise Lost(str(error)) from error

    def json(self, method: str, act: str, **options: Any) -> dict[str, Any]:
        return dict(_once_more(partial(self.ask, method, act, **options)).json())


def to_gate(s: Session, timeout: httpx.Timeout) -> httpx.Client:
    return opened(headers={"Authorization": f"Bearer {s.profile.token}"}, timeout=timeout)


def _once_more(ask: Callable[[], T]) -> T:
    """Return the answer; while the connection breaks ask again some times."""
    for pause in (*RETRY_S, None):
        try:
            return ask()
        except Lost as lost:
            if pause is None:
                raise unreachable(lost) from lost
            time.sleep(pause)
    raise AssertionError


@dataclass
class Progress:
    """One line on standard error, when that is a terminal."""

    size: int
    label: str
    done: int = 0
    shown: float = 0.0
    began: float = field(default_factory=time.monotonic)

    def at(self, done: int) -> None:
        self.done = done
        at = time.monotonic()
        if sys.stderr.isatty() and (at - self.shown > 0.2 or done >= self.size):  # noqa: PLR2004
            self.shown = at
            rate = done / max(at - self.began, 0.001) / 1e6
            share = 100 * done // self.size if self.size else 100
            click.echo(
                f"\r{printable(self.label)[:50]}  {share:3d} %  {rate:.1f} MB/s ",
                err=True,
                nl=False,
            )
            if done >= self.size:
                click.echo("", err=True)


# --- sending ---------------------------------------------------------------------------------


def send(there: Place, source: Path, path: str, conflict: str) -> dict[str, Any]:
    """Send one file; one that was begun before goes on where it was."""
    with source.open("rb") as file:
        info = os.fstat(file.fileno())
        progress = Progress(info.st_size, source.name)
        try:
            if info.st_size <= SMALL:
                done = _send_whole(there, file.read(), path, conflict, int(info.st_mtime))
            else:
                done = _send_pieces(there, file, path, conflict, progress, info)
        except Lost as lost:
            raise unreachable(lost) from lost
        progress.at(info.st_size)
        return done


def _send_whole(
    there: Place, data: bytes, path: str, conflict: str, modified: int
) -> dict[str, Any]:
    query = {"path": path, "conflict": conflict, "modified": modified}
    return there.json("PUT", "file", params=query, content=data, headers=_checksum(data))


def _send_pieces(
    there: Place, file: Any, path: str, conflict: str, progress: Progress, info: os.stat_result
) -> dict[str, Any]:
    asked = {
        "path": path,
        "size": info.st_size,
        "conflict": conflict,
        "mark": f"{progress.label}:{info.st_size}:{info.st_mtime_ns}",
        "modified": info.st_mtime,
    }
    begun = there.json("POST", "uploads", json=asked)
    whole, offset = hashlib.sha256(), 0
    while offset < begun["offset"]:  # of what is there already, the checksum is still needed
        data = file.read(min(READ, begun["offset"] - offset))
        whole.update(data)
        offset += len(data)
    while offset < info.st_size:
        data = file.read(PIECE)
        if not data:
            raise ApiError("It became shorter while it was sent.", EXIT_CONFLICT)
        whole.update(data)
        _append(there, begun["id"], offset, data)
        offset += len(data)
        progress.at(offset)
    answer = there.ask("POST", f"uploads/{begun['id']}/finish", json={"sha256": whole.hexdigest()})
    return last_line(answer)


def _append(there: Place, upload_id: str, offset: int, data: bytes) -> None:
    """Send a piece; when the answer was lost, ask how far the other side is."""
    for pause in (*RETRY_S, None):
        try:
            there.ask(
                "PATCH",
                f"uploads/{upload_id}",
                params={"offset": offset},
                content=data,
                headers=_checksum(data),
            )
        except (Lost, ApiError) as error:
            wanted = isinstance(error, Lost) or error.problem.get("code") in _AGAIN
            if not wanted or pause is None:
                raise (unreachable(error) if isinstance(error, Lost) else error) from error
            time.sleep(pause)
            if there.json("GET", f"uploads/{upload_id}")["offset"] == offset + len(data):
                return
        else:
            return


# --- taking ----------------------------------------------------------------------------------


def take(there: Place, path: str, target: Path, *, replace: bool) -> None:
    """Download one file. It has its name only when all of it is here; a part is gone on with."""
    if target.exists() and not replace:
        raise ApiError(f"{target} is there already; --replace overwrites it.", EXIT_CONFLICT)
    _once_more(partial(_take, there, path, target))


def _take(there: Place, path: str, target: Path) -> None:
    head = there.ask("HEAD", "file", params={"path": path})
    mark, size = head.headers["etag"], int(head.headers["content-length"])
    known = hashlib.sha256(mark.encode()).hexdigest()[:12]  # another version begins anew
    part = target.with_name(f".{shortened(target.name)}.{known}.part")
    with part.open("ab") as file:
        have = file.tell()
        if have < size:
            _fill(there, path, file, have, mark, Progress(size, target.name))
    if part.stat().st_size != size:
        part.unlink()
        raise Lost("it changed while it was read")
    part.replace(target)
    _clean(target)


def shortened(name: str) -> str:
    """``name``, or the beginning of it that leaves room for a temporary suffix."""
    return name.encode()[:LONGEST].decode(errors="ignore")


def _clean(target: Path) -> None:
    """Remove what was begun from another version of the file, which nobody goes on with."""
    if shortened(target.name) != target.name:  # one that was cut does not tell whose it is
        return
    ours = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{12}\.part")
    for stale in target.parent.glob(glob.escape(f".{target.name}.") + "*.part"):
        if ours.fullmatch(stale.name):
            stale.unlink(missing_ok=True)


def _fill(there: Place, path: str, file: Any, have: int, mark: str, progress: Progress) -> None:
    headers = {"Range": f"bytes={have}-", "If-Range": mark, "Accept-Encoding": "identity"}
    try:
        with there.http.stream(
            "GET", f"{there.url}/file", params={"path": path}, headers=headers
        ) as answer:
            if not answer.is_success:
                answer.read()
                raise refusal(answer.status_code, problem_of(answer.content))
            if answer.status_code != httpx.codes.PARTIAL_CONTENT:
                file.truncate(0)
                have = 0
            for data in answer.iter_raw():
                file.write(data)
                have += len(data)
                progress.at(have)
    except httpx.TransportError as error:
        raise Lost(str(error)) from error


# --- answers ---------------------------------------------------------------------------------


def _checksum(data: bytes) -> dict[str, str]:
    return {"X-Berth-Checksum": f"sha256={hashlib.sha256(data).hexdigest()}"}


def last_line(answer: httpx.Response) -> dict[str, Any]:
    """Return the last line of an answer of lines; an error in it is raised."""
    said = json.loads(answer.text.splitlines()[-1])
    if "error" in said:
        raise refusal(answer.status_code, said["error"])
    return dict(said)


def problem_of(body: bytes | bytearray | None) -> dict[str, Any]:
    try:
        said = json.loads(body or b"")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def refusal(status: int, problem: dict[str, Any]) -> ApiError:
    """Return what the gate answered instead of doing it, in its own words where it has some."""
    words = printable(str(problem.get("detail") or "")) or f"The gate answered {status}."
    return ApiError(words, exit_of(status), status=status, problem=problem)


def unreachable(error: Exception) -> ApiError:
    return ApiError(f"The gate can't be reached: {error}", EXIT_UNREACHABLE)
