"""The file browser's server as a real process: what it shows and carries out."""

from __future__ import annotations

import io
import json
import os
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.files_served import Served, code

# --- files out ---------------------------------------------------------------------------------


def test_a_file_or_a_part_of_it(files: Served) -> None:
    data = os.urandom(3_000_001)
    (files.root / "big.bin").write_bytes(data)
    ask = {"path": "big.bin"}
    whole = files.http.get("/file", params=ask)
    assert whole.content == data
    assert whole.headers["content-disposition"] == "attachment; filename*=UTF-8''big.bin"
    mark = whole.headers["etag"]
    part = files.http.get("/file", params=ask, headers={"Range": "bytes=1000-1999"})
    assert (part.status_code, part.content) == (206, data[1000:2000])
    assert part.headers["content-range"] == f"bytes 1000-1999/{len(data)}"
    tail = files.http.get("/file", params=ask, headers={"Range": "bytes=-5", "If-Range": mark})
    assert tail.content == data[-5:]
    old = files.http.get("/file", params=ask, headers={"Range": "bytes=5-", "If-Range": '"old"'})
    assert (old.status_code, len(old.content)) == (200, len(data))
    assert files.http.get("/file", params=ask, headers={"If-None-Match": mark}).status_code == 304
    over = files.http.get("/file", params=ask, headers={"Range": "bytes=9999999-"})
    assert (over.status_code, over.headers["content-range"]) == (416, f"bytes */{len(data)}")
    head = files.http.head("/file", params=ask)
    assert (head.headers["content-length"], head.content) == (str(len(data)), b"")


def test_a_folder_or_a_selection_comes_as_a_zip(files: Served, tmp_path: Path) -> None:
    (files.root / "d/e").mkdir(parents=True)
    (files.root / "d/e/deep.bin").write_bytes(b"deep" * 100_000)
    (files.root / "d/ü 漢.txt").write_text("text")
    (files.root / "d/link").symlink_to("/etc/passwd")
    (files.root / "d/empty").mkdir()
    (files.root / "other").write_text("other")
    answer = files.http.get("/zip", params={"path": "d"})
    assert answer.headers["content-disposition"].endswith("d.zip")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as found:
        assert found.testzip() is None
        names = sorted(found.namelist())
        assert names == [
            *("_not-in-this-archive.txt", "d/", "d/e/", "d/e/deep.bin", "d/empty/", "d/ü 漢.txt"),
        ]
        assert found.read("d/e/deep.bin") == b"deep" * 100_000
        assert "a link, never followed\td/link" in found.read("_not-in-this-archive.txt").decode()
    kept = files.post("selection", paths=["other", "d/e"]).json()["id"]
    chosen = files.http.get("/zip", params={"selection": kept})
    with zipfile.ZipFile(io.BytesIO(chosen.content)) as found:
        assert sorted(found.namelist()) == ["e/", "e/deep.bin", "other"]
    path = tmp_path / "x.zip"
    path.write_bytes(answer.content)
    assert subprocess.run(["unzip", "-tq", path], check=False, capture_output=True).returncode == 0


def test_a_zip_that_breaks_does_not_look_whole(files: Served) -> None:
    (files.root / "big").write_bytes(os.urandom(40 << 20))
    with files.http.stream("GET", "/zip") as answer:
        parts = answer.iter_raw(65536)
        next(parts)
        files.process.kill()
        with pytest.raises(httpx.TransportError):
            list(parts)


# --- previews ----------------------------------------------------------------------------------


def preview(files: Served, name: str, data: bytes) -> dict[str, Any]:
    (files.root / name).write_bytes(data)
    said = files.http.get("/preview", params={"path": name})
    assert said.status_code == 200, said.text
    return dict(said.json())


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("plain ü".encode(), "utf-8"),
        ("日本語のテキスト、長い文。".encode("cp932"), "shift_jis"),
        ("日本語のテキスト、長い文。".encode("euc_jp"), "euc_jp"),
        ("wide".encode("utf-16"), "utf-16"),
        ("caf\xe9 cr\xe8me".encode("latin-1"), "windows-1252"),
    ],
)
def test_text_is_shown_with_its_encoding(files: Served, data: bytes, encoding: str) -> None:
    said = preview(files, "t.txt", data)
    assert (said["kind"], said["encoding"]) == ("text", encoding)
    assert said["text"] == data.decode({"windows-1252": "cp1252"}.get(encoding, encoding))


