"""Heads and frames of HTTP/1.1 answers: read strictly, bounded, without input or output."""

from __future__ import annotations

from typing import NamedTuple

from dataplane.copy.problems import Code, Trouble

HEAD_MAX = 65536
_SIZE_DIGITS = 18


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
