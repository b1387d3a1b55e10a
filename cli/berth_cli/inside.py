"""Into a workspace on a cluster: ssh, a terminal, one command, files."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import click
import httpx

from berth_cli import completing
from berth_cli.carrying import problem_of, refusal, shortened, to_gate
from berth_cli.client import (
    EXIT_CONFLICT,
    EXIT_ERROR,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    ApiError,
    exit_of,
)
from berth_cli.context import Session, with_session
from berth_cli.files import ENTRIES
from berth_cli.hostkeys import trusting
from berth_cli.keyboard import Keyboard
from berth_cli.output import printable, refused
from berth_cli.workspaces import WORKSPACE

_PART = 256 * 1024
_PATIENCE = httpx.Timeout(60.0)
_END_OF_INPUT = b"\xff\x00"
_OWN_CODES = 4000  # of a WebSocket: from here on the gate counts HTTP statuses
_LAST_WORDS_S = 5.0
# A terminal has no end of input but the key for it, and a program that is just taking the terminal
# over loses that: it is pressed some times, each after twice as long, within a minute and a half.
_END_KEY = b"\x04"
_END_AFTER_S = tuple(0.1 * 2**n for n in range(10))
# What follows NAME belongs to the command there: its options are never read as ours.
_WORDS: dict[str, Any] = {"allow_interspersed_args": False}
_SHELL = (
    'cd "${HOME:-/}" 2>/dev/null || cd /;'
    " if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh"
)


def _ways(s: Session, name: str) -> dict[str, Any]:
    row = WORKSPACE.find(s, name)
    ways = s.client.get(f"{WORKSPACE.path(s, row)}/ways")
    if ways["terminal"] is None:
        raise ApiError(f"{row['name']} runs on one machine; use JupyterLab's own.", EXIT_CONFLICT)
    return {**ways, "id": row["id"]}


@click.command("ssh", context_settings=_WORDS)
@click.argument("name", shell_complete=completing.workspaces)
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@with_session
def ssh(s: Session, name: str, args: tuple[str, ...]) -> None:
    """Enter by SSH with a registered key; ARGS go to ssh (options or a command).

    Options of berth stand before NAME.
    """
    ways = _ways(s, name)
    program = shutil.which("ssh")
    if ways["ssh"] is None or program is None:
        reason = "This portal offers no SSH." if program else "There is no ssh on this machine."
        raise ApiError(f"{reason} Use: berth workspace terminal {ways['id']}", EXIT_CONFLICT)
    there = ways["ssh"]
    to = ["-p", str(there["port"]), *trusting(there), f"{there['user']}@{there['host']}"]
    command = [program, *to, *args]
    os.execv(program, command)  # noqa: S606 - becomes ssh, with the words that were given


@click.command("terminal")
@click.argument("name", shell_complete=completing.workspaces)
@with_session
def terminal(s: Session, name: str) -> None:
    """Open a shell in the container.

    Without a keyboard the shell reads standard input to its end, as that of ssh does.
    """
    ways = _ways(s, name)
    if _at_keyboard():
        code = _run(s, ways["terminal"], {}, tty=True, channels=False)
    else:  # a terminal there would know no end: what ends it is a key
        query = {"command": ["/bin/sh", "-c", _SHELL], "tty": "0"}
        code = _run(s, ways["exec"], query, tty=False, channels=True)
    raise click.exceptions.Exit(code)


@click.command("exec", context_settings=_WORDS)
@click.argument("name", shell_complete=completing.workspaces)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--tty", "-t", is_flag=True, help="Give the command a terminal; before NAME.")
@with_session
def exec_(s: Session, name: str, command: tuple[str, ...], *, tty: bool) -> None:
    """Run COMMAND in the container; ends with its exit code.

    Options of berth stand before NAME; what follows it is the command's own, word by word.
    """
    if command[0] == "--":  # as kubectl has it: NAME -- COMMAND
        command = command[1:]
    if not command:
        raise ApiError("Say which command to run.", EXIT_USAGE)
    ways = _ways(s, name)
    query = {"command": list(command), "tty": "1" if tty else "0"}
    raise click.exceptions.Exit(_run(s, ways["exec"], query, tty=tty, channels=True))


# --- streams --------------------------------------------------------------------------------


def _at_keyboard() -> bool:
    """Whether keys are typed; who closed standard input has none."""
    return sys.stdin is not None and sys.stdin.isatty()


class _Unread(Exception):  # noqa: N818 - what happened
    """Nobody reads any more what the command writes, as of ``| head``."""


def _run(s: Session, url: str, query: dict[str, Any], *, tty: bool, channels: bool) -> int:
    size = shutil.get_terminal_size()
    words = {**query, "cols": size.columns, "rows": size.lines}
    with _raw() if tty and _at_keyboard() else contextlib.nullcontext():
        stream = _Stream(s, f"{url}?{urlencode(words, doseq=True)}", channels, tty=tty)
        try:
            return asyncio.run(stream.run())
        except _Unread as unread:
            raise (unread.__cause__ or unread) from None  # click ends in silence then


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """Every key goes to the other side, also Ctrl-C."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setraw(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