def test_only_the_beginning_of_a_long_text_is_shown(files: Served) -> None:
    said = preview(files, "long", "é".encode() * 1_000_000)
    assert said["truncated"] is True
    assert len(said["text"]) == 131_072
    assert preview(files, "bin", bytes(range(256)))["kind"] == "binary"


PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452") + b"\0" * 40


def test_pictures_are_told_by_their_first_bytes(files: Served) -> None:
    assert preview(files, "x.txt", PNG)["type"] == "image/png"
    raw = files.http.get("/raw", params={"path": "x.txt"})
    assert (raw.headers["content-type"], raw.content) == ("image/png", PNG)
    said = preview(files, "evil.png", b"<script>alert(1)</script>")
    assert said["kind"] == "text"
    assert files.http.get("/raw", params={"path": "evil.png"}).status_code == 415
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
    assert preview(files, "x.svg", svg)["kind"] == "text"


def test_b3_a_notebook_becomes_plain_cells(files: Served) -> None:
    import base64

    html = "<script>alert(1)</script>"
    outputs = [
        {"output_type": "stream", "text": ["one\n", "\x1b[31mred\x1b[0m"]},
        {"output_type": "display_data", "data": {"text/html": html, "text/plain": "plain"}},
        {"output_type": "display_data", "data": {"text/html": html}},
        {"output_type": "display_data", "data": {"image/svg+xml": html}},
        {"output_type": "display_data", "data": {"image/png": base64.b64encode(PNG).decode()}},
        {"output_type": "display_data", "data": {"image/png": base64.b64encode(b"no").decode()}},
        {"output_type": "error", "traceback": ["\x1b[0;31mBoom\x1b[0m"]},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", html]},
        {"cell_type": "code", "execution_count": 3, "source": "print(1)", "outputs": outputs},
        {"cell_type": "weird", "source": 7},
        "no cell",
    ]
    said = preview(files, "n.ipynb", json.dumps({"cells": cells, "metadata": 1}).encode())
    assert said["kind"] == "notebook"
    assert [c["type"] for c in said["cells"]] == ["markdown", "code", "raw"]
    got = said["cells"][1]["outputs"]
    assert [o["type"] for o in got] == [
        "text",
        "text",
        "omitted",
        "omitted",
        "image",
        "omitted",
        "error",
    ]
    assert got[0]["text"] == "one\nred"
    assert html not in json.dumps(got)
    for bad in (b"{", b"[]", b'{"cells": 3}', b"[" * 100_000):
        assert preview(files, "bad.ipynb", bad)["kind"] == "text"


# --- questions ---------------------------------------------------------------------------------


def test_what_takes_room_is_told_by_folder(files: Served) -> None:
    for name, size in (("large", 2_000_000), ("small", 1000)):
        (files.root / name / "x").mkdir(parents=True)
        (files.root / name / "x/f").write_bytes(b"x" * size)
    os.link(files.root / "large/x/f", files.root / "large/x/again")
    (files.root / "one").write_bytes(b"y" * 30_000)
    done = files.lines(files.http.get("/usage"))[-1]["done"]
    assert [e["name"] for e in done["entries"]] == ["large", "one", "small"]
    assert done["entries"][0]["bytes"] == 2_000_000  # two names, one file
    assert done["total"]["bytes"] == 2_031_000
    assert done["complete"] is True
    below = files.lines(files.http.get("/usage", params={"path": "large"}))[-1]["done"]
    assert below["entries"][0]["path"] == "large/x"


def test_names_are_found_below_a_folder(files: Served) -> None:
    (files.root / "a/b").mkdir(parents=True)
    for name in ("a/Report.CSV", "a/b/report-2.csv", "other"):
        (files.root / name).write_text("")
    said = files.lines(files.http.get("/search", params={"q": "report"}))
    found = sorted(e["path"] for line in said for e in line["entries"])
    assert found == ["a/Report.CSV", "a/b/report-2.csv"]
    said = files.lines(files.http.get("/search", params={"q": "*.CSV", "path": "a/b"}))
    assert [e["path"] for line in said for e in line["entries"]] == ["a/b/report-2.csv"]
    assert code(files.http.get("/search", params={"q": " "})) == (400, "bad-request")


def test_a_walk_ends_when_nobody_reads_it(files: Served) -> None:
    for number in range(300):
        (files.root / f"d{number}").mkdir()
    for _ in range(12):  # more than may walk at once
        with files.http.stream("GET", "/usage") as answer:
            assert answer.status_code == 200
    assert files.lines(files.http.get("/usage"))[-1]["done"]["complete"] is True
