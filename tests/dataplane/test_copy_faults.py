"""Loads against a store that lies, drips, is busy and never ends."""

from __future__ import annotations

import hashlib
import random
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dataplane.copy import pages
from dataplane.copy.problems import Final
from tests.dataplane.conftest import QUICK
from tests.support.copying import Copying, codes, files_below
from tests.support.hostile_store import Call, Handler, HostileS3, list_xml, row_xml, with_crc

MIB = 2**20


# --- lengths and bodies -------------------------------------------------------------------------


@pytest.mark.parametrize("size", [3_000, 300_000, 20 * MIB])
@pytest.mark.parametrize("wrong", ["cut", "long", "short"])
def test_a_store_that_lies_about_length_leaves_no_partial_file(
    load: Any, copying: Copying, hostile: HostileS3, size: int, wrong: str
) -> None:
    body = random.Random(size).randbytes(size)
    hostile.put("good", b"good")
    hostile.put("lied", body)
    tricks: dict[str, dict[str, Any]] = {
        "cut": {"cut": 1000},
        "long": {"length": size + 10},
        "short": {"length": 1000},
    }

    def lie(handler: Handler, call: Call) -> bool:
        if call.method == "GET" and call.key == "lied":
            handler.give(**tricks[wrong])
            return True
        return False

    hostile.tricks.append(lie)
    if wrong == "cut" and size > 16 * MIB:
        pytest.skip("each try brings a thousand bytes more, so this one ends well, some day")
    order, progress = load(copying)
    assert order.final is Final.PARTIAL, order.message
    assert set(codes(progress)) == {"lied"}
    assert files_below(copying.target) == {"good": b"good"}


@pytest.mark.parametrize("size", [0, 3_000, 300_000, 40 * MIB])
@pytest.mark.parametrize("framing", ["chunked", "closed"])
def test_an_answer_without_a_length_arrives_by_one_call_for_each_piece(
    load: Any, copying: Copying, hostile: HostileS3, size: int, framing: str
) -> None:
    body = random.Random(size).randbytes(size)
    hostile.put("unsized", body, sums=with_crc(body))

    def give(handler: Handler, call: Call) -> bool:
        if call.method == "GET" and call.key:
            handler.give(framing=framing)
            return True
        return False

    hostile.tricks.append(give)
    order, _progress = load(copying)
    assert order.final is Final.DONE, order.message
    assert files_below(copying.target) == {"unsized": body}
    asked = [call for call in hostile.calls if call.method == "GET" and call.key]
    assert len(asked) == len({call.headers.get("range") for call in asked})


@pytest.mark.parametrize("size", [3_000, 300_000, 20 * MIB])
@pytest.mark.parametrize("wrong", [{"cut": 1000}, {"extra": b"more"}], ids=["short", "long"])
def test_a_chunked_answer_of_another_length_is_named_and_not_asked_for_again(
    load: Any, copying: Copying, hostile: HostileS3, size: int, wrong: dict[str, Any]
) -> None:
    hostile.put("lied", random.Random(size).randbytes(size))
    hostile.put("good", b"good")

    def lie(handler: Handler, call: Call) -> bool:
        if call.method == "GET" and call.key == "lied":
            handler.give(framing="chunked", **wrong)
            return True
        return False

    hostile.tricks.append(lie)
    order, progress = load(copying)
    assert order.final is Final.PARTIAL, order.message
    assert codes(progress) == {"lied": "length"}
    assert files_below(copying.target) == {"good": b"good"}
    asked = [call for call in hostile.calls if call.method == "GET" and call.key == "lied"]
    assert len(asked) <= 4


@pytest.mark.parametrize("size", [3_000, 300_000, 20 * MIB])
def test_an_answer_with_two_lengths_is_named_and_not_asked_for_again_and_again(
    load: Any, copying: Copying, hostile: HostileS3, size: int
) -> None:
    hostile.put("two", b"x" * size)

    def both(handler: Handler, call: Call) -> bool:
        if call.method == "GET" and call.key:
            handler.give(headers={"Transfer-Encoding": "chunked"})
            return True
        return False

    hostile.tricks.append(both)
    order, progress = load(copying)
    assert (order.final, codes(progress)) == (Final.PARTIAL, {"two": "length"})
    asked = [call for call in hostile.calls if call.method == "GET" and call.key]
    assert len(asked) <= 3  # as an object that changed meanwhile is


