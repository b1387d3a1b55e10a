"""What is left behind by uploads and copies: kept while somebody goes on, removed afterwards."""

from __future__ import annotations

import hashlib
import io
import os
import time
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from dataplane.files import changing, names
from dataplane.files.names import Refusal, of_error
from dataplane.files.notes import UNDER_WAY_S, UPLOADS
from dataplane.files.reading import download
from dataplane.files.tree import Beat, Tree
from dataplane.files.uploads import STALE_S, Uploads
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


def checked(uploads: Uploads, upload: str, data: bytes, offset: int) -> None:
    check = f"sha256={hashlib.sha256(data).hexdigest()}"
    body = io.BytesIO(data)
    uploads.append(upload, WHO, offset=offset, body=body, length=len(data), check=check)


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


def test_a_piece_that_a_kill_cut_is_sent_again(tree: Tree, uploads: Uploads) -> None:
    """It has no checksum any more that somebody compared: what lies there of it does not count."""
    made = begin(uploads, size=6)
    checked(uploads, made, b"ab", 0)
    with (tree.root / UPLOADS / f"{made}.part").open("ab") as part:
        part.write(b"XX")  # as far as the next one was when the process died
    after = Uploads(tree)
    assert after.state(made, WHO)["offset"] == 2
    with pytest.raises(Refusal, match="Not all of it"):
        list(after.finish(made, WHO, sha256=""))
    with pytest.raises(Refusal, match="does not follow"):
        checked(after, made, b"XXcd", 4)
    checked(after, made, b"cdef", 2)
    list(after.finish(made, WHO, sha256=hashlib.sha256(b"abcdef").hexdigest()))
    assert (tree.root / "a").read_bytes() == b"abcdef"


def test_without_a_checksum_all_that_arrived_counts(tree: Tree, uploads: Uploads) -> None:
    made = begin(uploads, size=6)
    checked(uploads, made, b"ab", 0)
    send(uploads, made, b"c", 2)
    with (tree.root / UPLOADS / f"{made}.part").open("ab") as part:
        part.write(b"d")
    after = Uploads(tree)
    assert after.state(made, WHO)["offset"] == 4
    send(after, made, b"ef", 4)
    list(after.finish(made, WHO, sha256=""))
    assert (tree.root / "a").read_bytes() == b"abcdef"


def test_an_upload_that_nobody_goes_on_with_keeps_no_room_from_others(
    tree: Tree, uploads: Uploads
) -> None:
    made = begin(uploads, size=900)
    with pytest.raises(Refusal, match="leaves no room"):
        uploads.begin({**ASKED, "path": "b", "size": 200}, person="p2", room=1000)
    age(tree, f"{made}.part", UNDER_WAY_S + 60)
    uploads.begin({**ASKED, "path": "b", "size": 200}, person="p2", room=1000)


@pytest.mark.parametrize("note", [b"[" * 16_000, b'{"size": 3}', b"", b"\n\n"])
def test_notes_that_a_tenant_made_up_are_in_nobodys_way(
    tree: Tree, uploads: Uploads, note: bytes
) -> None:
    """Deep enough to exhaust the parser, or no note at all."""
    made = begin(uploads, path="b")
    (tree.root / UPLOADS / f"{'0' * 32}.json").write_bytes(note)
    assert [one["id"] for one in uploads.mine(WHO)] == [made]
    with pytest.raises(Refusal, match="not known"):
        uploads.state("0" * 32, WHO)
    send(uploads, begin(uploads))


def test_a_pipe_in_place_of_a_part_is_not_waited_for(tree: Tree, uploads: Uploads) -> None:
    made = begin(uploads)
    part = tree.root / UPLOADS / f"{made}.part"
    part.unlink()
    os.mkfifo(part)
    with pytest.raises(Refusal, match="not known"):
        send(uploads, made)
    with pytest.raises(Refusal, match="not known"):
        list(uploads.finish(made, WHO, sha256=""))


@pytest.mark.parametrize("word", ["sha256=ü", "crc32=\udcff", "sha256="])
def test_a_checksum_of_any_letters_is_only_a_wrong_one(
    tree: Tree, uploads: Uploads, word: str
) -> None:
    made = begin(uploads)
    with pytest.raises(Refusal, match="damaged"):
        uploads.append(made, WHO, offset=0, body=io.BytesIO(b"abc"), length=3, check=word)
    assert (tree.root / UPLOADS / f"{made}.part").stat().st_size == 0
    send(uploads, made)
    with pytest.raises(Refusal, match="not what was sent"):
        list(uploads.finish(made, WHO, sha256="ü"))


def test_who_missed_the_answer_hears_it_again(tree: Tree, uploads: Uploads) -> None:
    """And nobody else; not whatever lies under that name by then, if the file went elsewhere."""
    made = begin(uploads, conflict="keep-both")
    (tree.root / "a").write_text("theirs")
    send(uploads, made)
    *_, first = uploads.finish(made, WHO, sha256="")
    *_, second = uploads.finish(made, WHO, sha256="")
    assert second == first
    assert first["done"]["path"] == "a%20%282%29"
    with pytest.raises(Refusal, match="not known"):
        list(uploads.finish(made, "p2", sha256=""))
    (tree.root / "a (2)").rename(tree.root / "b")
    with pytest.raises(FileNotFoundError):
        list(uploads.finish(made, WHO, sha256=""))


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


@pytest.mark.parametrize("told", [1, 3, 5])
def test_a_copy_that_nobody_waits_for_leaves_nothing(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, told: int
) -> None:
    """Closed while it copies, or while it cleans up what may not land; there is much to remove."""
    monkeypatch.setattr(Beat, "__call__", lambda _self: True)
    for name in ("from", "to/from"):
        (tree.root / name).mkdir(parents=True)
    for number in range(3):
        (tree.root / f"from/{number}").write_text("x")
    copying = changing.copy(tree, ["from"], "to", "refuse", None)
    for _ in range(told):
        assert "progress" in next(copying)
    copying.close()
    assert left(tree) == []
    assert list((tree.root / "to/from").iterdir()) == []


def test_all_that_a_copy_leaves_out_is_counted(tree: Tree) -> None:
    for name in ("from", "to"):
        (tree.root / name).mkdir()
    for number in range(130):
        (tree.root / f"from/{number}").symlink_to("/")
    *_, last = changing.copy(tree, ["from"], "to", "refuse", None)
    assert (last["done"]["skipped"], len(last["done"]["left_out"])) == (130, 100)


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
    list(changing.remove(tree, ["d" * 250]))


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
