"""What stands between a client and a real store in a test: it counts, and does what a rule says.

Requests go on byte by byte, with the Host that the client sent, so signatures stay true and the
real server checks them.  A rule sees each request first and may answer it, spoil the answer, or
wait; without rules the front only counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

LINE = 64 * 1024
BLOCK = 256 * 1024
PATIENCE_S = 60


@dataclass
class Request:
    """As the client sent it; ``status`` and ``sent`` (bytes of the body) are known at its end."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""  # only a small one, which a rule may want to read
    status: int = 0
    sent: int = 0

    @property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    @property
    def key(self) -> str:
        """The object's key, of a path-style S3 request; empty for a bucket."""
        return self.path.lstrip("/").partition("/")[2]


@dataclass(frozen=True)
class Answer:
    """Given instead of the server's; it never hears of the request."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Spoil:
    """The server's own answer, changed on its way."""

    cut_after: int | None = None  # bytes of the body, then the connection is gone
    bytes_s: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)  # an empty value takes one away
    change: Callable[[bytes], bytes] | None = None  # of each block; the length must stay


Rule = Callable[[Request], Answer | Spoil | None]


class GoneError(Exception):
    """The other side closed in the middle."""


class Front:
    """One listening address in front of ``upstream``; ``with`` starts and ends it."""

    def __init__(
        self, upstream: int, *, rules: list[Rule] | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.upstream, self.rules = upstream, list(rules or ())
        self.requests: list[Request] = []
        self.port = 0
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def bodies(self, method: str = "GET") -> int:
        """How many bytes of objects went out."""
        return sum(r.sent for r in self.requests if r.method == method and r.key)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(
            self._client, "127.0.0.1", self.port, limit=LINE, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        link = _Link(reader, writer)
        try:
            while await self._one(link):
                pass
        except (GoneError, OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            link.close()

    async def _one(self, link: _Link) -> bool:
        """One request and its answer; whether the connection lives on."""
        head = await _head(link.reader)
        if not head:
            return False
        method, target, _ = head[0].split(" ", 2)
        headers = _headers(head)
        request = Request(method, target, headers, await _small_body(link.reader, headers))
        self.requests.append(request)
        decided = next((d for rule in self.rules if (d := rule(request)) is not None), None)
        if isinstance(decided, Answer):
            if not request.body:
                await _swallow(link.reader, headers)
            return await _give(link, request, decided)
        await link.connect(self.upstream)
        link.up_writer.write(_text(head) + request.body)
        left = {} if request.body else headers
        body = asyncio.create_task(_relay(link.reader, left, link.up_writer))
        try:
            return await _answer(link, request, decided or Spoil(), body)
        finally:
            body.cancel()
            with contextlib.suppress(BaseException):
                await body


class _Link:
    """One client's connection, and one to the server for it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.up_reader: asyncio.StreamReader
        self.up_writer: asyncio.StreamWriter
        self._connected = False

    async def connect(self, port: int) -> None:
        if self._connected and not self.up_reader.at_eof():
            return
        self.up_reader, self.up_writer = await asyncio.open_connection(
            "127.0.0.1", port, limit=LINE
        )
        self._connected = True

    def close(self) -> None:
        self.writer.close()
        if self._connected:
            self.up_writer.close()


async def _head(reader: asyncio.StreamReader) -> list[str]:
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return []
    return raw.decode("latin-1").rstrip("\r\n").split("\r\n")


def _headers(head: list[str]) -> dict[str, str]:
    pairs = (line.partition(":") for line in head[1:])
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _text(head: list[str]) -> bytes:
    return ("\r\n".join(head) + "\r\n\r\n").encode("latin-1")


Block = tuple[bytes, bytes, bytes]


async def _blocks(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> AsyncIterator[Block]:
    """The body piece by piece: what frames it before, the content, what frames it after."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        while True:
            line = await reader.readline()
            size = int(line.split(b";")[0], 16)
            yield line, await reader.readexactly(size), await reader.readexactly(2)
            if size == 0:
                return
    left = int(headers.get("content-length", 0))
    while left:
        block = await reader.read(min(left, BLOCK))
        if not block:
            raise GoneError
        left -= len(block)
        yield b"", block, b""


async def _small_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    size = int(headers.get("content-length", 0))
    if "expect" in headers or size > LINE:
        return b""
    return await reader.readexactly(size)


async def _relay(
    reader: asyncio.StreamReader, headers: Mapping[str, str], to: asyncio.StreamWriter
) -> None:
    async for block in _blocks(reader, headers):
        to.write(b"".join(block))
        await to.drain()


async def _swallow(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> None:
    if headers.get("expect", "").lower() == "100-continue":
        return  # it waits for leave to send, and gets an answer instead
    async for _ in _blocks(reader, headers):
        pass


async def _give(link: _Link, request: Request, answer: Answer) -> bool:
    headers = {"content-length": str(len(answer.body)), **answer.headers}
    head = [f"HTTP/1.1 {answer.status} Told", *(f"{k}: {v}" for k, v in headers.items())]
    body = b"" if request.method == "HEAD" else answer.body
    link.writer.write(_text(head) + body)
    await link.writer.drain()
    request.status, request.sent = answer.status, len(body)
    return "expect" not in request.headers


async def _answer(link: _Link, request: Request, spoil: Spoil, body: asyncio.Task[None]) -> bool:
    while True:
        head = await _head(link.up_reader)
        if not head:
            raise GoneError
        request.status = int(head[0].split(" ")[1])
        if request.status >= 200:
            break
        link.writer.write(_text(head))  # 100: send the body now
    headers = _headers(head)
    link.writer.write(_text(_changed(head, spoil.headers)))
    if request.method != "HEAD" and request.status not in (204, 304):
        await _body(link, request, headers, spoil)
    await link.writer.drain()
    await asyncio.wait({body}, timeout=1)
    if not body.done():
        raise GoneError  # answered before it had all: neither side can go on with this connection
    return "close" not in headers.get("connection", "").lower()


def _changed(head: list[str], wanted: Mapping[str, str]) -> list[str]:
    left = [line for line in head[1:] if line.partition(":")[0].strip().lower() not in wanted]
    return [head[0], *left, *(f"{name}: {value}" for name, value in wanted.items() if value)]


async def _body(link: _Link, request: Request, headers: Mapping[str, str], spoil: Spoil) -> None:
    async for before, block, after in _blocks(link.up_reader, headers):
        out = spoil.change(block) if spoil.change and block else block
        if spoil.cut_after is not None and request.sent + len(out) > spoil.cut_after:
            link.writer.write(before + out[: spoil.cut_after - request.sent])
            await link.writer.drain()
            raise GoneError
        link.writer.write(before + out + after)
        request.sent += len(out)
        await link.writer.drain()
        if spoil.bytes_s:
            await asyncio.sleep(len(out) / spoil.bytes_s)
