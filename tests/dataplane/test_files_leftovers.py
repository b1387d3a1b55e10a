"""What is left behind by uploads and copies: kept while somebody goes on, removed afterwards."""

from __future__ import annotations

import io
import os
import time
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from dataplane.files import changing, names, removing
from dataplane.files.reading import download
from dataplane.files.refusals import Refusal, of_error
from dataplane.files.tree import Beat, Tree
from dataplane.files.uploads import STALE_S, UPLOADS, Uploads
from dataplane.safepath import Flaw, UnsafePath

WHO = "p1"
ASKED = {"path": "a", "size": 3, "mark": "a:3:1", "modified": 1e9}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture
def uploads(tree: Tree) -> Uploads:
    return Uploads(tree)


def begin(uploads: Uploads, **said: Any) -> str:
    return str(uploads.begin({**ASKED, **said}, person=WHO, room=None)["id"])


def send(uploads: Uploads, upload: str, data: bytes = b"abc", offset: int = 0) -> None:
    body = io.BytesIO(data)
    uploads.append(upload, WHO, offset=offset, body=body, length=len(data), check="")


def age(tree: Tree, name: str, seconds: float = STALE_S + 60) -> None:
    at = time.time() - seconds
    os.utime(tree.root / UPLOADS / name, (at, at))


def left(tree: Tree) -> list[str]:
    return sorted(path.name for path in (tree.root / UPLOADS).iterdir())


def test_an_upload_that_lasts_longer_than_a_day_keeps_its_note(
    tree: Tree, uploads: Uploads
) -> None:
    made = begin(uploads)
    age(tree, f"{made}.json")
    send(uploads, made, b"ab")
    assert uploads.clean() == 0
    send(uploads, made, b"c", 2)
    *_, last = uploads.finish(made, WHO, sha256="")
    assert last["done"]["size"] == 3
    made = begin(uploads, path="b")
    for name in (f"{made}.json", f"{made}.part"):
        age(tree, name)
    assert (uploads.clean(), left(tree)) == (1, [])


def test_what_could_not_land_is_not_old_for_the_time_of_its_sender(
    tree: Tree, uploads: Uploads
) -> None:
    made = begin(uploads)
    send(uploads, made)
    (tree.root / "a").write_text("theirs")
    with pytest.raises(Refusal, match="already"):
        list(uploads.finish(made, WHO, sha256=""))
    assert uploads.clean() == 0
    *_, last = uploads.finish(made, WHO, sha256="", conflict="keep-both")
    assert last["done"]["path"] == "a%20%282%29"
    assert (tree.root / "a (2)").stat().st_mtime == 1e9


def test_a_note_without_its_part_is_in_nobodys_way(tree: Tree, uploads: Uploads) -> None:
    made = begin(uploads)
    (tree.root / UPLOADS / f"{made}.part").unlink()
    assert uploads.mine(WHO) == []
    other = begin(uploads)
    assert (other != made, left(tree)) == (True, [f"{other}.json", f"{other}.part"])


def test_what_a_copy_left_when_it_died_is_taken_down(tree: Tree, uploads: Uploads) -> None:
    for name in ("dead.copy", "young.copy"):
        (tree.root / UPLOADS / name / "deep/er").mkdir(parents=True)
        (tree.root / UPLOADS / name / "deep/er/x").write_text("x")
    age(tree, "dead.copy")
    (tree.root / UPLOADS / "link.copy").symlink_to(tree.root)
    assert (uploads.clean(), left(tree)) == (1, ["link.copy", "young.copy"])


def test_a_copy_that_goes_on_is_never_taken_for_a_dead_one(
    tree: Tree, uploads: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Beat, "__call__", lambda _self: True)
    for name in ("from", "to"):
        (tree.root / name).mkdir()
    for number in range(3):
        (tree.root / f"from/{number}").write_text("x")
    copying = changing.copy(tree, ["from"], "to", "refuse", None)
    next(copying)
    (under_way,) = left(tree)
    age(tree, under_way)
    next(copying)
    assert uploads.clean() == 0
    *_, last = copying
    assert (last["done"]["copied"], last["done"]["files"]) == (["to/from"], 3)


def test_names_that_become_too_long_are_refused_one_by_one(tree: Tree) -> None:
    folder = "/".join(["d" * 250] * 16)
    (tree.root / "to").mkdir()
    at = os.open(tree.root, os.O_RDONLY)
    for part in folder.split("/"):
        os.mkdir(part, dir_fd=at)
        below = os.open(part, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    long, short = "n" * 200, "s"
    for name in (long, short):
        (tree.root / name).write_text(name)
    moved = changing.move(tree, [long, short], folder, "refuse")
    assert [one["code"] for one in moved["refused"]] == ["too-long"]
    assert moved["moved"] == [names.shown(f"{folder}/{short}")]
    *_, last = changing.copy(tree, [long, "to"], folder, "refuse", None)
    assert [one["code"] for one in last["done"]["refused"]] == ["too-long"]
    assert last["done"]["copied"] == [names.shown(f"{folder}/to")]
    assert left(tree) == []
    assert of_error(UnsafePath(Flaw.LONG)).as_json()["code"] == "too-long"
    list(removing.remove(tree, ["d" * 250]))


@pytest.mark.parametrize(
    ("wanted", "status", "length"),
    [
        ("bytes=0-1,4-5", 200, 10),
        ("lines=1-2", 200, 10),
        ("bytes=2-3", 206, 2),
        ("bytes=-", 416, 0),
        ("bytes=x", 416, 0),
        ("bytes=10-", 416, 0),
    ],
)
def test_several_parts_are_answered_by_the_whole(
    tree: Tree, wanted: str, status: int, length: int
) -> None:
    (tree.root / "f").write_bytes(b"0123456789")
    headers = Message()
    headers["Range"] = wanted
    sent = download(tree, "f", headers)
    assert (sent.status, sent.length) == (status, length)
    if sent.file >= 0:
        os.close(sent.file)


@pytest.mark.parametrize("path", [".berth", ".Berth/x", ".BERTH"])
def test_berths_own_folder_is_closed_under_any_case(path: str) -> None:
    with pytest.raises(Refusal) as caught:
        names.path_of(path)
    assert caught.value.code == "berth-own"
    assert names.path_of(f"below/{path}") == f"below/{path}"
