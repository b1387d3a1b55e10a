"""Zips as other programs write them."""

from __future__ import annotations

import zipfile


class Unmarked(zipfile.ZipInfo):
    """An entry as another program writes it: the bytes of its name, and no mark."""

    def __init__(self, raw: bytes) -> None:
        super().__init__(raw.decode("cp437"))
        self.raw = raw

    def _encodeFilenameFlags(self) -> tuple[bytes, int]:  # noqa: N802 - the library's name
        return self.raw, self.flag_bits
