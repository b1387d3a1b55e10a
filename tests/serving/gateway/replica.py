"""A model server of the tests: answers as its path says, and keeps what it was sent."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field


@dataclass
class Replica:
    name: str
    figures: str = ""  # what it publishes
    pause_s: float = 0.0  # before each answer
    status: str = "200 OK"  # of short answers
    headers: str = ""  # of its answers, besides
    seen: list[str] = field(default_factory=list)  # the heads of requests
    received: int = 0  # bytes of bodies
    port: int = 0
    _server: asyncio.Server | None = None
    _next: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self, port: int = 0) -> Replica:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def die(self) -> None:
        """All at once, in the middle of whatever it does."""
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                if "GET /metrics " in head:
                    await self._answer(writer, self.figures.encode())
                    continue
                self.seen.append(head)
                await self._act(head, reader, writer)
        self._writers.discard(writer)
        writer.close()

    async def _act(
        self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        path = head.split()[1].partition("?")[0]
        await asyncio.sleep(self.pause_s)
        if path == "/stream":
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while True:
                writer.write(b"6\r\ntick\r\n\r\n")
                await writer.drain()
                await asyncio.sleep(0.05)
        elif path == "/half":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it")
            await writer.drain()
            self.die()
        elif path in {"/large", "/chunks", "/events"}:
            await self._send_long(path, reader, writer)
        elif path == "/echo":
            body = await reader.readexactly(int(_header(head, "content-length") or 0))
            await self._answer(writer, body)
        else:
            if _header(head, "transfer-encoding"):
                await reader.readuntil(b"0\r\n\r\n")
            await self._read(reader, int(_header(head, "content-length") or 0))
            if path == "/next":
                self._next.release()
            await self._answer(writer, self.name.encode())

    async def _send_long(
        self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if path == "/large":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n")
            for _ in range(128):
                writer.write(b"x" * 2**16)
                await writer.drain()
        elif path == "/events":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            for number in range(1000):
                writer.write(f"id: {number}\ndata: token\n\n".encode())
                await writer.drain()
                await self._next.acquire()
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while (line := await reader.readline()) != b"0\r\n":
                body = await reader.readexactly(int(line, 16) + 2)
                writer.write(line + body)
                await writer.drain()
            writer.write(line + await reader.readexactly(2))

    async def _read(self, reader: asyncio.StreamReader, length: int) -> None:
        while length > 0:
            part = await reader.read(min(length, 2**20))
            if not part:
                raise asyncio.IncompleteReadError(b"", length)
            length -= len(part)
            self.received += len(part)

    async def _answer(self, writer: asyncio.StreamWriter, body: bytes) -> None:
        head = f"HTTP/1.1 {self.status}\r\nSet-Cookie: theirs=1\r\n{self.headers}"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()


def _header(head: str, name: str) -> str | None:
    for line in head.split("\r\n")[1:]:
        key, _, value = line.partition(":")
        if key.lower() == name:
            return value.strip()
    return None
