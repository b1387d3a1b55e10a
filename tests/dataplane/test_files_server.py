"""The file browser's server as a real process: what it shows, carries, changes and refuses."""

from __future__ import annotations

import ctypes
import hashlib
import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-token-of-this-test"
PERSON = {"X-Berth-Person": "p1"}


class Served:
    """One server of one volume."""

    def __init__(self, base: Path, *words: str) -> None:
        self.root = base / "data"
        self.root.mkdir(exist_ok=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "dataplane.files", "--root", "data"),
                *("--port", str(self.port), *words),
            ],
            cwd=ROOT,
            env={
                "BERTH_FILES_TOKEN": TOKEN,
                "BERTH_VOLUMES": str(base),
                "PATH": os.environ["PATH"],
            },
        )
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            headers={"Authorization": f"Bearer {TOKEN}", **PERSON},
            timeout=60,
            trust_env=False,
        )
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                if self.http.get("/livez").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.02)
        pytest.fail("it never answered")

    def post(self, act: str, **said: Any) -> httpx.Response:
        return self.http.post(f"/{act}", json=said)

    def lines(self, answer: httpx.Response) -> list[dict[str, Any]]:
        return [json.loads(line) for line in answer.text.splitlines()]

    def names(self, path: str = "", **query: Any) -> list[str]:
        said = self.http.get("/list", params={"path": path, **query}).json()
        return [entry["name"] for entry in said["entries"]]

    def close(self) -> int:
        self.http.close()
        self.process.terminate()
        return self.process.wait(10)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Served]:
    one = Served(tmp_path)
    yield one
    one.close()


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json().get("code", "")


# --- who, and how it lives -------------------------------------------------------------------


def test_only_the_gate_may_ask(files: Served) -> None:
    (files.root / "a").write_text("x")
    bare = httpx.Client(base_url=files.http.base_url, trust_env=False)
    for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": TOKEN}):
        for act in ("list", "file?path=a", "uploads"):
            assert bare.get(f"/{act}", headers=headers).status_code == 401
    assert bare.get("/livez").json() == {"ok": True}


def test_it_is_small_starts_at_once_and_ends_when_asked(tmp_path: Path) -> None:
    begun = time.monotonic()
    one = Served(tmp_path)
    took = time.monotonic() - begun
    (one.root / "a").write_bytes(os.urandom(1 << 20))
    assert one.http.get("/file", params={"path": "a"}).status_code == 200
    status = Path(f"/proc/{one.process.pid}/status").read_text()
    rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    assert rss < 48 * 1024
    assert took < 5
    assert one.close() == 0


