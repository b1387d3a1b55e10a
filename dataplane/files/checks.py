"""Checksums of what arrives, computed as it passes."""

from __future__ import annotations

import hashlib
import hmac
import zlib

from dataplane.files.refusals import Refusal


class Check:
    """A checksum of one piece as it passes."""

    def __init__(self, said: str) -> None:
        kind, _sep, self._wanted = said.partition("=")
        self._kind, self._crc, self._sha = kind, 0, hashlib.sha256()
        if said and kind not in {"sha256", "crc32"}:
            raise Refusal(400, "bad-request", "The checksum is sha256=… or crc32=….")

    def update(self, piece: bytes) -> None:
        if self._kind == "sha256":
            self._sha.update(piece)
        elif self._kind == "crc32":
            self._crc = zlib.crc32(piece, self._crc)

    def fits(self) -> bool:
        found = self._sha.hexdigest() if self._kind == "sha256" else f"{self._crc:08x}"
        return not self._kind or same(found, self._wanted)


def same(found: str, wanted: str) -> bool:
    """Whatever characters a sender made up."""
    return hmac.compare_digest(found.encode(), wanted.lower().encode(errors="replace"))
