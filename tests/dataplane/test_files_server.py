"""The file browser's server: who may ask, what it lists, and what hostile names get."""

from __future__ import annotations

import ctypes
import io
import os
import socket
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from urllib.parse import quote_from_bytes

import httpx
import pytest

from tests.support.files_served import ROOT, TOKEN, Served, code, listed
from tests.support.shortest import shortest

# --- who, and how it lives -------------------------------------------------------------------


def test_only_the_gate_may_ask(files: Served) -> None:
    (files.root / "a").write_text("x")
    bare = httpx.Client(base_url=files.http.base_url, timeout=60, trust_env=False)
    for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": TOKEN}):
        for act in ("list", "file?path=a", "uploads"):
            assert bare.get(f"/{act}", headers=headers).status_code == 401
    assert bare.get("/livez").json() == {"ok": True}


def test_it_is_small_starts_at_once_and_ends_when_asked(tmp_path: Path) -> None:
    assert shortest(lambda: Served(tmp_path).close()) < 5
    one = Served(tmp_path)
    (one.root / "a").write_bytes(os.urandom(1 << 20))
    assert one.http.get("/file", params={"path": "a"}).status_code == 200
    status = Path(f"/proc/{one.process.pid}/status").read_text()
    rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    assert rss < 48 * 1024
    assert one.close() == 0


@pytest.mark.parametrize("root", ["..", "a/b", "", "none"])
def test_only_a_volume_by_its_name_is_served(tmp_path: Path, root: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dataplane.files", "--root", root, "--port", "1"],
        cwd=ROOT,
        env={"BERTH_FILES_TOKEN": TOKEN, "BERTH_VOLUMES": str(tmp_path)},
        capture_output=True,
        timeout=120,
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


@pytest.mark.parametrize(
    "many",
    [8_000, pytest.param(100_000, marks=pytest.mark.long("the same with 8,000 beside it"))],
)
def test_as_many_as_a_hundred_thousand_entries_come_in_pages(many: int, files: Served) -> None:
    made = files.root / "many"
    made.mkdir()
    for number in range(many):
        os.close(os.open(made / f"{number:06}", os.O_CREAT | os.O_WRONLY))

    def page(changed: int, offset: int) -> tuple[int, list[str]]:
        os.utime(made, (changed, changed))
        asked = {"path": "many", "offset": offset, "limit": 200}
        said = files.http.get("/list", params=asked).json()
        return said["total"], [entry["name"] for entry in said["entries"]]

    before = files.cpu_s()
    assert page(1, 0) == (many, [f"{number:06}" for number in range(200)])
    assert files.cpu_s() - before < 10
    (made / "later").touch()  # which its time does not show: an order that was kept is used
    assert page(1, many - 10) == (many, [f"{number:06}" for number in range(many - 10, many)])
    assert page(2, many - 9)[0] == many + 1


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

    def ask() -> None:
        for name in ("pipe", "sock"):
            for act in ("file", "preview", "raw"):
                assert code(files.http.get(f"/{act}", params={"path": name})) == (409, "special")
        with zipfile.ZipFile(io.BytesIO(files.http.get("/zip").content)) as found:
            assert found.namelist() == ["_not-in-this-archive.txt"]
            assert b"pipe" in found.read("_not-in-this-archive.txt")

    assert shortest(ask) < 5


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

    def ask() -> None:
        assert files.names() == ["big"]

    assert shortest(ask) < 3
    for one in slow:
        one.close()
