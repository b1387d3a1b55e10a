"""The checksum that HDFS gives of a file: an MD5 of the MD5s of its blocks' CRCs.

Every piece of so many bytes has a CRC, every block an MD5 over the CRCs of its pieces, and the
file an MD5 over those of its blocks. What the last one is computed of has the length of Hadoop's
own buffer: a power of two, filled up with zeros.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple, Self

NAME = "md5-of-crcs"
_ALGORITHM = re.compile(r"\AMD5-of-([0-9]{1,12})MD5-of-([0-9]{1,9})(CRC32C?)\Z")
_TEXT = re.compile(r"\A(crc32c?):([0-9]{1,9}):([0-9]{1,20}):([0-9a-f]{32})\Z")
_HEADER = 24  # hex digits of two numbers before the MD5 that the algorithm's name repeats
_BUFFER = 32


class Shape(NamedTuple):
    """``block`` 0: the whole file is one block."""

    crc: str
    each: int
    block: int

    def text(self, digest: str) -> str:
        return f"{self.crc}:{self.each}:{self.block}:{digest}"


def text_of(algorithm: str, raw: str) -> str:
    """Return a checksum of HDFS as the text of ours; "" where it is of another kind."""
    found = _ALGORITHM.match(algorithm)
    digest = raw[_HEADER : _HEADER + 32].lower()
    if found is None or not re.fullmatch("[0-9a-f]{32}", digest):
        return ""
    count, each = int(found[1]), int(found[2])
    return Shape(found[3].lower(), each, count * each).text(digest) if each else ""


def block_of(text: str) -> int:
    """Return how long each block but the last is; 0: there is one only."""
    found = _TEXT.match(text)
    return int(found[3]) if found else 0


class BlockSum:
    """Computes it while bytes come, in order; used like a hash of Python's."""

    def __init__(self, shape: Shape, update: Callable[[Any, int], int]) -> None:
        self._shape = shape
        self._update = update
        self._rest = b""  # of a piece that is not complete
        self._in_block = 0
        self._md5 = _md5()
        self._blocks: list[bytes] = []

    @classmethod
    def of(cls, text: str, updater: Callable[[str], Callable[[Any, int], int]]) -> Self:
        found = _TEXT.match(text)
        if found is None or not int(found[2]):
            raise ValueError(text)
        shape = Shape(found[1], int(found[2]), int(found[3]))
        return cls(shape, updater(shape.crc))

    def update(self, data: Any) -> None:
        view = memoryview(data)
        while view:
            most = self._shape.block - self._in_block if self._shape.block else len(view)
            self._take(view[:most])
            view = view[most:]
            if self._in_block == self._shape.block:
                self._end_block()

    def text(self) -> str:
        """Return it; nothing comes any more."""
        if self._in_block or not self._blocks:
            self._end_block()
        joined = b"".join(self._blocks)
        size = _BUFFER
        while size < len(joined):
            size *= 2
        return self._shape.text(_md5(joined.ljust(size, b"\0")).hexdigest())

    def _take(self, view: memoryview) -> None:
        self._in_block += len(view)
        each = self._shape.each
        if self._rest:
            missing = each - len(self._rest)
            self._rest += view[:missing]
            view = view[missing:]
            if len(self._rest) < each:
                return
            self._sum(memoryview(self._rest))
        whole = len(view) - len(view) % each
        self._sum(view[:whole])
        self._rest = bytes(view[whole:])

    def _sum(self, view: memoryview) -> None:
        each, update = self._shape.each, self._update
        crcs = [
            update(view[at : at + each], 0).to_bytes(4, "big") for at in range(0, len(view), each)
        ]
        self._md5.update(b"".join(crcs))

    def _end_block(self) -> None:
        self._sum(memoryview(self._rest))
        self._rest, self._in_block = b"", 0
        self._blocks.append(self._md5.digest())
        self._md5 = _md5()


def _md5(data: bytes = b"") -> Any:
    return hashlib.md5(data, usedforsecurity=False)
