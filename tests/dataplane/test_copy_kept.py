"""What must not be forgotten, or end a whole run: ids of uploads, the journal, odd corners."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataplane.copy.problems import Final
from tests.support.copying import Copying
from tests.support.hostile_store import Call, Handler, HostileS3

MIB = 2**20


def out(tmp_path: Path, hostile: HostileS3, **more: Any) -> Copying:
    return Copying(tmp_path, hostile.place("to/"), hostile.outbound(), direction="out", **more)


def write(copying: Copying, name: str, body: bytes) -> bytes:
    copying.target.mkdir(parents=True, exist_ok=True)
    (copying.target / name).write_bytes(body)
    return body


def answering(status: int, code: str, **wanted: str) -> Callable[[Handler, Call], bool]:
    """Refuse calls with these parts in their query, or of this method."""
    method = wanted.pop("method", "")

    def refuse(handler: Handler, call: Call) -> bool:
        fits = all(call.query.get(name) == value for name, value in wanted.items())
        if fits and method in {"", call.method} and "uploadId" in call.query:
            handler.rfile.read(int(call.headers.get("content-length", 0)))
            handler.error(status, code)
            return True
        return False

    return refuse


@pytest.fixture
def begun(load: Any, tmp_path: Path, hostile: HostileS3) -> Copying:
    """An export of which the store holds some of three parts."""
    copying = out(tmp_path, hostile)
    write(copying, "large.bin", random.Random(1).randbytes(40 * MIB))
    hostile.tricks.append(answering(500, "InternalError", partNumber="2"))
    assert load(copying)[0].final is Final.PARTIAL
    hostile.tricks.clear()
    assert list(hostile.uploads) == ["upload-0"]
    assert 1 <= len(missing(hostile)) < 3
    return copying


def missing(hostile: HostileS3) -> list[int]:
    return [n for n in (1, 2, 3) if n not in hostile.uploads["upload-0"]]


def sent_since(hostile: HostileS3, before: int) -> list[int]:
    calls = hostile.calls[before:]
    return sorted(int(c.query["partNumber"]) for c in calls if "partNumber" in c.query)


def test_the_upload_of_a_file_that_changed_is_remembered_until_the_store_gives_it_up(
    load: Any, begun: Copying, hostile: HostileS3
) -> None:
    body = write(begun, "large.bin", random.Random(2).randbytes(40 * MIB))
    hostile.tricks.append(answering(403, "AccessDenied", method="DELETE"))
    order, _ = load(begun)
    assert (order.final, order.uploads) == (Final.DONE, 1)
    assert hostile.things[b"to/large.bin"].body == body
    assert list(hostile.uploads) == ["upload-0"]
    hostile.tricks.clear()
    order, _ = load(begun)
    assert (order.final, order.uploads, hostile.uploads) == (Final.DONE, 0, {})


def test_the_upload_of_a_file_that_became_small_is_given_up(
    load: Any, begun: Copying, hostile: HostileS3
) -> None:
    write(begun, "large.bin", b"small")
    order, _ = load(begun)
    assert (order.final, order.uploads, hostile.uploads) == (Final.DONE, 0, {})


def test_the_upload_of_a_file_that_the_store_has_by_now_is_given_up(
    load: Any, begun: Copying, hostile: HostileS3
) -> None:
    hostile.put("to/large.bin", (begun.target / "large.bin").read_bytes())
    order, progress = load(begun)
    assert (order.final, progress.unchanged, hostile.uploads) == (Final.DONE, 1, {})


def test_parts_of_a_store_that_is_away_wait_for_it(
    load: Any, begun: Copying, hostile: HostileS3
) -> None:
    hostile.tricks.append(answering(500, "InternalError", method="GET"))
    order, progress = load(begun)
    assert (order.final, progress.failed) == (Final.PARTIAL, 1)
    assert list(hostile.uploads) == ["upload-0"]
    hostile.tricks.clear()
    lacking, before = missing(hostile), len(hostile.calls)
    order, _ = load(begun)
    assert (order.final, hostile.uploads) == (Final.DONE, {})
    assert sent_since(hostile, before) == lacking


def test_parts_that_the_store_never_lists_are_given_up_and_sent_anew(
    load: Any, begun: Copying, hostile: HostileS3
) -> None:
    def spoil(handler: Handler, call: Call) -> bool:
        if call.method == "GET" and "uploadId" in call.query:
            part = b"<Part><PartNumber>many</PartNumber><ETag>x</ETag></Part>"
            handler.say(200, b"<ListPartsResult>" + part + b"</ListPartsResult>")
            return True
        return False

    hostile.tricks.append(spoil)
    order, _ = load(begun)
    assert (order.final, hostile.uploads) == (Final.DONE, {})
    assert hostile.things[b"to/large.bin"].body == (begun.target / "large.bin").read_bytes()


def test_an_upload_that_went_wrong_and_is_kept_stays_noted(
    load: Any, tmp_path: Path, hostile: HostileS3
) -> None:
    copying = out(tmp_path, hostile)
    write(copying, "large.bin", random.Random(1).randbytes(40 * MIB))
    hostile.tricks.append(answering(403, "AccessDenied", partNumber="2"))
    hostile.tricks.append(answering(403, "AccessDenied", method="DELETE"))
    assert load(copying)[0].final is Final.PARTIAL
    assert list(hostile.uploads) == ["upload-0"]
    hostile.tricks.clear()
    order, _ = load(copying)
    assert (order.final, order.uploads, hostile.uploads) == (Final.DONE, 0, {})


# --- the journal --------------------------------------------------------------------------------


def test_a_journal_that_can_not_be_opened_for_a_moment_is_kept(
    load: Any, begun: Copying, hostile: HostileS3
) -> None:
    beside = begun.state / "journal.sqlite3-wal"  # a folder: SQLite can't open what it needs
    beside.mkdir()
    assert load(begun)[0].final is Final.INTERNAL
    beside.rmdir()
    lacking, before = missing(hostile), len(hostile.calls)
    assert load(begun)[0].final is Final.DONE
    assert (sent_since(hostile, before), hostile.uploads) == (lacking, {})


def test_a_journal_that_is_broken_begins_anew(
    load: Any, copying: Copying, hostile: HostileS3
) -> None:
    hostile.put("a", b"1")
    assert load(copying)[0].final is Final.DONE
    (copying.state / "journal.sqlite3").write_bytes(b"no journal " * 1000)
    order, progress = load(copying)
    assert (order.final, progress.unchanged) == (Final.DONE, 1)


# --- what can't be looked at, or not be deleted -------------------------------------------------


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let a call of the kernel fail for names; root is refused nothing by itself."""

    def make(call: str, number: int, *names: str) -> None:
        real = getattr(os, call)

        def act(path: Any, *args: Any, **options: Any) -> Any:
            at = Path(f"/proc/self/fd/{path}").readlink() if isinstance(path, int) else Path(path)
            if at.name in names:
                raise OSError(number, os.strerror(number))
            return real(path, *args, **options)

        monkeypatch.setattr(os, call, act)

    return make