@pytest.mark.parametrize("root", ["..", "a/b", "", "none"])
def test_only_a_volume_by_its_name_is_served(tmp_path: Path, root: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dataplane.files", "--root", root, "--port", "1"],
        cwd=ROOT,
        env={"BERTH_FILES_TOKEN": TOKEN, "BERTH_VOLUMES": str(tmp_path)},
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1


# --- lists -------------------------------------------------------------------------------------


def test_a_folder_is_listed_in_pages_in_any_order(files: Served) -> None:
    for name, size in (("run 10", 1), ("run 2", 300), ("B.txt", 20)):
        (files.root / name).write_bytes(b"x" * size)
    (files.root / "folder").mkdir()
    assert files.names() == ["folder", "B.txt", "run 2", "run 10"]
    assert files.names(order="desc") == ["folder", "run 10", "run 2", "B.txt"]
    assert files.names(sort="size", order="desc") == ["folder", "run 2", "B.txt", "run 10"]
    assert files.names(offset=1, limit=2) == ["B.txt", "run 2"]
    said = files.http.get("/list").json()
    assert (said["total"], said["truncated"], said["parts"]) == (4, False, [])
    assert code(files.http.get("/list", params={"sort": "colour"})) == (400, "bad-sort")
    below = files.http.get("/list", params={"path": "folder"}).json()
    assert below["parts"] == [{"name": "folder", "path": "folder"}]


def test_a_hundred_thousand_entries_come_in_pages(files: Served) -> None:
    made = files.root / "many"
    made.mkdir()
    for number in range(100_000):
        os.close(os.open(made / f"{number:06}", os.O_CREAT | os.O_WRONLY))
    os.utime(made, (1, 1))
    begun = time.monotonic()
    said = files.http.get("/list", params={"path": "many", "limit": 200}).json()
    first = time.monotonic() - begun
    assert (said["total"], len(said["entries"])) == (100_000, 200)
    assert said["entries"][7]["name"] == "000007"
    begun = time.monotonic()
    last = files.http.get("/list", params={"path": "many", "offset": 99_990}).json()
    assert [e["name"] for e in last["entries"]][-1] == "099999"
    assert first < 10
    assert time.monotonic() - begun < max(first / 2, 0.2)  # the order was kept


def test_what_is_new_shows_at_once(files: Served) -> None:
    for number in range(20):
        (files.root / f"n{number}").write_text("")
        assert f"n{number}" in files.names()
        (files.root / f"n{number}").unlink()
        assert f"n{number}" not in files.names()


# --- hostile names and things ------------------------------------------------------------------

HOSTILE = [
    b"a\nb",
    b"-rf",
    b"<img src=x onerror=alert(1)>",
    b"\xff\xfe",
    "ü 漢".encode(),
    b"..x",
    b"a%2fb\\",
    "\u202egnp.exe".encode(),
    b"x" * 255,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_d1_names_of_any_bytes_go_there_and_back(files: Served, name: bytes) -> None:
    path = quote_from_bytes(b"dir/" + name)
    assert files.post("mkdir", path="dir").status_code == 201
    put = files.http.put("/file", params={"path": path}, content=b"inside")
    assert put.status_code == 201, put.text
    assert listed(files.root / "dir") == [os.fsdecode(name)]
    (entry,) = files.http.get("/list", params={"path": "dir"}).json()["entries"]
    assert entry["path"] == path
    assert not {"\n", "\u202e"} & set(entry["name"])  # nothing that turns a name around
    assert files.http.get("/file", params={"path": path}).content == b"inside"
    assert files.post("rename", path=path, to="plain").status_code == 200
    assert files.post("rename", path="plain", to=path).status_code == 200
    assert files.post("delete", paths=[path]).json()["deleted"] == 1
    assert files.names("dir") == []


@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "..", "%2e%2e/x", "a%00b", "/..", "x/" * 3000]
)
def test_d1_no_path_leads_out(files: Served, path: str) -> None:
    for act in ("list", "stat", "file", "preview", "usage"):
        assert files.http.get(f"/{act}", params={"path": path}).status_code == 400
    assert files.http.put("/file", params={"path": path}, content=b"1").status_code == 400
    for act in ("mkdir", "rename"):
        assert files.post(act, path=path, to="y").status_code == 400
    assert files.post("rename", path="y", to=path).status_code == 400
    assert files.post("delete", paths=[path]).status_code == 400