def test_an_object_of_a_list_that_has_no_length_is_named(
    load: Any, copying: Copying, hostile: HostileS3
) -> None:
    hostile.put("unsized", b"more than nothing")

    def silent(handler: Handler, call: Call) -> bool:
        if call.method != "HEAD":
            return False
        handler.start(200, {"ETag": '"x"', "Transfer-Encoding": "chunked"})
        return True

    hostile.tricks.append(silent)
    copying.store["objects"] = ["unsized"]
    order, progress = load(copying)
    assert (order.final, codes(progress)) == (Final.PARTIAL, {"unsized": "length"})
    assert sum(call.method == "HEAD" for call in hostile.calls) == 1


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("size", [300_000, 20 * MIB])
def test_a_body_that_breaks_off_now_and_then_arrives_whole(
    load: Any, copying: Copying, hostile: HostileS3, size: int
) -> None:
    """A large one goes on where it broke off, and reads nothing twice."""
    body = random.Random(size).randbytes(size)
    hostile.put("x", body)
    left = [3]

    def break_off(handler: Handler, call: Call) -> bool:
        if call.method == "GET" and call.key == "x" and left[0]:
            left[0] -= 1
            handler.give(cut=size // 5)
            return True
        return False

    hostile.tricks.append(break_off)
    order, _ = load(copying)
    assert order.final is Final.DONE
    assert files_below(copying.target) == {"x": body}
    if size > 16 * MIB:
        assert hostile.read() <= 1.02 * size


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("size", [3_000, 300_000, 20 * MIB])
@pytest.mark.parametrize("kind", ["md5", "crc32c", "crc64nvme", "sha256"])
def test_bytes_that_changed_on_the_way_are_never_named(
    load: Any, copying: Copying, hostile: HostileS3, size: int, kind: str
) -> None:
    body = random.Random(size).randbytes(size)
    broken = body[: size // 2] + bytes([body[size // 2] ^ 1]) + body[size // 2 + 1 :]
    sums = {}
    if kind == "sha256":
        import base64
        import hashlib

        sums = {"sha256": base64.b64encode(hashlib.sha256(body).digest()).decode()}
    elif kind != "md5":
        sums = with_crc(body, kind)
    etag = "" if kind == "md5" else "no-sum-at-all"
    thing = hostile.put("x", body, etag=etag, sums=sums)
    order, progress = load(copying)
    assert order.final is Final.DONE
    assert progress.verified == {kind: 1}
    thing.body = broken  # its sums still tell of what it was
    (copying.target / "x").unlink()
    order, progress = load(copying)
    assert order.final is Final.PARTIAL
    assert codes(progress) == {"x": "checksum"}
    assert files_below(copying.target) == {}


@pytest.mark.parametrize(
    ("part", "says", "verified"),
    [
        (8, True, "multipart-md5"),
        (8, False, "multipart-md5"),
        (7, True, "multipart-md5"),
        (7, False, "length"),
    ],
)
def test_an_etag_of_parts_is_compared_where_their_size_is_known_or_guessed(
    load: Any, copying: Copying, hostile: HostileS3, part: int, says: bool, verified: str
) -> None:
    """A guess that does not fit proves nothing, and the file says so; a known size does."""
    body = random.Random(3).randbytes(20 * MIB)
    pieces = [body[at : at + part * MIB] for at in range(0, len(body), part * MIB)]
    whole = hashlib.md5(b"".join(hashlib.md5(piece).digest() for piece in pieces))
    thing = hostile.put("x", body, etag=f"{whole.hexdigest()}-{len(pieces)}")

    def by_part(handler: Handler, call: Call) -> bool:
        if "partNumber" not in call.query:
            return False
        if says:
            handler.say(
                206, b"", {"Content-Length": str(len(pieces[0])), "ETag": f'"{thing.etag}"'}
            )
        else:
            handler.error(501, "NotImplemented")
        return True

    hostile.tricks.append(by_part)
    order, progress = load(copying)
    assert order.final is Final.DONE
    assert progress.verified == {verified: 1}
    (copying.target / "x").unlink()
    thing.body = bytes(MIB) + body[MIB:]
    order, progress = load(copying)
    assert order.final is (Final.PARTIAL if says else Final.DONE)
    assert dict(progress.verified) == ({} if says else {"length": 1})


def test_what_could_not_be_verified_is_said_so(
    load: Any, copying: Copying, hostile: HostileS3
) -> None:
    kms = {"x-amz-server-side-encryption": "aws:kms"}
    hostile.put("kms", b"x" * 1000, headers=kms, etag="0" * 32)
    hostile.put("odd", b"y" * 1000, etag="odd")
    order, progress = load(copying)
    assert order.final is Final.DONE
    assert progress.verified == {"length": 2}
    assert {line["verified"] for line in copying.manifest()} == {"length"}
    assert all(line["crc32c"] for line in copying.manifest())


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("size", [3_000, 40 * MIB])
def test_an_object_that_changes_meanwhile_is_taken_as_it_is_then(
    load: Any, copying: Copying, hostile: HostileS3, size: int
) -> None:
    old, new = random.Random(1).randbytes(size), random.Random(2).randbytes(size + 100)
    hostile.put("x", old)
    changed = []

    def change(_handler: Handler, call: Call) -> bool:
        if call.method == "GET" and call.key == "x" and not changed:
            changed.append(True)
            hostile.put("x", new)
        return False

    hostile.tricks.append(change)
    order, _ = load(copying)
    assert order.final is Final.DONE
    assert files_below(copying.target) == {"x": new}


def test_an_object_that_is_gone_meanwhile_is_named(
    load: Any, copying: Copying, hostile: HostileS3
) -> None:
    hostile.put("gone", b"x")
    hostile.put("stays", b"y")

    def vanish(_handler: Handler, call: Call) -> bool:
        if call.key == "gone":
            hostile.things.pop(b"gone", None)
        return False

    hostile.tricks.append(vanish)
    order, progress = load(copying)
    assert order.final is Final.PARTIAL
    assert codes(progress) == {"gone": "gone"}
    assert files_below(copying.target) == {"stays": b"y"}
    hostile.tricks.clear()
    hostile.put("gone", b"back")
    order, progress = load(copying, retry_failed_only=True)
    assert order.final is Final.DONE
    assert (progress.found, progress.done) == (1, 1)
    assert load(copying, retry_failed_only=True)[1].found == 0


# --- slow, busy, endless ------------------------------------------------------------------------


def test_a_store_that_drips_or_keeps_silent_is_given_up(
    load: Any, copying: Copying, hostile: HostileS3
) -> None:
    hostile.put("drips", b"x" * 30_000)
    hostile.put("silent", b"y")
    hostile.put("fine", b"z")
    release = threading.Event()

    def slow(handler: Handler, call: Call) -> bool:
        if call.key == "silent":
            release.wait(20)
            return True
        if call.key == "drips":
            handler.give(pause=0.2, step=50)
            return True
        return False

    hostile.tricks.append(slow)
    begun = time.monotonic()
    order, progress = load(copying, replace(QUICK, answer_s=3.0, slow_s=0.8))
    release.set()
    assert time.monotonic() - begun < 40
    assert order.final is Final.PARTIAL
    assert codes(progress) == dict.fromkeys(("drips", "silent"), "unreachable")
    assert files_below(copying.target) == {"fine": b"z"}


def test_a_store_that_is_busy_is_asked_less_and_all_arrives(
    load: Any, copying: Copying, hostile: HostileS3
) -> None:
    for n in range(60):
        hostile.put(f"{n:03d}", b"x")
    hostile.be_busy(times=25)
    order, progress = load(copying)
    assert order.final is Final.DONE, order.message
    assert progress.done == 60


def test_a_store_that_is_away_ends_the_load(load: Any, tmp_path: Path, hostile: HostileS3) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]  # held, and nobody listens: nobody else can take it
        outbound = {"allow": [f"127.0.0.0/8:{port}"], "insecure_hosts": [f"127.0.0.1:{port}"]}
        place = hostile.place(endpoint=f"http://127.0.0.1:{port}")
        order, _ = load(Copying(tmp_path, place, outbound))
    assert order.final is Final.UNREACHABLE


@pytest.mark.parametrize("kind", ["same-token", "new-tokens", "empty-pages", "no-token"])
def test_an_endless_listing_ends(
    load: Any, copying: Copying, hostile: HostileS3, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "EMPTY_PAGES_MOST", 20)
    thing = hostile.put("a", b"x")
    number = [0]

    def endless(handler: Handler, call: Call) -> bool:
        if call.key:
            return False
        number[0] += 1
        token = {"same-token": "again", "no-token": ""}.get(kind, f"t{number[0]}")
        rows = "" if kind == "empty-pages" else row_xml(b"a", thing)
        body = list_xml(rows, token)
        if kind == "no-token":
            body = body.replace(b"false", b"true")
        handler.say(200, body)
        return True

    hostile.tricks.append(endless)
    order, _ = load(copying)
    assert order.final in {Final.ENDLESS_LISTING, Final.UNREACHABLE}
    assert (order.final is Final.UNREACHABLE) is (kind == "no-token")
    assert len([c for c in hostile.calls if not c.key]) < 60


def test_a_listing_without_end_is_bounded_in_objects(
    load: Any, copying: Copying, hostile: HostileS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "OBJECTS_MOST", 50)
    for n in range(80):
        hostile.put(f"{n:03d}", b"x")
    hostile.page = 10
    order, _ = load(copying)
    assert order.final is Final.ENDLESS_LISTING


@pytest.mark.parametrize(
    "body",
    [
        b"<html>hello</html>",
        b"",
        b"<!DOCTYPE x [<!ENTITY a 'b'>]><ListBucketResult>&a;</ListBucketResult>",
        b"{}",
        b"<ListBucketResult><Contents><Size>5</Size></Contents></ListBucketResult>",
    ],
)
def test_what_is_no_store_is_said_so(
    load: Any, copying: Copying, hostile: HostileS3, body: bytes
) -> None:
    hostile.tricks.append(lambda handler, _call: handler.say(200, body) or True)  # type: ignore[func-returns-value]
    order, _ = load(copying)
    assert order.final is Final.UNREACHABLE