def deep(folder: Path, length: int = 4300) -> None:
    """Make folders so deep that the path of the last one is longer than a path may be."""
    fd = os.open(folder, os.O_RDONLY)
    for _ in range(length // 251):
        os.mkdir("d" * 250, dir_fd=fd)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("end", os.O_WRONLY | os.O_CREAT, dir_fd=fd))
    os.close(fd)


def test_a_folder_that_can_not_be_read_is_named_by_an_export_and_spared_by_its_deletions(
    load: Any, tmp_path: Path, hostile: HostileS3, refused: Callable[..., None]
) -> None:
    copying = out(tmp_path, hostile, mode="sync")
    write(copying, "fine", b"x")
    for name in ("closed", "left-out"):
        (copying.target / name).mkdir()
        (copying.target / name / "inside").write_bytes(b"y")
        hostile.put(f"to/{name}/inside", b"y")
    hostile.put("to/extra", b"z")
    refused("scandir", errno.EACCES, "closed", "left-out")
    order, progress = load(copying, delete_extra=True, exclude=["left-out/"])
    assert order.final is Final.PARTIAL, order.message
    assert {e["key"]: e["code"] for e in progress.errors} == {"closed/": "io"}
    assert (progress.done, progress.deleted) == (1, 1)
    assert set(hostile.things) == {b"to/fine", b"to/closed/inside", b"to/left-out/inside"}