class _Stream:
    """One command over a WebSocket of the gate."""

    def __init__(self, s: Session, url: str, channels: bool, *, tty: bool) -> None:  # noqa: FBT001
        self._url, self._channels, self._tty = url, channels, tty
        self._began = False
        self._headers = {"Authorization": f"Bearer {s.profile.token}"}

    async def run(self) -> int:
        from websockets.asyncio.client import connect
        from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

        try:
            async with connect(
                self._url, additional_headers=self._headers, compression=None, max_size=None
            ) as ws:
                with contextlib.suppress(NotImplementedError, ValueError):
                    loop = asyncio.get_running_loop()
                    loop.add_signal_handler(signal.SIGWINCH, self._resized, ws)
                typing = asyncio.create_task(self._type(ws))
                try:
                    return await self._show(ws)
                finally:
                    typing.cancel()
        except InvalidStatus as error:
            raise refusal(error.response.status_code, problem_of(error.response.body)) from error
        except (InvalidHandshake, OSError) as error:
            raise ApiError(f"The gate can't be reached: {error}", EXIT_UNREACHABLE) from error
        except ConnectionClosed as error:
            raise ApiError("The connection was lost.", EXIT_UNREACHABLE) from error

    def _resized(self, ws: Any) -> None:
        size = shutil.get_terminal_size()
        message = {"type": "resize", "cols": size.columns, "rows": size.lines}
        task = asyncio.ensure_future(ws.send(json.dumps(message)))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _show(self, ws: Any) -> int:
        async for message in ws:
            if isinstance(message, bytes):
                data = message[1:] if self._channels else message
                out = sys.stderr if self._channels and message[:1] == b"\x02" else sys.stdout
                try:
                    out.buffer.write(data)
                    out.buffer.flush()
                except BrokenPipeError as error:  # not of the connection
                    raise _Unread from error
                continue
            said = json.loads(message)
            self._began = self._began or said["type"] == "ready"
            if said["type"] == "ended":
                if said["code"] is None:
                    raise ApiError(printable(said["message"]), EXIT_ERROR)
                return int(said["code"])
            if said["type"] == "error":
                raise ApiError(printable(said["message"]), await self._kind_of_no(ws))
        raise ApiError("The connection was lost.", EXIT_UNREACHABLE)

    async def _kind_of_no(self, ws: Any) -> int:
        """Return the exit code of what the gate says with the close of the connection.

        What ran already and was cut is the state of things, not a wrong question.
        """
        if self._began:
            return EXIT_CONFLICT
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ws.wait_closed(), _LAST_WORDS_S)
        return exit_of((ws.close_code or 0) - _OWN_CODES, EXIT_CONFLICT)

    async def _type(self, ws: Any) -> None:
        from websockets.exceptions import ConnectionClosed

        lead = b"\x00" if self._channels else b""
        with contextlib.suppress(ConnectionClosed):  # it ended first, which ``_show`` tells
            if sys.stdin is not None:
                async for data in Keyboard(sys.stdin.fileno()).read():
                    await ws.send(lead + data)
            if self._channels and self._tty:
                for pause in _END_AFTER_S:
                    await ws.send(lead + _END_KEY)
                    await asyncio.sleep(pause)
            elif self._channels:
                await ws.send(_END_OF_INPUT)


