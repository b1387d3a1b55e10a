"""The file browser's server as a real process: what it changes."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.support.files_served import Served, code, listed

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
    deadline = time.monotonic() + 60
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
