"""Copying out, giving up, sync both ways, limits; against a store that a test can look into."""

from __future__ import annotations

import random
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from dataplane.copy.problems import Final, Stop
from dataplane.copy.upload_s3 import S3Uploader
from tests.support.copying import Copying
from tests.support.hostile_store import Call, Handler, HostileS3

MIB = 2**20


def out(tmp_path: Path, hostile: HostileS3, **more: Any) -> Copying:
    return Copying(tmp_path, hostile.place("to/"), hostile.outbound(), direction="out", **more)


def write(copying: Copying, contents: dict[str, bytes]) -> None:
    for name, body in contents.items():
        path = copying.target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)


def stored(hostile: HostileS3) -> dict[str, bytes]:
    return {key.decode(): thing.body for key, thing in hostile.things.items()}


def test_an_upload_in_parts_goes_on_after_a_kill(tmp_path: Path, hostile: HostileS3) -> None:
    copying = out(tmp_path, hostile)
    body = random.Random(1).randbytes(100 * MIB)
    write(copying, {"large.bin": body})
    sent: list[int] = []
    since: list[float] = []
    killed_already = threading.Event()

    def hold(_handler: Handler, call: Call) -> bool:
        number = int(call.query.get("partNumber", 0))
        if number:
            sent.append(number)
        return number > 3 and not killed_already.is_set() and killed_already.wait(30)

    def three_are_noted(_report: dict[str, Any]) -> bool:
        if any(len(upload) == 3 for upload in hostile.uploads.values()):
            since.append(time.monotonic())
        return bool(since) and time.monotonic() - since[0] > 1

    hostile.tricks.append(hold)
    killed = copying.run(kill_when=three_are_noted)
    killed_already.set()
    assert killed.code == -signal.SIGKILL, killed.output
    begun = len(sent)
    done = copying.run()
    assert done.code == 0, done.output
    assert stored(hostile) == {"to/large.bin": body}
    assert done.reports[-1]["verified"] == {"multipart-md5": 1}
    assert sorted(sent[begun:]) == [4, 5, 6, 7]


def test_giving_up_ends_uploads_and_parts_and_leaves_what_is_done(
    load: Any, tmp_path: Path, hostile: HostileS3
) -> None:
    copying = out(tmp_path, hostile)
    write(copying, {"small": b"x", "large.bin": random.Random(1).randbytes(40 * MIB)})

    def refuse(handler: Handler, call: Call) -> bool:
        if call.query.get("partNumber") == "2":
            handler.error(500, "InternalError")
            return True
        return False

    hostile.tricks.append(refuse)
    order, _ = load(copying)
    assert order.final is Final.PARTIAL
    assert len(hostile.uploads) == 1
    copying.mode = "abandon"
    order, _ = load(copying)
    assert order.final is Final.DONE
    assert hostile.uploads == {}
    assert stored(hostile) == {"to/small": b"x"}
    assert list((copying.state / "parts").iterdir()) == []


def test_an_upload_that_the_store_keeps_is_not_forgotten(
    load: Any, tmp_path: Path, hostile: HostileS3
) -> None:
    copying = out(tmp_path, hostile)
    write(copying, {"large.bin": random.Random(1).randbytes(40 * MIB)})

    def refuse(handler: Handler, call: Call) -> bool:
        if call.query.get("partNumber") == "2":
            handler.error(500, "InternalError")
            return True
        if call.method == "DELETE":
            handler.error(403, "AccessDenied")
            return True
        return False

    hostile.tricks.append(refuse)
    order, _ = load(copying)
    assert order.final is Final.PARTIAL
    copying.mode = "abandon"
    order, _ = load(copying)
    assert order.final is Final.UNREACHABLE
    assert len(hostile.uploads) == 1
    hostile.tricks.clear()
    order, _ = load(copying)
    assert (order.final, hostile.uploads) == (Final.DONE, {})