def test_d1_links_are_shown_and_never_followed(files: Served, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (files.root / "out").symlink_to(outside)
    (files.root / "file").symlink_to(outside / "secret")
    (files.root / "mine").write_text("mine")
    (files.root / "near").symlink_to("mine")
    listed = {e["name"]: e for e in files.http.get("/list").json()["entries"]}
    assert listed["out"]["kind"] == "link"
    assert listed["out"]["target"] == str(outside)
    for path in ("file", "out/secret", "near"):
        assert files.http.get("/file", params={"path": path}).status_code == 403
        assert files.http.get("/preview", params={"path": path}).status_code == 403
    for answer in (
        files.http.get("/list", params={"path": "out"}),
        files.http.put("/file", params={"path": "out/x"}, content=b"1"),
        files.post("mkdir", path="out/y"),
        files.post("mkdir", path="out/y/z", parents=True),
        files.post("rename", path="mine", to="out/mine"),
    ):
        assert answer.status_code in {403, 409}, answer.text
    assert sorted(p.name for p in outside.iterdir()) == ["secret"]
    assert files.post("delete", paths=["out"]).status_code == 200  # the link, not what it names
    assert (outside / "secret").exists()


def test_pipes_and_devices_are_never_opened(files: Served) -> None:
    os.mkfifo(files.root / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(files.root / "sock"))
    begun = time.monotonic()
    for name in ("pipe", "sock"):
        for act in ("file", "preview", "raw"):
            assert code(files.http.get(f"/{act}", params={"path": name})) == (409, "special")
    with zipfile.ZipFile(io.BytesIO(files.http.get("/zip").content)) as found:
        assert found.namelist() == ["_not-in-this-archive.txt"]
        assert b"pipe" in found.read("_not-in-this-archive.txt")
    assert time.monotonic() - begun < 5


def test_what_is_berths_own_is_hidden_and_protected(files: Served) -> None:
    files.post("uploads", path="a", size=3)
    assert (files.root / ".berth").is_dir()
    assert files.names() == []
    for answer in (
        files.http.get("/list", params={"path": ".berth"}),
        files.http.get("/file", params={"path": ".berth/uploads/x"}),
        files.http.put("/file", params={"path": ".berth/x"}, content=b""),
        files.post("delete", paths=[".berth"]),
        files.post("rename", path=".berth", to="b"),
        files.post("rename", path="a", to="./.berth/b"),
    ):
        assert code(answer) == (403, "berth-own")
    assert files.lines(files.http.get("/search", params={"q": "uploads"}))[-1]["done"]["hits"] == 0


def test_a_race_of_renames_never_lists_or_reads_outside(files: Served, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("outside")
    (files.root / "real").mkdir()
    (files.root / "real/f").write_text("inside")
    (files.root / "link").symlink_to(outside)
    over = threading.Event()

    def swap() -> None:
        libc, exchange = ctypes.CDLL(None), 2
        old, new = os.fsencode(files.root / "real"), os.fsencode(files.root / "link")
        while not over.is_set():
            libc.renameat2(-100, old, -100, new, exchange)

    racing = threading.Thread(target=swap)
    racing.start()
    try:
        got = {files.http.get("/file", params={"path": "real/f"}).content for _ in range(300)}
        for _ in range(50):
            files.http.put(
                "/file", params={"path": "real/new", "conflict": "replace"}, content=b"1"
            )
    finally:
        over.set()
        racing.join()
    assert b"inside" in got
    assert b"outside" not in got
    assert sorted(p.name for p in outside.iterdir()) == ["f"]


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


# --- uploads -----------------------------------------------------------------------------------


def test_an_upload_goes_on_where_it_was_also_after_a_restart(tmp_path: Path) -> None:
    one = Served(tmp_path)
    data = os.urandom(5_000_000)
    asked = {"path": "new/folder/big", "size": len(data), "mark": "big-1", "modified": 1e9}
    made = one.post("uploads", **asked).json()
    url = f"/uploads/{made['id']}"
    got = one.http.patch(url, params={"offset": 0}, content=data[:2_000_000])
    assert got.json()["offset"] == 2_000_000
    assert code(one.http.patch(url, params={"offset": 5}, content=b"x")) == (409, "offset")
    assert code(one.post(f"uploads/{made['id']}/finish")) == (409, "offset")
    one.process.kill()
    one.process.wait()
    assert not (one.root / "new").exists()
    two = Served(tmp_path)
    again = two.post("uploads", **asked).json()
    assert (again["id"], again["offset"]) == (made["id"], 2_000_000)
    (mine,) = two.http.get("/uploads").json()["uploads"]
    assert (mine["id"], mine["path"], mine["mark"]) == (made["id"], "new/folder/big", "big-1")
    two.http.patch(url, params={"offset": 2_000_000}, content=data[2_000_000:])
    digest = hashlib.sha256(data).hexdigest()
    done = two.lines(two.post(f"uploads/{made['id']}/finish", sha256=digest))[-1]
    assert done["done"]["path"] == "new/folder/big"
    assert (two.root / "new/folder/big").read_bytes() == data
    assert (two.root / "new/folder/big").stat().st_mtime == 1e9
    assert list((two.root / ".berth/uploads").iterdir()) == []
    two.close()


def test_a_damaged_piece_counts_for_nothing(files: Served) -> None:
    made = files.post("uploads", path="a", size=6).json()
    url, first = f"/uploads/{made['id']}", {"offset": 0}
    bad = {"X-Berth-Checksum": f"crc32={zlib.crc32(b'abX'):08x}"}
    assert code(files.http.patch(url, params=first, content=b"abc", headers=bad)) == (
        409,
        "checksum",
    )
    assert files.http.get(url).json()["offset"] == 0
    good = {"X-Berth-Checksum": f"sha256={hashlib.sha256(b'abc').hexdigest()}"}
    assert files.http.patch(url, params=first, content=b"abc", headers=good).status_code == 200
    assert files.http.patch(url, params={"offset": 3}, content=b"def").json()["offset"] == 6
    assert code(files.post(f"uploads/{made['id']}/finish", sha256="0" * 64))[1] == "checksum"
    assert not (files.root / "a").exists()
    assert code(files.http.get(url)) == (404, "no-upload")


def test_an_upload_is_its_persons_and_no_larger_than_announced(files: Served) -> None:
    made = files.post("uploads", path="a", size=3).json()
    other = {"X-Berth-Person": "p2"}
    url = f"/uploads/{made['id']}"
    assert files.http.get(url, headers=other).status_code == 404
    assert files.http.get("/uploads", headers=other).json() == {"uploads": []}
    assert code(files.http.patch(url, params={"offset": 0}, content=b"1234")) == (413, "too-large")
    assert files.http.delete(url).status_code == 200
    assert files.http.get(url).status_code == 404
    for size in (-1, "3", None, True, 1.5):
        assert files.post("uploads", path="a", size=size).status_code == 400


def test_a_note_that_a_tenant_forged_leads_nowhere(files: Served, tmp_path: Path) -> None:
    made = files.post("uploads", path="a", size=1).json()
    note = files.root / f".berth/uploads/{made['id']}.json"
    said = json.loads(note.read_text())
    for path in ("../../outside", ".berth/x"):
        note.write_text(json.dumps({**said, "path": path}))
        assert files.post(f"uploads/{made['id']}/finish").status_code >= 400
    note.unlink()
    note.symlink_to("/etc/passwd")
    assert files.http.get(f"/uploads/{made['id']}").status_code == 404
    note.unlink()
    os.mkfifo(note)
    assert files.http.get(f"/uploads/{made['id']}").status_code == 404
    assert files.http.get("/uploads").json() == {"uploads": []}


@pytest.mark.parametrize(
    ("conflict", "status", "names"),
    [
        ("refuse", 409, ["a.txt"]),
        ("replace", 201, ["a.txt"]),
        ("keep-both", 201, ["a (2).txt", "a.txt"]),
    ],
)
def test_what_is_there_is_replaced_only_when_asked(
    files: Served, conflict: str, status: int, names: list[str]
) -> None:
    (files.root / "a.txt").write_text("old")
    put = files.http.put("/file", params={"path": "a.txt", "conflict": conflict}, content=b"new")
    assert put.status_code == status
    assert files.names() == names
    expected = "new" if conflict == "replace" else "old"
    assert (files.root / "a.txt").read_text() == expected
    (files.root / "d").mkdir()
    over = files.http.put("/file", params={"path": "d", "conflict": "replace"}, content=b"")
    assert code(over) == (409, "is-folder")


def test_d8_a_limit_refuses_before_and_a_full_disk_leaves_nothing(files: Served) -> None:
    room = {"X-Berth-Room": "1000"}
    refused = files.http.post("/uploads", json={"path": "a", "size": 1001}, headers=room)
    assert (code(refused), refused.json()["room"]) == ((507, "quota"), 1000)
    assert files.http.post("/uploads", json={"path": "a", "size": 800}, headers=room).is_success
    second = files.http.post("/uploads", json={"path": "b", "size": 300}, headers=room)
    assert code(second) == (507, "quota")  # the first one will take it
    assert code(files.post("uploads", path="c", size=2**50)) == (507, "disk-full")


@pytest.mark.root
def test_d8_a_disk_that_fills_up_midway_is_said_and_cleaned(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can mount a small file system")
    (tmp_path / "data").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", tmp_path / "data"], check=True)
    try:
        one = Served(tmp_path)
        made = one.post("uploads", path="a", size=900_000).json()
        (one.root / "other").write_bytes(b"x" * 600_000)
        got = one.http.patch(f"/uploads/{made['id']}", params={"offset": 0}, content=b"y" * 900_000)
        assert code(got) == (507, "disk-full")
        assert list((one.root / ".berth/uploads").iterdir()) == []
        assert one.names() == ["other"]
        copied = one.lines(one.post("copy", paths=["other"], to=""))[-1]["done"]
        assert copied["refused"][0]["code"] in {"disk-full", "exists"}
        one.close()
    finally:
        subprocess.run(["umount", tmp_path / "data"], check=True)


def test_a_connection_that_breaks_keeps_what_came(files: Served) -> None:
    made = files.post("uploads", path="a", size=2_000_000).json()
    with socket.create_connection(("127.0.0.1", files.port)) as raw:
        raw.sendall(
            f"PATCH /uploads/{made['id']}?offset=0 HTTP/1.1\r\nHost: x\r\nX-Berth-Person: p1\r\n"
            f"Authorization: Bearer {TOKEN}\r\nContent-Length: 2000000\r\n\r\n".encode()
            + b"z" * 1_500_000
        )
        raw.shutdown(socket.SHUT_WR)
        raw.recv(1000)
    assert files.http.get(f"/uploads/{made['id']}").json()["offset"] == 1_500_000
    assert files.names() == []


def test_what_nobody_went_on_with_is_removed(tmp_path: Path) -> None:
    uploads = tmp_path / "data/.berth/uploads"
    uploads.mkdir(parents=True)
    for name in ("old.part", "old.json", "new.part"):
        (uploads / name).write_text("")
        if name.startswith("old"):
            os.utime(uploads / name, (1e9, 1e9))
    one = Served(tmp_path)
    deadline = time.monotonic() + 5
    while len(listed(uploads)) > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert listed(uploads) == ["new.part"]
    one.close()


# --- changing ----------------------------------------------------------------------------------


def test_moving_never_writes_over_anything_unasked(files: Served) -> None:
    for name in ("a", "b"):
        (files.root / name).write_text(name)
    (files.root / "d").mkdir()
    (files.root / "d/a").write_text("theirs")
    assert code(files.post("rename", path="a", to="b")) == (409, "exists")
    said = files.post("move", paths=["a", "b", "none"], to="d").json()
    assert said["moved"] == ["d/b"]
    assert [r["code"] for r in said["refused"]] == ["exists", "missing"]
    assert files.post("move", paths=["a"], to="d", conflict="keep-both").json()["moved"] == [
        "d/a%20%282%29"
    ]
    assert (files.root / "d/a").read_text() == "theirs"
    assert code(files.post("rename", path="d", to="d/e/f")) == (409, "into-itself")
    assert code(files.post("rename", path="d/b", to="none/b")) == (404, "missing")
    assert code(files.post("mkdir", path="d")) == (409, "exists")


def test_copies_appear_whole_and_say_what_they_left_out(files: Served) -> None:
    (files.root / "d/e").mkdir(parents=True)
    (files.root / "d/e/f").write_bytes(b"x" * 3_000_000)
    (files.root / "d/link").symlink_to("/etc")
    (files.root / "to").mkdir()
    done = files.lines(files.post("copy", paths=["d"], to="to"))[-1]["done"]
    assert (done["copied"], done["files"], done["bytes"]) == (["to/d"], 1, 3_000_000)
    assert done["left_out"] == [{"path": "d/link", "code": "link"}]
    assert (files.root / "to/d/e/f").read_bytes() == b"x" * 3_000_000
    again = files.lines(files.post("copy", paths=["d"], to="to"))[-1]["done"]
    assert again["refused"][0]["code"] == "exists"
    room = {"X-Berth-Room": "10"}
    full = files.http.post("/copy", json={"paths": ["d"], "to": ""}, headers=room)
    assert files.lines(full)[-1]["done"]["refused"][0]["code"] == "quota"
    inside = files.lines(files.post("copy", paths=["d"], to="d/e"))[-1]["done"]
    assert inside["refused"][0]["code"] == "into-itself"
    assert list((files.root / ".berth/uploads").iterdir()) == []


def test_what_was_deleted_can_be_brought_back(files: Served) -> None:
    (files.root / "d").mkdir()
    (files.root / "d/x").write_text("x")
    (files.root / "f").write_text("f")
    count = files.lines(files.post("count", paths=["d", "f", "d/x"]))[-1]["done"]
    assert (count["files"], count["folders"], count["bytes"], count["complete"]) == (2, 1, 2, True)
    gone = files.post("delete", paths=["d", "f", "none"]).json()
    assert (gone["deleted"], len(gone["refused"])) == (2, 1)
    assert files.names() == []
    (files.root / "f").write_text("new")
    back = files.post("restore", id=gone["id"]).json()
    assert back["restored"] == ["d", "f%20%282%29"]
    assert (files.root / "d/x").read_text() == "x"
    assert (files.root / "f").read_text() == "new"
    assert code(files.post("restore", id=gone["id"])) == (404, "no-undo")
    assert code(files.post("restore", id="../x")) == (404, "no-undo")
    assert list((files.root / ".berth/trash").iterdir()) == []


def test_a_tree_of_any_depth_is_deleted_for_good(files: Served) -> None:
    here = os.open(files.root, os.O_RDONLY)
    for _ in range(1500):  # far beyond what a path can say
        os.mkdir("deep", dir_fd=here)
        fd = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = fd
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    for number in range(50):
        (files.root / f"wide{number}").mkdir()
    done = files.lines(files.post("delete", paths=["deep", "wide1"], forever=True))[-1]["done"]
    assert done["refused"] == []
    assert done["files"] == 1502
    assert "deep" not in files.names()
    assert len(listed(files.root)) == 49


def test_what_was_set_aside_long_ago_is_purged(tmp_path: Path) -> None:
    old = tmp_path / "data/.berth/trash" / ("0" * 32)
    (old / "0/deep").mkdir(parents=True)
    (old / "0/deep/f").write_text("")
    os.utime(old, (1e9, 1e9))
    one = Served(tmp_path)
    deadline = time.monotonic() + 5
    while old.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not old.exists()
    one.close()


def test_a_volume_to_read_is_only_read(tmp_path: Path) -> None:
    one = Served(tmp_path, "--read-only")
    (one.root / "a").write_text("x")
    assert one.http.get("/info").json()["read_only"] is True
    assert one.http.get("/file", params={"path": "a"}).text == "x"
    for answer in (
        one.http.put("/file", params={"path": "b"}, content=b"1"),
        one.post("uploads", path="b", size=1),
        one.post("mkdir", path="b"),
        one.post("rename", path="a", to="b"),
        one.post("move", paths=["a"], to=""),
        one.post("copy", paths=["a"], to=""),
        one.post("delete", paths=["a"]),
        one.post("delete", paths=["a"], forever=True),
        one.post("restore", id="0" * 32),
    ):
        assert code(answer) == (403, "read-only"), answer.request.url
    assert listed(one.root) == ["a"]
    one.close()


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


# --- bad requests and slow readers ---------------------------------------------------------------


def test_nonsense_is_answered_by_a_word(files: Served) -> None:
    assert code(files.http.get("/nothing")) == (404, "no-such-act")
    assert code(files.http.get("/list/x")) == (404, "no-such-act")
    assert code(files.http.post("/mkdir", content=b"{")) == (400, "bad-request")
    assert code(files.http.post("/mkdir", content=b"[1]")) == (400, "bad-request")
    assert code(files.post("mkdir")) == (400, "bad-path")
    assert code(files.post("delete", paths=[])) == (400, "bad-request")
    assert code(files.post("delete", paths="x")) == (400, "bad-request")
    assert code(files.post("rename", path="a", to="b", conflict="no")) == (400, "bad-request")
    chunked = files.http.patch("/uploads/x", content=iter([b"1"]))
    assert chunked.status_code >= 400
    assert files.http.get("/livez").status_code == 200


def test_slow_readers_do_not_hold_others_up(files: Served) -> None:
    (files.root / "big").write_bytes(b"x" * (64 << 20))
    slow = []
    for _ in range(20):
        one = socket.create_connection(("127.0.0.1", files.port))
        one.sendall(
            f"GET /file?path=big HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
        )
        slow.append(one)
    begun = time.monotonic()
    assert files.names() == ["big"]
    assert time.monotonic() - begun < 3
    for one in slow:
        one.close()
