"""Checksums as stores give them. CRCs come from the AWS runtime: 50 GB/s, and they combine.

The compiled library takes 50 ms to load, so a run that reads nothing never loads it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

BLOCKS = "md5-of-crcs"
_ALGORITHM = re.compile(r"\AMD5-of-([0-9]{1,12})MD5-of-([0-9]{1,9})(CRC32C?)\Z")
_TEXT = re.compile(r"\A(crc32c?):([0-9]{1,9}):([0-9]{1,20}):([0-9a-f]{32})\Z")
_HEADER = 24  # hex digits of two numbers before the MD5 that the algorithm's name repeats
_BUFFER = 32
Update = Callable[[Any, int], int]
Combine = Callable[[int, int, int], int]

CRCS = {"crc32c": 4, "crc64nvme": 8, "crc32": 4}  # bytes of each
HASHES = ("sha256", "sha1", "md5")
READ = 1 << 20
# How a file was verified, best first; what it is called in the manifest.
LENGTH = "length"
MULTIPART = "multipart-md5"


class Shape(NamedTuple):
    """``block`` 0: the whole file is one block."""

    crc: str
    each: int
    block: int

    def text(self, digest: str) -> str:
        return f"{self.crc}:{self.each}:{self.block}:{digest}"


def block_text_of(algorithm: str, raw: str) -> str:
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
    """The checksum that HDFS gives of a file: an MD5 of the MD5s of its blocks' CRCs.

    Every piece of so many bytes has a CRC, every block an MD5 over the CRCs of its pieces, and the
    file an MD5 over those of its blocks. What the last one is computed of has the length of
    Hadoop's own buffer: a power of two, filled up with zeros. Computed while bytes come, in order;
    used like a hash of Python's.
    """

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


def _library() -> Any:
    # Its own thread pools are never started: these are plain functions.
    from awscrt import checksums

    return checksums


def crc32c(data: Any, before: int = 0) -> int:
    return int(_library().crc32c(data, before))


def updater(name: str) -> Update:
    update: Update = getattr(_library(), name)
    return update


def combine(name: str, first: int, second: int, second_size: int) -> int:
    """Return the CRC of two pieces together."""
    function: Combine = getattr(_library(), f"combine_{name}")
    return function(first, second, second_size)


def text_of(name: str, value: int) -> str:
    """Return a CRC as stores write it: big-endian, Base64."""
    return base64.b64encode(value.to_bytes(CRCS[name], "big")).decode()


def crc_of(name: str, text: str) -> int | None:
    """Read a CRC as stores write it; None when it isn't one."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return int.from_bytes(raw, "big") if len(raw) == CRCS[name] else None


def hasher(name: str) -> Any:
    return hashlib.new(name, usedforsecurity=False)


def digest_text(name: str, digest: bytes) -> str:
    """MD5 is written in hex (ETag), the others in Base64 (checksum headers)."""
    return digest.hex() if name == "md5" else base64.b64encode(digest).decode()


class Check(NamedTuple):
    """What a file is verified with: the best sum that the store gave. ``length``: none."""

    name: str
    expected: str

    @classmethod
    def best(cls, sums: Mapping[str, str]) -> Check:
        for name in (*CRCS, *HASHES, BLOCKS):
            if name in sums:
                return cls(name, sums[name])
        return cls(LENGTH, "")

    def of_memory(self, data: Any, crc: int) -> bool:
        """Compare a whole object in memory, of which the CRC32C is known."""
        if self.name in CRCS:
            value = crc if self.name == "crc32c" else updater(self.name)(data, 0)
            return text_of(self.name, value) == self.expected
        if self.name in HASHES:
            found = hashlib.new(self.name, data, usedforsecurity=False).digest()
            return digest_text(self.name, found) == self.expected
        if (hashing := self.hasher()) is not None:
            hashing.update(data)
            return self.of_results({}, hashing)
        return True

    def updates(self) -> dict[str, Update]:
        """Return what is computed while reading: always CRC32C, for the manifest."""
        names = {"crc32c", self.name} & set(CRCS)
        return {name: updater(name) for name in names}

    def hasher(self) -> Any | None:
        if self.name == BLOCKS:
            return BlockSum.of(self.expected, updater)
        return hasher(self.name) if self.name in HASHES else None

    def of_results(self, crcs: Mapping[str, int], hashing: Any | None) -> bool:
        """Compare what was computed while reading."""
        if self.name in CRCS:
            return text_of(self.name, crcs[self.name]) == self.expected
        if isinstance(hashing, BlockSum):
            return hashing.text() == self.expected
        if hashing is not None:
            return digest_text(self.name, hashing.digest()) == self.expected
        return True


def of_file(
    fd: int, names: tuple[str, ...], start: int = 0, end: int | None = None
) -> dict[str, str]:
    """Read a file, or bytes ``start`` to ``end`` of it, and return the sums asked for."""
    crcs = {name: 0 for name in names if name in CRCS}
    updates = {name: updater(name) for name in crcs}
    hashers = {name: hasher(name) for name in names if name in HASHES}
    block = bytearray(READ)
    view = memoryview(block)
    position = start
    while end is None or position < end:
        most = READ if end is None else min(READ, end - position)
        count = os.preadv(fd, [view[:most]], position)
        if not count:
            break
        piece = view[:count]
        for name, update in updates.items():
            crcs[name] = update(piece, crcs[name])
        for hashing in hashers.values():
            hashing.update(piece)
        position += count
    found = {name: text_of(name, value) for name, value in crcs.items()}
    return found | {name: digest_text(name, h.digest()) for name, h in hashers.items()}
