"""Zips whose entries are packed by bzip2, of which a few bytes may be gigabytes (D5)."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest

from dataplane.files import extracting
from dataplane.files.names import Refusal
from dataplane.files.tree import Tree

MIB = 2**20


def zipped(contents: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_BZIP2) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return made.getvalue()


def unpack(root: Path, data: bytes) -> dict[str, Any]:
    (root / "x.zip").write_bytes(data)
    *_before, last = extracting.extract(Tree(root), "x.zip", None)
    done: dict[str, Any] = last["done"]
    return done


def test_they_come_out_as_they_went_in(tmp_path: Path) -> None:
    inside = {"one": b"1" * 300_000, "deep/two": bytes(range(256)) * 999, "none": b""}
    assert unpack(tmp_path, zipped(inside))["files"] == 3
    assert {name: (tmp_path / "x" / name).read_bytes() for name in inside} == inside


def test_d5_one_is_unpacked_in_parts(tmp_path: Path) -> None:
    size = 96 * MIB
    data = zipped({"zeros": bytes(size)})
    assert len(data) < 1000
    tracemalloc.start()
    try:
        done = unpack(tmp_path, data)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (done["bytes"], (tmp_path / "x/zeros").stat().st_size) == (size, size)
    assert most < 16 * MIB


@pytest.mark.parametrize("place", [16, 24], ids=["checksum", "size"])
def test_d5_one_that_holds_something_else_than_it_says_is_damaged(
    tmp_path: Path, place: int
) -> None:
    data = bytearray(zipped({"a": b"x" * 5000}))
    struct.pack_into("<I", data, data.rindex(b"PK\x01\x02") + place, 10)
    with pytest.raises(Refusal) as caught:
        unpack(tmp_path, bytes(data))
    assert caught.value.code == "broken-archive"
    assert not (tmp_path / "x").exists()
