"""HTTP/1.1 on one connection: one question at a time, bodies without a copy where it matters.

asyncio's buffered protocol reads straight into our memory. An answer that fits stays there; a
large body is read into the buffers of a ``Sink``. Everything is bounded, and whatever is not
plain HTTP/1.1 ends the connection.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dataplane.copy.problems import Code, Stop, Trouble

HEAD_MAX = 65536
_SIZE_DIGITS = 18
MEMORY = 128 * 1024  # one small object with its head
COLLECT_MAX = 16 * 1024 * 1024
_NO_BODY = frozenset({204, 304})
_INFORMATIONAL = range(100, 200)
_SPARE = memoryview(bytearray(64))  # for what nobody asked for


class Broken(Trouble):
    """The connection ended, or what came is no HTTP. Asking again on a new one may help.

    With another code than usual it does not: the store would say the same once more.
    """

    def __init__(self, message: str, code: Code = Code.UNREACHABLE) -> None:
        super().__init__(code, message, again=code is Code.UNREACHABLE)


class Head(NamedTuple):
    """Names of fields are in small letters; repeated ones are joined."""

    status: int
    fields: dict[str, str]


class Chunks:
    """Takes a chunked body apart; trailers are read and dropped."""

    def __init__(self, limit: int) -> None:
        self._raw = b""
        self._left = 0
        self._limit = limit
        self._trailer = False

    def feed(self, data: bytes, out: bytearray) -> bool:
        """Add to ``out``; True when the body is complete."""
        self._raw += data
        while True:
            if self._left:
                if not self._take(out):
                    return False
                continue
            line, end, rest = self._raw.partition(b"\r\n")
            if not end:
                if len(self._raw) > HEAD_MAX:
                    raise Broken("The answer is not properly chunked.")
                return False
            self._raw = rest
            if self._trailer:
                if not line:
                    return True
                continue
            size = line.partition(b";")[0].strip()
            if not size or len(size) > _SIZE_DIGITS or set(size) - set(b"0123456789abcdefABCDEF"):
                raise Broken("The answer is not properly chunked.")
            self._left = int(size, 16)
            self._trailer = not self._left
            self._left += 2 if self._left else 0
            if len(out) + self._left > self._limit + 2:
                raise Broken("The answer is larger than it may be.", Code.TOO_LARGE)

    def _take(self, out: bytearray) -> bool:
        piece = self._raw[: self._left]
        self._raw = self._raw[len(piece) :]
        out += piece[: max(0, self._left - 2)]
        self._left -= len(piece)
        return not self._left


def parse_head(raw: bytes) -> Head:
    lines = raw.decode("latin-1").split("\r\n")
    first = lines[0]
    status = number_of(first[9:12])
    if not first.startswith("HTTP/1.") or status is None or first[8:9] != " ":
        raise Broken("The answer is no HTTP.")
    fields: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name[-1] in " \t" or name[0] in " \t":
            raise Broken("The answer's head can't be read.")
        name, value = name.lower(), value.strip()
        if name in fields:
            if name == "content-length" and fields[name] != value:
                raise Broken("The answer has two lengths.", Code.LENGTH)
            value = value if name == "content-length" else f"{fields[name]}, {value}"
        fields[name] = value
    if first[7] == "0" and fields.get("connection", "").lower() != "keep-alive":
        fields["connection"] = "close"
    return Head(status, fields)


def length_of(head: Head) -> int | None:
    """Return the length of the body; None when only its end will tell."""
    coding = head.fields.get("transfer-encoding")
    text = head.fields.get("content-length")
    if coding is not None:
        if text is not None or coding.lower() != "chunked":
            raise Broken("The answer has two lengths.", Code.LENGTH)
        return None
    if text is None:
        return None
    length = number_of(text)
    if length is None:
        raise Broken("The answer's length can't be read.", Code.LENGTH)
    return length


def number_of(text: str) -> int | None:
    """Return a number as HTTP writes it; None for what is none (“²” is a digit elsewhere)."""
    if not text.isascii() or not text.isdigit() or len(text) > _SIZE_DIGITS:
        return None
    return int(text)


class Answer(NamedTuple):
    """``body`` is valid until the next question on the line; empty when a sink took it."""

    head: Head
    body: memoryview


class Sink(Protocol):
    """Takes a body of ``size`` bytes piece by piece, whether or not the answer says its length."""

    size: int

    def room(self) -> memoryview:
        """Return memory to read into, never empty."""

    def took(self, count: int) -> None:
        """Say that ``count`` bytes of it were filled; may pause the line."""

    def ended(self) -> None:
        """Say that nothing comes any more; the line may soon be another's."""


