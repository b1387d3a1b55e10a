"""What a download leaves beside its file."""

from pathlib import Path

from berth_cli.carrying import LONGEST, _clean

MARK = "0123456789ab"


def parts(folder: Path, *names: str) -> set[str]:
    for name in names:
        (folder / name).write_bytes(b"begun")
    return set(names)


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_only_parts_of_the_same_file_go(tmp_path: Path) -> None:
    kept = parts(
        tmp_path,
        f".data.csv.{MARK}.part",  # of data.csv, which is another file
        f".data.{MARK}.part.bak",
        f".data.{MARK[:-1]}.part",
        ".data.part",
    )
    parts(tmp_path, f".data.{MARK}.part", ".data.ba9876543210.part")
    _clean(tmp_path / "data")
    assert left(tmp_path) == kept


def test_names_with_signs_of_patterns_are_names(tmp_path: Path) -> None:
    kept = parts(tmp_path, f".a1.{MARK}.part", f".axx.{MARK}.part")
    parts(tmp_path, f".a[1]*.{MARK}.part")
    _clean(tmp_path / "a[1]*")
    assert left(tmp_path) == kept


def test_a_name_that_was_cut_does_not_tell_whose_it_is(tmp_path: Path) -> None:
    name = "n" * (LONGEST + 1)
    kept = parts(tmp_path, f".{name[:LONGEST]}.{MARK}.part")
    _clean(tmp_path / name)
    assert left(tmp_path) == kept
