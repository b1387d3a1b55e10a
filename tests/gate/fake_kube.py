"""An API server that knows exec, port-forward and logs; "containers" are folders of this machine.

It speaks the public protocols (v5.channel.k8s.io, v4.channel.k8s.io) and runs real commands, so
that what the gate sends is tried and not only looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import termios
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"


class FakeKube:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.asked: list[str] = []
        self.log = b"one\ntwo\n"
        self.refuse: tuple[int, str] | None = None
        self.location = ""  # where a refusal that is a redirect leads
        self.running: set[asyncio.subprocess.Process] = set()
        self.protocols = [V5, V4]
        self._server: Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await serve(
            self._serve,
            "127.0.0.1",
            0,
            subprotocols=self.protocols,  # type: ignore[arg-type]
            process_request=self._http,
            compression=None,
            max_size=None,
        )
        return self

    async def __aexit__(self, *_error: object) -> None:
        for process in self.running:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    def _http(self, conn: ServerConnection, request: Request) -> Response | None:
        del conn
        self.asked.append(request.path)
        if self.refuse is not None:
            code, message = self.refuse
            answer = _json(code, {"kind": "Status", "message": message})
            if self.location:
                answer.headers["Location"] = self.location
            return answer
        if "/log?" in request.path:
            return Response(200, "OK", Headers({"Content-Length": str(len(self.log))}), self.log)
        return None

    async def _serve(self, ws: ServerConnection) -> None:
        assert ws.request is not None
        parts = urlsplit(ws.request.path)
        query = parse_qs(parts.query, keep_blank_values=True)
        with contextlib.suppress(ConnectionClosed):
            if parts.path.endswith("/exec"):
                await self._exec(ws, query)
            elif parts.path.endswith("/portforward"):
                await self._forward(ws, int(query["ports"][0]))

    # --- exec --------------------------------------------------------------------------------

    async def _exec(self, ws: ServerConnection, query: dict[str, list[str]]) -> None:
        tty = query.get("tty") == ["true"]
        try:
            run = self._terminal if tty else self._pipes
            code = await run(ws, query["command"], stdin=query.get("stdin") == ["true"])
        except FileNotFoundError as error:
            said = {
                "status": "Failure",
                "message": f"exec: {error.filename}: no such file or directory",
            }
            await ws.send(b"\x03" + json.dumps(said).encode())
            return
        status: dict[str, Any] = {"status": "Success"}
        if code:
            causes = [{"reason": "ExitCode", "message": str(code)}]
            status = {
                "status": "Failure",
                "reason": "NonZeroExitCode",
                "details": {"causes": causes},
            }
        await ws.send(b"\x03" + json.dumps(status).encode())

    def _env(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "BERTH_MAIN": "yes"}

    async def _pipes(self, ws: ServerConnection, command: list[str], *, stdin: bool) -> int:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._env(),
            start_new_session=True,
        )
        self.running.add(process)
        feed = asyncio.create_task(self._feed(ws, process))
        try:
            await asyncio.gather(
                _copy(process.stdout, ws, b"\x01"), _copy(process.stderr, ws, b"\x02")
            )
            return await process.wait()
        finally:
            feed.cancel()
            self.running.discard(process)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    async def _feed(self, ws: ServerConnection, process: asyncio.subprocess.Process) -> None:
        async for frame in ws:
            assert isinstance(frame, bytes)
            if frame[0] == 255 and process.stdin:
                process.stdin.close()
            elif frame[0] == 0 and process.stdin:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    process.stdin.write(frame[1:])
                    await process.stdin.drain()
        with contextlib.suppress(ProcessLookupError):
            process.kill()  # the client is gone

    async def _terminal(self, ws: ServerConnection, command: list[str], *, stdin: bool) -> int:
        del stdin
        main, worker = pty.openpty()
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=worker,
            stdout=worker,
            stderr=worker,
            env=self._env(),
            start_new_session=True,
        )
        os.close(worker)
        self.running.add(process)
        loop = asyncio.get_running_loop()
        feed = asyncio.create_task(_type(ws, main, process))
        try:
            while True:
                try:
                    data = await loop.run_in_executor(None, os.read, main, 32768)
                except OSError:
                    break
                if not data:
                    break
                await ws.send(b"\x01" + data)
            return await process.wait()
        finally:
            feed.cancel()
            self.running.discard(process)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            os.close(main)

    # --- port-forward ------------------------------------------------------------------------

    async def _forward(self, ws: ServerConnection, port: int) -> None:
        await ws.send(b"\x00" + struct.pack("<H", port))
        await ws.send(b"\x01" + struct.pack("<H", port))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError as error:
            await ws.send(b"\x01" + str(error).encode())
            return
        back = asyncio.create_task(_copy(reader, ws, b"\x00"))
        there = asyncio.create_task(_write(ws, writer))
        await asyncio.wait({back, there}, return_when=asyncio.FIRST_COMPLETED)
        for task in (back, there):
            task.cancel()
        writer.close()


async def _copy(reader: Any, ws: ServerConnection, channel: bytes) -> None:
    while data := await reader.read(32768):
        await ws.send(channel + data)


async def _write(ws: ServerConnection, writer: asyncio.StreamWriter) -> None:
    async for frame in ws:
        assert isinstance(frame, bytes)
        writer.write(frame[1:])
        await writer.drain()


async def _type(ws: ServerConnection, main: int, process: asyncio.subprocess.Process) -> None:
    async for frame in ws:
        assert isinstance(frame, bytes)
        if frame[0] == 0:
            os.write(main, frame[1:])
        elif frame[0] == 4:
            size = json.loads(frame[1:])
            fcntl.ioctl(
                main, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0)
            )
    with contextlib.suppress(ProcessLookupError):
        process.kill()


def _json(code: int, body: dict[str, Any]) -> Response:
    data = json.dumps(body).encode()
    headers = Headers({"Content-Type": "application/json", "Content-Length": str(len(data))})
    return Response(code, HTTPStatus(code).phrase, headers, data)
