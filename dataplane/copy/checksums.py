"""Checksums as stores give them. CRCs come from the AWS runtime: 50 GB/s, and they combine.

The compiled library takes 50 ms to load, so a run that reads nothing never loads it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dataplane.copy.blocks import NAME as BLOCKS
from dataplane.copy.blocks import BlockSum

Update = Callable[[Any, int], int]
Combine = Callable[[int, int, int], int]

CRCS = {"crc32c": 4, "crc64nvme": 8, "crc32": 4}  # bytes of each
HASHES = ("sha256", "sha1", "md5")
READ = 1 << 20
# How a file was verified, best first; what it is called in the manifest.
LENGTH = "length"
MULTIPART = "multipart-md5"


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