def test_a_path_that_is_too_long_ends_no_export(
    load: Any, tmp_path: Path, hostile: HostileS3
) -> None:
    copying = out(tmp_path, hostile)
    write(copying, "fine", b"x")
    deep(copying.target)
    order, progress = load(copying)
    assert (order.final, progress.done, progress.skipped) == (Final.PARTIAL, 1, 1)
    assert set(hostile.things) == {b"to/fine"}


def test_what_can_not_be_looked_at_ends_no_deletion_and_is_not_deleted(
    load: Any, copying: Copying, hostile: HostileS3, refused: Callable[..., None]
) -> None:
    hostile.put("a", b"1")
    write(copying, "extra", b"2")
    deep(copying.target)
    (copying.target / "closed").mkdir()
    write(copying, "closed/inside", b"3")
    refused("scandir", errno.EACCES, "closed")
    order, progress = load(copying, mode="sync", delete_extra=True)
    assert (order.final, progress.deleted) == (Final.DONE, 1), order.message
    assert (copying.target / "closed" / "inside").exists()
    assert not (copying.target / "extra").exists()


def test_a_file_that_can_not_be_deleted_is_named(
    load: Any, copying: Copying, hostile: HostileS3, refused: Callable[..., None]
) -> None:
    hostile.put("a", b"1")
    write(copying, "busy", b"2")
    write(copying, "extra", b"3")
    refused("unlink", errno.EBUSY, "busy")
    order, progress = load(copying, mode="sync", delete_extra=True)
    assert (order.final, progress.failed, progress.deleted) == (Final.PARTIAL, 1, 1)
    assert [(e["key"], e["code"]) for e in progress.errors] == [("busy", "io")]


def test_a_volume_that_became_read_only_ends_the_deletion(
    load: Any, copying: Copying, hostile: HostileS3, refused: Callable[..., None]
) -> None:
    hostile.put("a", b"1")
    write(copying, "extra", b"2")
    refused("unlink", errno.EROFS, "extra")
    order, _ = load(copying, mode="sync", delete_extra=True)
    assert (order.final, "read-only" in order.message) == (Final.BAD_PLAN, True)


# --- answers that make no sense -----------------------------------------------------------------


@pytest.mark.parametrize(
    "headers", [{"Last-Modified": "yesterday"}, {"Last-Modified": "Mon, 99 Foo 2026"}]
)
def test_a_date_that_is_none_costs_nothing(
    load: Any, copying: Copying, hostile: HostileS3, headers: dict[str, str]
) -> None:
    hostile.put("a", b"1", headers=headers)
    hostile.put("b", b"2")
    copying.store = {**copying.store, "objects": ["a", "b"]}
    order, progress = load(copying)
    assert (order.final, progress.done) == (Final.DONE, 2), order.message


def test_a_length_that_is_none_costs_one_file(
    load: Any, copying: Copying, hostile: HostileS3
) -> None:
    hostile.put("a", b"1")
    hostile.put("b", b"2")

    def spoil(handler: Handler, call: Call) -> bool:
        if call.method == "HEAD" and call.key == "a":
            handler.say(200, b"", {"ETag": '"x"', "Content-Range": "bytes 0-0/²"})
            return True
        return False

    def say_nothing(handler: Handler, call: Call) -> bool:
        if call.method == "HEAD" and call.key == "a":
            handler.start(200, {"ETag": '"x"', "Content-Length": "²"})
            return True
        return False

    copying.store = {**copying.store, "objects": ["a", "b"]}
    for trick in (spoil, say_nothing):
        hostile.tricks = [trick]
        order, _ = load(copying)
        assert order.final is Final.PARTIAL, order.message
        assert (copying.target / "b").read_bytes() == b"2"
