"""HTTP for one known client, the gate: requests with a length, answers that stream.

A thread for each connection, at most ``MOST_CONNECTIONS``; whoever is silent for ``SILENT_S``, or
takes nothing for so long, is cut.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from dataplane.files import memory
from dataplane.files.memory import Share, busy
from dataplane.files.names import FAILURES, Refusal, of_error
from dataplane.safepath import UnsafePath

MOST_CONNECTIONS = 64
SILENT_S = 75.0
LINGER, LINGER_S = 64 * 1024 * 1024, 5.0
MOST_JSON = 8 * 1024 * 1024
MOST_HEAD = 64 * 1024
_NO_ROOM = json.dumps(busy().as_json()).encode()
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(_NO_ROOM), _NO_ROOM)
)


@dataclass(frozen=True)
class Sent:
    """An answer: ``lines`` of JSON (the last one tells how it ended), ``parts`` of bytes of
    unknown length, a slice of ``file``, or ``body``.
    """

    body: Any = None
    status: int = 200
    lines: Iterator[Mapping[str, Any]] | None = None
    parts: Iterator[bytes] | None = None
    file: int = -1
    start: int = 0
    length: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)


class Asked:
    """What a handler is given."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        target = urlsplit(handler.path)
        self.words = tuple(part for part in target.path.split("/") if part)
        try:
            self.query = parse_qs(target.query, keep_blank_values=True, max_num_fields=2000)
        except ValueError:
            raise Refusal(400, "bad-request", "The query holds too many fields.") from None
        self.headers = handler.headers
        self.method = handler.command
        said = handler.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in handler.headers or not said.isdecimal() or len(said) > 15:  # noqa: PLR2004 - a petabyte
            raise Refusal(411, "no-length", "Say how long the request is (Content-Length).")
        self.length = int(said)

    def one(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[0]

    def number(self, name: str, default: int) -> int:
        text = self.one(name, str(default))
        return int(text) if text.isdecimal() and len(text) < 16 else default  # noqa: PLR2004

    @property
    def person(self) -> str:
        """Who asks, as the gate says; keeps uploads of several people apart."""
        return self.headers.get("X-Berth-Person", "")[:64]

    @property
    def room(self) -> int | None:
        """What the volume's limit leaves, as the gate says; None: no limit."""
        text = self.headers.get("X-Berth-Room", "")
        return int(text) if text.isdecimal() else None

    @property
    def body(self) -> Any:
        return self._handler.rfile

    def share(self) -> Share:
        """Return a share of the memory that is given back when the answer was sent."""
        return self._handler.held.enter_context(Share())

    def took_body(self) -> None:
        self._handler.body_left = False

    def json(self) -> dict[str, Any]:
        if self.length > MOST_JSON:
            raise Refusal(413, "too-large", "The request is too large.")
        held = self.share()
        held.need(max(1, memory.json_bytes(self.length)))
        data = self._handler.rfile.read(self.length)
        self.took_body()
        if (more := memory.json_more(data)) > memory.MOST_MORE:
            raise Refusal(413, "too-large", "The request is too large.")
        if not held.grow(more):
            raise busy()
        try:
            said = json.loads(data or b"{}")
        except (ValueError, RecursionError):
            raise Refusal(400, "bad-request", "The request is not JSON.") from None
        if not isinstance(said, dict):
            raise Refusal(400, "bad-request", "The request is not a JSON object.")
        return said


Answer = Callable[[Asked], Sent]


class Server(ThreadingHTTPServer):
    """``answer`` is called in the connection's own thread."""

    daemon_threads = True
    request_queue_size = 128
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], token: str, answer: Answer) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self.token, self.answer = token, answer
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(address, Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(timeout=1.0):
            with contextlib.suppress(OSError):
                request.sendall(_BUSY)
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def is_full(self) -> bool:
        """Whether nobody else could come in: a gate keeps connections that it does not use."""
        if self._room.acquire(blocking=False):
            self._room.release()
            return False
        return True

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A broken connection is no news; anything else is told on standard error, once."""
        import sys
        import traceback

        del request, client_address
        if not isinstance(sys.exc_info()[1], OSError):
            traceback.print_exc()


class _Head:
    """The lines of a request's head; the library bounds each and their number, not their sum."""

    def __init__(self, inner: BufferedIOBase) -> None:
        self._inner, self._left = inner, MOST_HEAD

    def readline(self, size: int = -1) -> bytes:
        line = self._inner.readline(size)
        self._left -= len(line)
        if self._left < 0:
            raise HTTPException
        return line


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "berth-files", ""
    timeout = SILENT_S
    disable_nagle_algorithm = True
    wbufsize = 64 * 1024
    server: Server
    body_left = False
    held: contextlib.ExitStack
    _verbs: ClassVar[tuple[str, ...]] = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_") and name[3:] in self._verbs:
            return self._serve
        raise AttributeError(name)

    def parse_request(self) -> bool:
        """Read the head within a bound on all of it: who asks is known only afterwards."""
        whole = self.rfile
        self.rfile = _Head(whole)  # type: ignore[assignment] # it is only read by lines
        try:
            return super().parse_request()
        finally:
            self.rfile = whole

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's name
        """Names of files are nobody's business in a log."""

    def version_string(self) -> str:
        return self.server_version

    def _serve(self) -> None:
        headers = self.headers
        self.body_left = headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in headers
        try:
            with contextlib.ExitStack() as self.held:
                self._send(self._answered())
            if self.body_left:
                # take the rest of a request that was refused, so that the refusal can be read
                self.close_connection = True
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_WR)
                self.connection.settimeout(LINGER_S)
                left = LINGER
                while left > 0 and (part := self.connection.recv(min(left, 256 * 1024))):
                    left -= len(part)
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _answered(self) -> Sent:
        if urlsplit(self.path).path == "/livez":
            return Sent({"ok": True})
        try:
            self._require_gate()
            return self.server.answer(Asked(self))
        except (ConnectionError, TimeoutError):
            raise
        except (Refusal, *FAILURES) as error:
            return _no(error)

    def _require_gate(self) -> None:
        given = self.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(given, f"Bearer {self.server.token}".encode()):
            raise Refusal(401, "not-the-gate", "Only the gate may ask here.")

    # --- sending --------------------------------------------------------------------------

    def _send(self, sent: Sent) -> None:
        if sent.lines is not None:
            self._send_parts(_as_lines(sent.lines), {"Content-Type": "application/x-ndjson"}, sent)
        elif sent.parts is not None:
            self._send_parts(sent.parts, sent.headers, sent)
        elif sent.file >= 0:
            self._send_file(sent)
        else:
            body = json.dumps(sent.body).encode() if sent.body is not None else b""
            length = {"Content-Type": "application/json", "Content-Length": str(len(body))}
            self._begin(sent.status, {**length, **sent.headers})
            if self.command != "HEAD":
                self.wfile.write(body)

    def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.body_left or self.server.is_full():
            self.send_header("Connection", "close")
        self.end_headers()

    def _send_parts(self, parts: Iterator[bytes], headers: Mapping[str, str], sent: Sent) -> None:
        """In chunks; when the source breaks the last chunk is missing, so nothing looks whole."""
        with contextlib.closing(parts):  # type: ignore[type-var]
            try:
                first = next(parts, b"")
            except (Refusal, *FAILURES) as error:  # at once: an answer, not a break
                self._send(_no(error))
                return
            self._begin(sent.status, {**headers, "Transfer-Encoding": "chunked"})
            try:
                part: bytes | None = first
                while part is not None:
                    if part:
                        self.wfile.write(b"%x\r\n" % len(part) + part + b"\r\n")
                        self.wfile.flush()
                    part = next(parts, None)
            except (Refusal, *FAILURES):
                self.close_connection = True
                return
            self.wfile.write(b"0\r\n\r\n")

    def _send_file(self, sent: Sent) -> None:
        with os.fdopen(sent.file, "rb") as file:
            self._begin(sent.status, {**sent.headers, "Content-Length": str(sent.length)})
            self.wfile.flush()
            if self.command == "HEAD" or not sent.length:
                return
            done = self.connection.sendfile(file, sent.start, sent.length)
            if done != sent.length:  # it became shorter while it was sent
                self.close_connection = True


def _no(error: Refusal | OSError | UnsafePath) -> Sent:
    refusal = of_error(error)
    return Sent(refusal.as_json(), refusal.status)


def _as_lines(lines: Iterator[Mapping[str, Any]]) -> Iterator[bytes]:
    """A refusal on the way is the last line: the status has been sent already."""
    begun = False
    try:
        for line in lines:
            begun = True
            yield json.dumps(line).encode() + b"\n"
    except (Refusal, *FAILURES) as error:
        if not begun:
            raise
        yield json.dumps({"error": _no(error).body}).encode() + b"\n"
    finally:
        if hasattr(lines, "close"):
            lines.close()
