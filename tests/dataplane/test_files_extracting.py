"""Unpacking beside the archive: what comes out, and what hostile archives get (D5)."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataplane.files import archives, extracting
from dataplane.files.names import Refusal
from dataplane.files.tree import Tree
from tests.support.files_served import Served, code, listed

GIB = 2**30
PACKED = ("zip", "tar", "tar.gz", "tgz", "tar.bz2", "tbz2", "tar.xz", "txz")
INSIDE = {"data/one.txt": b"one", "data/deep/er/two.bin": os.urandom(70_000), "three": b""}


def zipped(contents: dict[str, bytes], **more: Any) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, **more) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return made.getvalue()


def tarred(*members: tarfile.TarInfo | tuple[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as archive:
        for one in members:
            if isinstance(one, tarfile.TarInfo):
                archive.addfile(one, io.BytesIO(b"x" * one.size) if one.isreg() else None)
            else:
                info = tarfile.TarInfo(one[0])
                info.size = len(one[1])
                archive.addfile(info, io.BytesIO(one[1]))
    return made.getvalue()


def made(kind: str, contents: dict[str, bytes]) -> bytes:
    if kind == "zip":
        return zipped(contents)
    plain = tarred(*contents.items())
    pack: dict[str, Callable[[bytes], bytes]] = {
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "xz": lzma.compress,
    }
    end = {"tar": "", "tgz": "gz", "tbz2": "bz2", "txz": "xz"}.get(kind, kind[4:])
    return pack[end](plain) if end else plain


@pytest.fixture(params=["filtered", "before-3.11.4"])
def tree(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """With the library's filter, and as a Python that has none."""
    if request.param != "filtered":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    return Tree(tmp_path)


def unpack(tree: Tree, name: str, data: bytes, room: int | None = None) -> dict[str, Any]:
    (tree.root / name).write_bytes(data)
    *_before, last = extracting.extract(tree, name, room)
    done: dict[str, Any] = last["done"]
    return done


def refused(tree: Tree, name: str, data: bytes, room: int | None = None) -> str:
    """Return why; nothing of it may be left."""
    with pytest.raises(Refusal) as caught:
        unpack(tree, name, data, room)
    assert listed(tree.root) in ([name], [".berth", name])
    hidden = tree.root / ".berth/uploads"
    assert not hidden.exists() or listed(hidden) == []
    return caught.value.code


def contents(folder: Path) -> dict[str, bytes]:
    found = (p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    return {str(p.relative_to(folder)): p.read_bytes() for p in found}


# --- what comes out -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PACKED)
def test_it_comes_out_as_it_went_in(tree: Tree, kind: str) -> None:
    done = unpack(tree, f"set.{kind}", made(kind, INSIDE))
    assert (done["path"], done["files"], done["skipped"]) == ("set", 3, 0)
    assert done["bytes"] == sum(map(len, INSIDE.values()))
    assert contents(tree.root / "set") == INSIDE
    assert listed(tree.root / ".berth/uploads") == []


def test_it_stays_beside_what_has_its_name_and_lies_beside_its_archive(files: Served) -> None:
    (files.root / "a/set").mkdir(parents=True)
    (files.root / "a/set.tar.gz").write_bytes(made("tar.gz", INSIDE))
    done = files.lines(files.post("extract", path="a/set.tar.gz"))[-1]["done"]
    assert (done["path"], done["name"]) == ("a/set%20%282%29", "set (2)")
    assert contents(files.root / "a/set (2)") == INSIDE
    assert listed(files.root / "a/set") == []
    gone = files.post("delete", paths=[done["path"]]).json()
    assert gone["deleted"] == 1
    assert listed(files.root / "a") == ["set", "set.tar.gz"]


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("x.ZIP", "x"),
        ("x.y.zip", "x.y"),
        (".zip", "archive"),
        ("...zip", "archive"),
        (".berth.zip", "archive"),
        ("strange", "strange unpacked"),
    ],
)
def test_its_folder_is_called_after_it(tree: Tree, name: str, called: str) -> None:
    assert unpack(tree, name, zipped({"a": b"a"}))["name"] == called


def test_times_and_the_right_to_run_are_kept_and_no_other_right(tree: Tree) -> None:
    script, plain = tarfile.TarInfo("run"), tarfile.TarInfo("plain")
    script.mode, script.mtime, script.size = 0o6755, 1_000_000_000, 1
    plain.mode, plain.mtime, plain.size = 0o1777 & ~0o111, 2**60, 1
    before = os.umask(0o022)
    try:
        unpack(tree, "x.tar", tarred(script, plain, form=tarfile.PAX_FORMAT))
    finally:
        os.umask(before)
    ran = (tree.root / "x/run").stat()
    assert (stat.S_IMODE(ran.st_mode), ran.st_mtime) == (0o755, 1_000_000_000)
    assert stat.S_IMODE((tree.root / "x/plain").stat().st_mode) == 0o644