@pytest.mark.parametrize("trouble", ["refuses", "hangs up on", "ends"])
def test_an_export_that_sent_everything_is_done_whatever_becomes_of_the_rest(
    load: Any, tmp_path: Path, hostile: HostileS3, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    copying = out(tmp_path, hostile)
    write(copying, {"small": b"x", "large.bin": random.Random(1).randbytes(40 * MIB)})

    def refuse(handler: Handler, call: Call) -> bool:
        if call.query.get("partNumber") == "2":
            handler.error(500, "InternalError")
            return True
        if call.method == "DELETE":
            handler.error(403, "AccessDenied")
            return True
        return False

    async def end(*_: object) -> bool:
        raise Stop(Final.UNREACHABLE, "The store went away.")

    async def hang_up(*_: object) -> bool:
        raise ConnectionResetError

    hostile.tricks.append(refuse)
    assert load(copying)[0].final is Final.PARTIAL
    (copying.target / "large.bin").unlink()
    if trouble != "refuses":
        monkeypatch.setattr(S3Uploader, "abandon", end if trouble == "ends" else hang_up)
    order, _ = load(copying)
    assert (order.final, order.uploads) == (Final.DONE, 1)
    monkeypatch.undo()
    hostile.tricks.clear()
    order, _ = load(copying)
    assert (order.final, order.uploads, hostile.uploads) == (Final.DONE, 0, {})


def test_giving_up_needs_no_folder(load: Any, tmp_path: Path, hostile: HostileS3) -> None:
    copying = out(tmp_path, hostile)
    write(copying, {"large.bin": random.Random(1).randbytes(40 * MIB)})

    def refuse(handler: Handler, call: Call) -> bool:
        if call.query.get("partNumber") == "2":
            handler.error(500, "InternalError")
            return True
        return False

    hostile.tricks.append(refuse)
    assert load(copying)[0].final is Final.PARTIAL
    assert len(hostile.uploads) == 1
    shutil.rmtree(copying.target)
    copying.mode = "abandon"
    order, _ = load(copying)
    assert (order.final, hostile.uploads) == (Final.DONE, {})
    assert not copying.target.exists()


def test_what_can_be_no_key_or_is_no_file_is_named(
    load: Any, tmp_path: Path, hostile: HostileS3
) -> None:
    copying = out(tmp_path, hostile, folder="")
    write(copying, {"fine": b"x", "new\nline": b"y", ".berth/loads/other/x": b"no"})
    (copying.target / "link").symlink_to("/etc/passwd")
    (copying.target / b"\xff".decode("utf-8", "surrogateescape")).write_bytes(b"z")
    order, progress = load(copying)
    assert order.final is Final.PARTIAL
    assert stored(hostile) == {"to/fine": b"x"}
    assert progress.skipped == 3


def test_a_store_that_keeps_something_else_is_found_out(
    load: Any, tmp_path: Path, hostile: HostileS3
) -> None:
    copying = out(tmp_path, hostile)
    write(copying, {"a": b"content"})

    def spoil(handler: Handler, call: Call) -> bool:
        if call.method == "PUT":
            handler.rfile.read(int(call.headers["content-length"]))
            handler.say(200, b"", {"ETag": '"' + "0" * 32 + '"'})
            return True
        return False

    hostile.tricks.append(spoil)
    order, progress = load(copying)
    assert order.final is Final.PARTIAL
    assert [error["code"] for error in progress.errors] == ["checksum"]


def test_sync_out_deletes_only_when_asked_and_only_what_was_chosen(
    load: Any, tmp_path: Path, hostile: HostileS3
) -> None:
    copying = out(tmp_path, hostile, mode="sync")
    write(copying, {"a": b"1", "sub/b": b"2"})
    for key in ("to/extra", "to/kept.log", "elsewhere"):
        hostile.put(key, b"old")
    assert load(copying)[0].final is Final.DONE
    assert "to/extra" in stored(hostile)
    order, progress = load(copying, delete_extra=True, exclude=["*.log"])
    assert order.final is Final.DONE
    assert (progress.deleted, progress.unchanged, progress.done) == (1, 2, 0)
    assert set(stored(hostile)) == {"to/a", "to/sub/b", "to/kept.log", "elsewhere"}


def test_a_file_that_the_store_has_by_other_ways_is_not_sent(
    load: Any, tmp_path: Path, hostile: HostileS3
) -> None:
    copying = out(tmp_path, hostile)
    write(copying, {"a": b"same", "b": b"diff"})
    hostile.put("to/a", b"same")
    hostile.put("to/b", b"gone")
    _, progress = load(copying)
    assert (progress.unchanged, progress.done) == (1, 1)
    assert stored(hostile) == {"to/a": b"same", "to/b": b"diff"}


# --- in -----------------------------------------------------------------------------------------


def test_sync_in_deletes_only_what_was_chosen_and_never_after_an_empty_listing(
    load: Any, copying: Copying, hostile: HostileS3
) -> None:
    copying.mode = "sync"
    hostile.put("a", b"1")
    write(copying, {"extra/deep/x": b"2", "kept.log": b"3"})
    order, progress = load(copying, delete_extra=True, exclude=["*.log"])
    assert order.final is Final.DONE
    assert progress.deleted == 1
    assert sorted(p.name for p in copying.target.iterdir()) == ["a", "kept.log"]
    hostile.things.clear()
    order, progress = load(copying, delete_extra=True)
    assert order.final is Final.DONE
    assert progress.deleted == 0
    assert (copying.target / "a").exists()


@pytest.mark.parametrize("named", [{"retry_failed_only": True}, {"store": {"objects": ["a"]}}])
def test_sync_deletes_nothing_by_a_list_that_is_not_everything(
    load: Any, copying: Copying, hostile: HostileS3, named: dict[str, Any]
) -> None:
    copying.mode = "sync"
    hostile.put("a", b"1")
    hostile.put("b", b"2")
    assert load(copying)[0].final is Final.DONE
    more = {"store": {**copying.store, **named["store"]}} if "store" in named else named
    order, progress = load(copying, delete_extra=True, **more)
    assert order.final is Final.DONE
    assert progress.deleted == 0
    assert sorted(p.name for p in copying.target.iterdir()) == ["a", "b"]


def test_what_lies_there_already_is_not_read_again(
    load: Any, copying: Copying, hostile: HostileS3
) -> None:
    """By the checksum, where there is no journal: another load, or a person, brought it."""
    hostile.put("same", b"content")
    hostile.put("other", b"content")
    write(copying, {"same": b"content", "other": b"CONTENT"})
    order, progress = load(copying)
    assert order.final is Final.DONE
    assert (progress.unchanged, progress.done) == (1, 1)
    assert (copying.target / "other").read_bytes() == b"content"


def is_paced(load: Any, tmp_path: Path, hostile: HostileS3, rate: int, most: float) -> bool:
    """Load everything under this limit: never too soon, and in time as soon as nothing else
    keeps the machine, so it is tried three times, each time anew."""
    for n in range(3):
        copying = Copying(tmp_path / str(n), hostile.place(), hostile.outbound())
        begun = time.monotonic()
        order, _ = load(copying, bandwidth_bytes_s=rate)
        took = time.monotonic() - begun
        assert order.final is Final.DONE
        assert took >= 1.4
        if took <= most:
            return True
    return False


@pytest.mark.usefixtures("processor")
def test_the_limit_of_bandwidth_holds(load: Any, tmp_path: Path, hostile: HostileS3) -> None:
    for n in range(40):
        hostile.put(f"s{n}", b"x" * 20_000)
    hostile.put("m", b"y" * 1_200_000)
    assert is_paced(load, tmp_path, hostile, 1_000_000, most=6)


@pytest.mark.usefixtures("processor")
def test_the_limit_holds_for_bodies_that_come_at_one_go(
    load: Any, tmp_path: Path, hostile: HostileS3
) -> None:
    """They have ended before they could be held back: the next ones wait for what they owe."""
    for n in range(60):
        hostile.put(f"m{n}", b"y" * 100_000)
    assert is_paced(load, tmp_path, hostile, 2_000_000, most=8)


def test_verify_finds_what_is_missing_short_or_other(
    load: Any, copying: Copying, hostile: HostileS3
) -> None:
    for name in ("fine", "missing", "short", "other", "link"):
        hostile.put(name, b"content")
    assert load(copying)[0].final is Final.DONE
    (copying.target / "missing").unlink()
    (copying.target / "short").write_bytes(b"cont")
    (copying.target / "other").write_bytes(b"CONTENT")
    (copying.target / "link").unlink()
    (copying.target / "link").symlink_to("fine")
    asked = len(hostile.calls)
    copying.mode = "verify"
    order, progress = load(copying)
    assert order.final is Final.PARTIAL
    found = {error["key"]: error["code"] for error in progress.errors}
    assert found == {"missing": "missing", "short": "length", "other": "checksum", "link": "io"}
    assert len(hostile.calls) == asked
    copying.mode = "copy"
    order, progress = load(copying)
    assert (order.final, progress.done) == (Final.DONE, 4)
    copying.mode = "verify"
    assert load(copying)[0].final is Final.DONE


def test_a_dry_run_says_how_much_and_how_long(
    load: Any, copying: Copying, hostile: HostileS3
) -> None:
    hostile.put("a", b"x" * 500_000)
    hostile.put("bad//key", b"y")
    copying.mode = "dry-run"
    order, progress = load(copying, bandwidth_bytes_s=100_000)
    assert order.final is Final.PARTIAL
    assert progress.report()["files"]["found"] == 2
    assert progress.bytes_found == 500_000
    assert progress.estimate_s is not None
    assert progress.estimate_s >= 5
    assert "would be copied" in order.message
    assert list(copying.target.iterdir()) == []
