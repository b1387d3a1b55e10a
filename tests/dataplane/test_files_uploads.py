"""The file browser's server as a real process: what comes in."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import time
import zlib
from pathlib import Path

import pytest

from tests.support.files_served import TOKEN, Served, code, listed

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
    deadline = time.monotonic() + 60
    while len(listed(uploads)) > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert listed(uploads) == ["new.part"]
    one.close()
