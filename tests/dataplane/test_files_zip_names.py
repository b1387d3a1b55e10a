"""Names in a zip that are not marked as UTF-8: read alike, and it is said how."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

from dataplane.files import extracting
from dataplane.files.tree import Tree
from tests.support.files_served import listed
from tests.support.zips import Unmarked


def unpacked(tree: Path, *names: bytes | str) -> dict[str, Any]:
    """Unpack ``x.zip``: bytes are a name without a mark, words one that Python writes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            archive.writestr(Unmarked(name) if isinstance(name, bytes) else name, b"x")
    (tree / "x.zip").write_bytes(made.getvalue())
    *_before, last = extracting.extract(Tree(tree), "x.zip", None)
    done: dict[str, Any] = last["done"]
    return done


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("データ.csv", "cp932"),
        ("実験結果/画像.png", "cp932"),
        ("図1.png", "cp932"),  # one alone: its second byte is no letter
        ("表一覧・最終版.txt", "cp932"),  # a second byte that is a backslash
        ("テスト.txt", "cp932"),  # all second bytes are letters
        ("2025年度.xlsx", "cp932"),
        ("①さくら㈱.txt", "cp932"),  # signs that only machines of some makers have
        ("Report 2025年版 (final).pdf", "cp932"),
        ("データ.csv", "utf-8"),
        ("schön/é.txt", "utf-8"),
        ("zażółć.txt", "utf-8"),
    ],
)
def test_a_name_without_a_mark(tmp_path: Path, name: str, encoding: str) -> None:
    done = unpacked(tmp_path, name.encode(encoding), b"plain.txt")
    assert done["names"] == encoding
    assert (tmp_path / "x" / name).is_file()
    assert (tmp_path / "x/plain.txt").is_file()


@pytest.mark.parametrize(
    "name",
    [
        *("café.txt", "naïve.txt", "schön.txt", "Noël.txt", "père et mère.txt", "pâte.txt"),
        *("über.txt", "Öl.txt", "Köln/Größe.txt", "Ærø.txt", "año.txt", "Århus ö.txt"),
        *("Größe.txt", "Straße.txt", "tschüß.txt", "crème brûlée.txt", "coração.txt", "déjà_1.txt"),
    ],
)
def test_western_names_are_not_taken_for_japanese(tmp_path: Path, name: str) -> None:
    for encoding in ("cp437", "cp850", "cp1252"):
        if _packs(name, encoding):
            assert unpacked(tmp_path, name.encode(encoding))["names"] == "cp437", encoding


@pytest.mark.parametrize(
    ("name", "encoding"),
    [("Привет.txt", "cp866"), ("测试数据.txt", "gbk"), ("한글.txt", "euc-kr"), ("测试.txt", "gbk")],
)
def test_what_nobody_can_tell_is_read_as_the_format_lays_down(
    tmp_path: Path, name: str, encoding: str
) -> None:
    raw = name.encode(encoding)
    assert unpacked(tmp_path, raw)["names"] == "cp437"
    assert listed(tmp_path / "x") == [raw.decode("cp437")]


def test_a_mark_is_believed_and_plain_names_need_none(tmp_path: Path) -> None:
    assert unpacked(tmp_path, "データ.csv", b"plain.txt")["names"] == ""
    assert listed(tmp_path / "x") == ["plain.txt", "データ.csv"]


def test_a_marked_name_beside_others_stays_as_it_is(tmp_path: Path) -> None:
    assert unpacked(tmp_path, "一覧.csv", "画像.png".encode("cp932"))["names"] == "cp932"
    assert listed(tmp_path / "x") == ["一覧.csv", "画像.png"]


def test_one_archive_is_read_in_one_way(tmp_path: Path) -> None:
    """Half of it could be UTF-8, all of it can't: so none is."""
    japanese, other = "データ".encode("cp932"), "データ".encode()
    done = unpacked(tmp_path, japanese, other)
    assert done["names"] == "cp437"
    assert listed(tmp_path / "x") == sorted(raw.decode("cp437") for raw in (japanese, other))


def test_names_that_become_one_are_left_out_and_named(tmp_path: Path) -> None:
    """The makers of machines gave one kanji two places."""
    twice = [b"\xed\x40\xed\x41.txt", b"\xfa\x5c\xfa\x5d.txt"]
    assert len({raw.decode("cp932") for raw in twice}) == 1
    done = unpacked(tmp_path, *twice)
    assert (done["names"], done["files"], done["skipped"]) == ("cp932", 1, 1)
    assert [one["code"] for one in done["left_out"]] == ["exists"]


def test_d5_a_name_that_leads_elsewhere_does_so_in_no_encoding(tmp_path: Path) -> None:
    packed = ["データ/../../../外へ.txt".encode("cp932"), "データ.csv".encode("cp932")]
    done = unpacked(tmp_path, *packed)
    assert [one["code"] for one in done["left_out"]] == ["bad-path"]
    assert listed(tmp_path / "x") == ["データ.csv"]
    assert listed(tmp_path) == [".berth", "x", "x.zip"]


def _packs(name: str, encoding: str) -> bool:
    try:
        name.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