# --- files ----------------------------------------------------------------------------------


@click.group("files")
def files() -> None:
    """Files of the home folder: ls, cp."""


def _place(text: str) -> tuple[str, str] | None:
    """Return (workspace, path) of NAME:PATH; None for a file of this machine."""
    name, colon, path = text.partition(":")
    return (name, path.lstrip("/")) if colon and name and "/" not in name else None


def _said(answer: httpx.Response) -> None:
    if not answer.is_success:
        raise refusal(answer.status_code, problem_of(answer.read()))


@files.command("ls")
@click.argument("place")
@with_session
def ls(s: Session, place: str) -> None:
    """List NAME or NAME:FOLDER."""
    name, path = _place(place) or (place, "")
    ways = _ways(s, name)
    with _reaching(), to_gate(s, _PATIENCE) as http:
        answer = http.get(f"{ways['files']}/list", params={"path": quote(path)})
        _said(answer)
    said = answer.json()
    s.show(said["entries"], ENTRIES)
    if said["truncated"]:
        shown = len(said["entries"])
        click.echo(f"This is not all: only {shown} are listed, there are more.", err=True)


@files.command("cp")
@click.argument("source")
@click.argument("target")
@click.option("--replace", is_flag=True, help="Overwrite what is there.")
@with_session
def cp(s: Session, source: str, target: str, *, replace: bool) -> None:
    """Copy one file: cp LOCAL NAME:PATH, or cp NAME:PATH LOCAL."""
    here, there = _place(source), _place(target)
    if (here is None) == (there is None):
        raise ApiError("One of the two is NAME:PATH, the other a file of this machine.", EXIT_USAGE)
    with _reaching():
        if there is not None:
            _upload(s, Path(source), *there, replace=replace)
        elif here is not None:
            _download(s, *here, Path(target), replace=replace)


@contextlib.contextmanager
def _reaching() -> Iterator[None]:
    try:
        yield
    except httpx.TransportError as error:
        raise ApiError(f"The gate can't be reached: {error}", EXIT_UNREACHABLE) from error
    except OSError as error:
        raise ApiError(refused(error), EXIT_USAGE) from error


def _upload(s: Session, source: Path, name: str, path: str, *, replace: bool) -> None:
    ways = _ways(s, name)
    if not path or path.endswith("/"):
        path += source.name
    with source.open("rb") as file, to_gate(s, _PATIENCE) as http:
        size = os.fstat(file.fileno()).st_size
        answer = http.put(
            f"{ways['files']}/upload",
            params={"path": quote(path), "replace": "1" if replace else "0"},
            content=iter(lambda: file.read(_PART), b""),
            headers={"Content-Length": str(size)},
        )
        _said(answer)
    click.echo(f"{size} bytes", err=True)


def _download(s: Session, name: str, path: str, target: Path, *, replace: bool) -> None:
    """The file appears under its name only when all of it has arrived."""
    ways = _ways(s, name)
    if target.is_dir():
        target /= Path(path).name
    if target.exists() and not replace:
        raise ApiError(f"{target} is there already; --replace overwrites it.", EXIT_CONFLICT)
    part = target.with_name(f".{shortened(target.name)}.part")
    with (
        to_gate(s, _PATIENCE) as http,
        http.stream("GET", f"{ways['files']}/download", params={"path": quote(path)}) as answer,
    ):
        _said(answer)
        try:
            with part.open("wb") as file:
                for data in answer.iter_bytes(_PART):
                    file.write(data)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    click.echo(f"{target.stat().st_size} bytes", err=True)