def test_streams_that_follow_one_another_are_one(tree: Tree) -> None:
    plain = tarred(*INSIDE.items())
    half = len(plain) // 2
    for end, pack in (("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)):
        unpack(tree, f"{end}.tar.{end}", pack(plain[:half]) + pack(plain[half:]))
        assert contents(tree.root / end) == INSIDE


def test_progress_is_told_and_who_goes_away_leaves_nothing(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataplane.files.tree.Beat.__call__", lambda _self: True)
    (tree.root / "x.tar.xz").write_bytes(made("txz", {"big": bytes(5 * 2**20)}))
    steps = []
    told = extracting.extract(tree, "x.tar.xz", None)
    for said in told:
        steps.append(said["progress"]["step"])
        if steps[-1] == "writing" and said["progress"]["bytes"]:
            break
    assert steps[0] == "reading"
    told.close()  # type: ignore[attr-defined]
    assert listed(tree.root / ".berth/uploads") == []
    assert listed(tree.root) == [".berth", "x.tar.xz"]


@pytest.mark.parametrize(
    "data",
    [b"", b"some words", os.urandom(5000), gzip.compress(b"a,b\n1,2")],
    ids=["nothing", "words", "noise", "a packed table"],  # each worker has noise of its own
)
def test_what_is_no_archive_is_said(tree: Tree, data: bytes) -> None:
    assert refused(tree, "x.tar.gz", data) == "not-archive"


def test_a_folder_a_link_and_what_is_not_there_are_no_archives(files: Served) -> None:
    (files.root / "d").mkdir()
    (files.root / "l").symlink_to("/etc/passwd")
    os.mkfifo(files.root / "p")
    for name, said in (("d", "is-folder"), ("l", "link"), ("p", "special"), ("no", "missing")):
        assert code(files.post("extract", path=name))[1] == said
    for path in ("../x", ".berth/x.zip", ""):
        assert code(files.post("extract", path=path))[0] in {400, 403}


def test_who_only_reads_unpacks_nothing(tmp_path: Path) -> None:
    one = Served(tmp_path, "--read-only")
    (one.root / "x.zip").write_bytes(zipped({"a": b"a"}))
    assert code(one.post("extract", path="x.zip")) == (403, "read-only")
    assert one.close() == 0


# --- D5 ---------------------------------------------------------------------------------------------


def test_d5_names_that_lead_elsewhere_are_left_out_and_named(tree: Tree) -> None:
    names = ("../out", "a/../../out", "a//b/../../../out", "good")
    for kind, data in (
        ("x.zip", zipped(dict.fromkeys((*names, "/abs/olute"), b"x"))),
        ("y.tar", tarred(*((name, b"x") for name in (*names, "/abs/olute")))),
    ):
        done = unpack(tree, kind, data)
        out = tree.root / kind[0]
        assert set(contents(out)) == {"good", "abs/olute"}
        assert {one["code"] for one in done["left_out"]} == {"bad-path"}
        assert (done["files"], done["bytes"], done["skipped"]) == (2, 2, 3)
    assert listed(tree.root) == [".berth", "x", "x.zip", "y", "y.tar"]
    assert not (tree.root.parent / "out").exists()


def test_d5_links_devices_and_pipes_are_left_out_and_named(tree: Tree, tmp_path: Path) -> None:
    odd = []
    for number, (kind, target) in enumerate(
        [
            (tarfile.SYMTYPE, "/etc"),
            (tarfile.SYMTYPE, "../.."),
            (tarfile.LNKTYPE, "../../secret"),
            (tarfile.LNKTYPE, "good"),
            (tarfile.CHRTYPE, ""),
            (tarfile.BLKTYPE, ""),
            (tarfile.FIFOTYPE, ""),
            (tarfile.CONTTYPE, ""),
        ]
    ):
        one = tarfile.TarInfo(f"odd{number}")
        one.type, one.linkname = kind, target
        odd.append(one)
    through = [("odd0/passwd", b"x"), ("odd1/out", b"x"), ("good", b"x")]
    done = unpack(tree, "x.tar", tarred(*odd, *through))
    out = tree.root / "x"
    # A link that was not made is no way: what was to go through it lies in plain folders.
    assert set(contents(out)) - {"odd7"} == {"odd0/passwd", "odd1/out", "good"}
    assert not any(p.is_symlink() or not (p.is_dir() or p.is_file()) for p in out.rglob("*"))
    assert [one["code"] for one in done["left_out"]] == ["link"] * 4 + ["other"] * 3
    assert not (tree.root.parent / "out").exists()


def test_d5_links_in_a_zip_are_left_out(tree: Tree) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("link/x", "x")
    done = unpack(tree, "x.zip", made.getvalue())
    assert done["left_out"] == [{"path": "link", "code": "link"}]
    assert contents(tree.root / "x") == {"link/x": b"x"}


def test_d5_a_file_that_is_a_folder_too_and_one_that_comes_twice(tree: Tree) -> None:
    done = unpack(tree, "x.tar", tarred(("a", b"1"), ("a/b", b"2"), ("a", b"3"), ("c", b"4")))
    assert contents(tree.root / "x") == {"a": b"1", "c": b"4"}
    assert [one["code"] for one in done["left_out"]] == ["exists", "exists"]
    assert (done["files"], done["bytes"]) == (2, 2)


def test_d5_names_that_are_too_long_or_too_deep_are_left_out(tree: Tree) -> None:
    bad = ("n" * 300, "/".join(["d"] * 101), "/".join(["e" * 200] * 30))
    done = unpack(tree, "x.tar", tarred(*((name, b"x") for name in (*bad, "ok"))))
    assert contents(tree.root / "x") == {"ok": b"x"}
    assert [one["code"] for one in done["left_out"]] == ["too-long"] * 3


def test_d5_what_has_no_room_is_refused_before_anything_is_written(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extracting, "_unpacked", lambda *_a: pytest.fail("it began to write"))
    for kind in PACKED:
        assert refused(tree, f"x.{kind}", made(kind, {"a": bytes(200_000)}), 100_000) == "quota"
        (tree.root / f"x.{kind}").unlink()
    many = made("tgz", {f"{n}": b"" for n in range(500)})
    assert refused(tree, "x.tgz", many, 1_000_000) == "quota"  # each takes a block


def test_d5_a_tar_that_claims_more_than_any_disk_is_refused_at_once(tree: Tree) -> None:
    head = tarfile.TarInfo("huge")
    head.size = 2**60
    data = head.tobuf(tarfile.GNU_FORMAT)
    for name, packed in (("x.tar", data), ("y.tar.gz", gzip.compress(data))):
        assert refused(tree, name, packed) == "disk-full"
        (tree.root / name).unlink()


def zeros(pack: str, size: int) -> bytes:
    """A stream of so many zeros behind the head of a tar, without having them in memory."""
    head = tarfile.TarInfo("zeros")
    head.size = size
    made: Any = {"gz": zlib.compressobj(9, zlib.DEFLATED, 31), "xz": lzma.LZMACompressor(preset=1)}[
        pack
    ]
    block, out = bytes(2**20), [made.compress(head.tobuf(tarfile.GNU_FORMAT))]
    out += [made.compress(block) for _ in range(size // 2**20)]
    return b"".join([*out, made.flush()])


def test_d5_a_bomb_of_zeros_is_refused_before_anything_is_written(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "_UNASKED", 2**20)
    for pack in ("gz", "xz"):
        assert refused(tree, f"x.tar.{pack}", zeros(pack, 64 * 2**20)) == "bomb"
        (tree.root / f"x.tar.{pack}").unlink()
    assert refused(tree, "x.zip", zipped({"zeros": bytes(64 * 2**20)})) == "bomb"


def test_d5_what_belongs_to_nothing_is_not_unpacked_to_its_end(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "_UNASKED", 2**20)
    data = tarred(("a", b"a")) + bytes(64 * 2**20)
    assert refused(tree, "x.tar.gz", gzip.compress(data)) == "bomb"


def test_d5_a_zip_whose_entries_share_their_bytes_is_refused(tree: Tree) -> None:
    """The one of D. Fifield: a small kernel, and many entries that all point to it."""
    data = bytearray(zipped({"kernel": os.urandom(2000) * 2}))
    at = data.rindex(b"PK\x01\x02")
    end = data.rindex(b"PK\x05\x06")
    entry = bytes(data[at:end])
    table = b"".join(entry.replace(b"kernel", f"k{n:05}".encode()) for n in range(400))
    tail = bytearray(data[end:])
    struct.pack_into("<HHI", tail, 8, 400, 400, len(table))
    assert refused(tree, "x.zip", bytes(data[:at]) + table + bytes(tail)) == "bomb"


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
def test_d5_more_entries_than_can_be_are_refused(
    tree: Tree, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives.Tar, "most", 50)
    monkeypatch.setattr(archives.Zip, "most", 50)
    data = made(kind, {f"{n}": b"" for n in range(51)})
    assert refused(tree, f"x.{kind}", data) == "archive-many"


def test_d5_a_zip_that_lies_about_its_number_of_entries_is_counted(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives.Zip, "most", 50)
    data = bytearray(zipped({f"{n}": b"" for n in range(51)}))
    struct.pack_into("<HH", data, data.rindex(b"PK\x05\x06") + 8, 1, 1)
    assert refused(tree, "x.zip", bytes(data)) == "archive-many"


def test_d5_a_header_that_would_fill_the_memory_is_refused(tree: Tree) -> None:
    for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE):
        head = tarfile.TarInfo("h")
        head.type, head.size = kind, 2**33
        data = head.tobuf(tarfile.GNU_FORMAT) + bytes(3 * 2**20)
        assert refused(tree, "x.tar", data) == "archive-odd"
        (tree.root / "x.tar").unlink()
        assert refused(tree, "x.tgz", gzip.compress(data)) == "archive-odd"
        (tree.root / "x.tgz").unlink()


def test_d5_a_dictionary_that_would_fill_the_memory_is_refused(tree: Tree) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 512 * 2**20}]
    data = lzma.compress(tarred(("a", b"a")), filters=filters)
    assert refused(tree, "x.tar.xz", data) == "broken-archive"


def test_d5_sparse_files_are_left_out(tree: Tree) -> None:
    one = tarfile.TarInfo("holes")
    one.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.name": "holes",
        "GNU.sparse.size": str(2**50),
        "GNU.sparse.map": f"0,1,{2**50},0",
    }
    one.size = 1
    done = unpack(tree, "x.tar", tarred(one, ("good", b"x")))
    assert contents(tree.root / "x") == {"good": b"x"}
    assert [left["code"] for left in done["left_out"]] == ["other"]


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tar.bz2", "tar.xz"])
def test_d5_half_an_archive_leaves_nothing(tree: Tree, kind: str) -> None:
    data = made(kind, {"a": os.urandom(300_000), "b": os.urandom(300_000)})
    assert refused(tree, f"x.{kind}", data[: len(data) * 2 // 3]) == "broken-archive"


def test_d5_a_flipped_bit_leaves_nothing(tree: Tree) -> None:
    for kind in ("zip", "tar.gz", "tar.bz2", "tar.xz"):
        data = bytearray(made(kind, {"a": os.urandom(1_200_000)}))
        data[-2000] ^= 1
        assert refused(tree, f"x.{kind}", bytes(data)) == "broken-archive"
        (tree.root / f"x.{kind}").unlink()


def test_d5_a_zip_that_says_less_than_it_holds_is_damaged(tree: Tree) -> None:
    data = bytearray(zipped({"a": b"x" * 5000}))
    struct.pack_into("<I", data, data.rindex(b"PK\x01\x02") + 24, 10)
    assert refused(tree, "x.zip", bytes(data)) == "broken-archive"


def test_d5_what_is_locked_or_packed_in_another_way_is_left_out(tree: Tree) -> None:
    data = bytearray(zipped({"locked": b"x" * 100, "ok": b"y"}))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + at] |= 1
    done = unpack(tree, "x.zip", bytes(data))
    assert (done["left_out"], contents(tree.root / "x")) == (
        [{"path": "locked", "code": "locked"}],
        {"ok": b"y"},
    )
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("other", b"x")
    done = unpack(tree, "y.zip", made.getvalue())
    assert [one["code"] for one in done["left_out"]] == ["not-possible"]


def test_d5_one_that_grows_while_it_is_read_is_refused(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tree.root / "x.tar"
    real = extracting._unpacked

    def later(*given: Any) -> Any:
        path.write_bytes(tarred(("a", b"x" * 20_000), ("b", b"x" * 50_000)))
        return real(*given)

    monkeypatch.setattr(extracting, "_unpacked", later)
    assert refused(tree, "x.tar", tarred(("a", b"x" * 20_000))) == "changed"


def test_d5_a_full_disk_leaves_nothing(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    def full(*_given: Any) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(extracting.os, "write", full)
    (tree.root / "x.zip").write_bytes(zipped({"a": b"a"}))
    with pytest.raises(OSError, match="full"):
        list(extracting.extract(tree, "x.zip", None))
    assert listed(tree.root / ".berth/uploads") == []
    assert listed(tree.root) == [".berth", "x.zip"]