Accept = Callable[["Connection", Head], Sink | None]


@dataclass
class _Asked:
    """The question that is open on a line."""

    future: asyncio.Future[Answer]
    accept: Accept | None
    limit: int
    head: Head | None = None
    sink: Sink | None = None
    left: int = 0  # of the body, for a sink or for ``whole``
    start: int = 0  # where the body starts in the line's memory
    whole: bytearray | None = None  # a body too large for the memory
    chunks: Chunks | None = None
    to_end: bool = False  # the body ends with the connection


class Watched:
    """What the watch over all connections looks at."""

    got = 0  # bytes that went either way
    paused = False
    deadline = 0.0
    watched_at = 0.0
    watched_bytes = 0


class Connection(Watched, asyncio.BufferedProtocol):
    """One connection, of the loop that opened it: only ``soon`` may be called from elsewhere."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._memory = memoryview(bytearray(MEMORY))
        self._held = 0
        self._asked: _Asked | None = None
        self._transport: asyncio.Transport | None = None
        self.reusable = True
        self.lost = False  # the other side closed it
        self.used = 0

    # --- asking -----------------------------------------------------------------------------

    async def ask(
        self, question: bytes, *, accept: Accept | None = None, limit: int = COLLECT_MAX
    ) -> Answer:
        """Send a question and return the whole answer."""
        if self._asked is not None or self._transport is None or not self.reusable:
            raise Broken("The connection was closed.")
        self._held = 0
        self.used += 1
        future: asyncio.Future[Answer] = self._loop.create_future()
        self._asked = _Asked(future, accept, limit)
        try:
            self._transport.write(question)
            return await future
        except BaseException:
            self.close()
            raise
        finally:
            if self._asked.sink is not None:
                self._asked.sink.ended()
            self._asked = None

    def pause(self) -> None:
        if self._transport is not None and not self.paused:
            self._transport.pause_reading()
            self.paused = True

    def resume(self) -> None:
        if self._transport is not None and self.paused:
            self.paused = False
            self._transport.resume_reading()

    def soon(self, act: Callable[[], None]) -> None:
        """Do something with this line where that may be done: in its own loop."""
        if self._loop is asyncio.get_running_loop():
            act()
        else:
            self._loop.call_soon_threadsafe(act)

    def close(self) -> None:
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    def fail(self, error: Exception) -> None:
        """End the connection and what is asked on it."""
        asked, self.reusable = self._asked, False
        if asked is not None and not asked.future.done():
            asked.future.set_exception(error)
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio calls these ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def get_buffer(self, _hint: int) -> memoryview:
        asked = self._asked
        if asked is None or asked.future.done():
            return _SPARE
        # an empty one would end the connection
        if asked.chunks is not None or asked.to_end:
            return self._memory
        if asked.sink is not None:
            return asked.sink.room()[: asked.left]
        if asked.whole is not None:
            return memoryview(asked.whole)[len(asked.whole) - asked.left :]
        return self._memory[self._held :]

    def buffer_updated(self, count: int) -> None:
        self.got += count
        asked = self._asked
        if asked is None or asked.future.done():
            self.close()  # what nobody asked for
            return
        try:
            if asked.head is None:
                self._held += count
                self._read_head(asked)
            elif asked.chunks is not None or asked.to_end:
                self._gather(asked, self._memory[:count])
            elif asked.sink is not None:
                asked.left -= count
                asked.sink.took(count)
                if not asked.left:
                    self._done(asked, self._memory[:0])
            elif asked.whole is not None:
                asked.left -= count
                if not asked.left:
                    self._done(asked, memoryview(asked.whole))
            else:
                self._held += count
                self._fits(asked)
        except (Trouble, Stop) as error:
            self.fail(error)

    def eof_received(self) -> bool:
        asked = self._asked
        if asked is not None and asked.to_end and not asked.future.done():
            if asked.sink is None:
                self._done(asked, memoryview(asked.whole or b""))
            elif not asked.left:
                self._done(asked, self._memory[:0])
        return False

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        self.lost = True
        self.fail(Broken("The store closed the connection in the middle."))

    # --- reading ----------------------------------------------------------------------------

    def _read_head(self, asked: _Asked) -> None:
        while True:
            raw = bytes(self._memory[: min(self._held, HEAD_MAX)])
            end = raw.find(b"\r\n\r\n")
            if end < 0:
                if self._held >= HEAD_MAX:
                    raise Broken("The answer's head is too large.")
                return
            head = parse_head(raw[:end])
            if head.status not in _INFORMATIONAL:
                break
            left = self._held - end - 4
            self._memory[:left] = bytes(self._memory[end + 4 : self._held])
            self._held = left
        asked.head, asked.start = head, end + 4
        self._start_body(asked, head)

    def _start_body(self, asked: _Asked, head: Head) -> None:
        if head.fields.get("connection", "").lower() == "close":
            self.reusable = False
        length = length_of(head)
        rest = self._memory[asked.start : self._held]
        if head.status in _NO_BODY:
            length, rest = 0, rest[:0]
        if asked.accept is not None:
            asked.sink = asked.accept(self, head)
        if length is None:
            asked.whole = bytearray()
            asked.left = asked.sink.size if asked.sink is not None else 0
            asked.to_end = "transfer-encoding" not in head.fields
            asked.chunks = None if asked.to_end else Chunks(asked.left or asked.limit)
            self.reusable = self.reusable and not asked.to_end
            self._gather(asked, rest)
        elif asked.sink is not None:
            asked.left = length
            if len(rest) > length:
                raise Broken("More came than the answer said.")
            self._pour(asked, rest)
            if not asked.left:
                self._done(asked, self._memory[:0])
        elif length > asked.limit:
            raise Broken("The answer is larger than it may be.", Code.TOO_LARGE)
        elif asked.start + length <= MEMORY:
            asked.left = length
            self._fits(asked)
        else:
            asked.whole = bytearray(length)
            asked.whole[: len(rest)] = rest
            asked.left = length - len(rest)

    def _fits(self, asked: _Asked) -> None:
        end = asked.start + asked.left
        if self._held > end:
            raise Broken("More came than the answer said.")
        if self._held == end:
            self._done(asked, self._memory[asked.start : end])

    def _pour(self, asked: _Asked, rest: memoryview | bytearray) -> None:
        """Give to the sink what came in our own memory."""
        while len(rest) and asked.sink is not None:
            room = asked.sink.room()
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            rest = rest[count:]
            asked.left -= count
            asked.sink.took(count)

    def _gather(self, asked: _Asked, piece: memoryview) -> None:
        """Take a piece of a body whose end is told by its last chunk or by the connection's."""
        self._held = 0
        if asked.whole is None:
            return
        over = False
        if asked.chunks is None:
            asked.whole += piece
        else:
            over = asked.chunks.feed(bytes(piece), asked.whole)
        if asked.sink is None:
            if len(asked.whole) > asked.limit:
                raise Broken("The answer is larger than it may be.", Code.TOO_LARGE)
        else:
            if len(asked.whole) > asked.left or (over and len(asked.whole) < asked.left):
                count = asked.sink.size - asked.left + len(asked.whole)
                text = f"The store sends {count} bytes, and {asked.sink.size} were asked for."
                raise Trouble(Code.LENGTH, text)
            self._pour(asked, asked.whole)
            asked.whole = bytearray()
        if over:
            self._done(asked, memoryview(asked.whole))

    def _done(self, asked: _Asked, body: memoryview) -> None:
        if asked.head is not None and not asked.future.done():
            asked.future.set_result(Answer(asked.head, body))


def now() -> float:
    return time.monotonic()
