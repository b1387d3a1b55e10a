"""Loads against a store that lies, drips, refuses, forgets and never ends."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import signal
import socket
import subprocess
import threading
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from dataplane.copy import listing
from dataplane.copy.lanes import SCRATCH
from dataplane.copy.large import SAVE_LEAST
from dataplane.copy.problems import Final
from tests.support.copying import Copying
from tests.support.hostile_store import Call, Handler, HostileS3, list_xml, row_xml, with_crc

MIB = 2**20


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".berth" not in path.parts
    }


def codes(progress: Any) -> dict[str, str]:
    return {error["key"]: error["code"] for error in progress.errors}


# --- D1: names ----------------------------------------------------------------------------------

BAD = {
    b"data/../../escape.txt": "bad-key",
    b"../escape2.txt": "bad-key",
    b"/abs.txt": "bad-key",
    b"a/../../b": "bad-key",
    b"nul\0byte": "bad-key",
    b"new\nline": "bad-key",
    b"n" * 300: "bad-key",
    b"a//b": "bad-key",
    b"trailing/": "bad-key",
    b".berth/loads/x": "bad-key",
    b"\xff\xfe": "bad-key",
    "\u202ecod.exe".encode(): "bad-key",
    b"file/below": "name-clash",
    b"file/deeper/still": "name-clash",
}
GOOD = [
    b"good.txt",
    b"file",
    b"file!between",
    b"Case",
    b"case",
    "שלום".encode(),
    "e\u0301".encode(),
    "\u00e9".encode(),
    ("d/" * 500 + "long").encode(),
    b"~x",
]


def test_d1_bad_keys_are_named_and_every_good_one_is_copied(
    tmp_path: Path, hostile: HostileS3
) -> None:
    """As a program, with the exit code; the folder is the whole volume, so .berth is in reach."""
    for key in (*BAD, *GOOD):
        hostile.put(key, b"content of " + key)
    hostile.page = 4
    copying = Copying(tmp_path, hostile.place(), hostile.outbound(), folder="")
    done = copying.run()
    assert (done.code, done.final["code"]) == (3, "partial"), done.output
    assert files_below(copying.volume) == {key.decode(): b"content of " + key for key in GOOD}
    assert sorted(done.errors.values()) == sorted(BAD.values())
    assert all(name.isprintable() for name in done.errors)
    assert {"new\\nline", "\\xff\\xfe", "/abs.txt", "../escape2.txt"} <= set(done.errors)
    assert not (tmp_path / "escape.txt").exists()
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix == ".txt") == []
    assert done.files == {
        "found": 24, "done": 10, "unchanged": 0, "skipped": 14, "failed": 0, "deleted": 0,
    }  # fmt: skip
    again = copying.run()
    assert (again.code, again.files["unchanged"]) == (3, 10)


def test_d1_what_stands_in_the_way_is_named_and_stays(
    load: Any, copying: Copying, hostile: HostileS3, tmp_path: Path
) -> None:
    """A folder, a file and links that lie in the target already."""
    outside = tmp_path / "outside"
    outside.mkdir()
    copying.target.mkdir(parents=True)
    (copying.target / "folder").mkdir()
    (copying.target / "plain").write_text("mine")
    (copying.target / "link").symlink_to(outside)
    (copying.target / "leaf").symlink_to(outside / "leaf")
    for key in ("folder", "plain/below", "link/in", "leaf", "fine"):
        hostile.put(key, b"new")
    order, progress = load(copying)
    assert order.final is Final.PARTIAL
    assert codes(progress) == dict.fromkeys(("folder", "plain/below", "link/in"), "name-clash")
    assert (copying.target / "fine").read_bytes() == b"new"
    assert (copying.target / "leaf").read_bytes() == b"new"  # the link itself was replaced
    assert not (copying.target / "leaf").is_symlink()
    assert list(outside.iterdir()) == []
    assert (copying.target / "plain").read_text() == "mine"


# --- D2, D3: where it goes, who it is -----------------------------------------------------------


def names_lead_to(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    def resolve(_host: str, port: int, *_a: Any, **_k: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def test_d2_the_open_socket_is_believed_and_no_name_server(
    load: Any, tmp_path: Path, hostile: HostileS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Public when it is looked at, and this machine when it is connected to."""
    names_lead_to(monkeypatch, "93.184.216.34")
    loop = asyncio.SelectorEventLoop
    connect, dialled = loop.sock_connect, []

    async def elsewhere(self: Any, one: socket.socket, address: Any) -> None:
        dialled.append(address)
        await connect(self, one, ("127.0.0.1", hostile.port))

    monkeypatch.setattr(loop, "sock_connect", elsewhere)
    place = hostile.place(endpoint=f"https://turns.example:{hostile.port}")
    outbound = {"allow": [], "ports": [443, hostile.port], "insecure_hosts": []}
    order, _ = load(Copying(tmp_path, place, outbound))
    assert order.final is Final.REFUSED_ADDRESS
    assert "leads to another address" in order.message
    assert set(dialled) == {("93.184.216.34", hostile.port)}
    assert hostile.calls == []


def test_d2_a_name_that_leads_to_a_private_address_is_refused_at_connect(
    load: Any, tmp_path: Path, hostile: HostileS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_lead_to(monkeypatch, "127.0.0.1")
    place = hostile.place(endpoint=f"http://turns.example:{hostile.port}")
    outbound = {
        "allow": [], "ports": [443, hostile.port], "insecure_hosts": []
    }  # fmt: skip
    order, _ = load(Copying(tmp_path, place, outbound))
    assert order.final is Final.REFUSED_ADDRESS  # plain http is refused before anything
    place = hostile.place(endpoint=f"https://turns.example:{hostile.port}")
    order, _ = load(Copying(tmp_path, place, outbound))
    assert order.final is Final.REFUSED_ADDRESS
    assert "public" in order.message
    assert hostile.calls == []


@pytest.mark.parametrize(
    "endpoint",
    ["https://127.0.0.1", "https://169.254.169.254", "https://[::ffff:127.0.0.1]", "https://[::1]"],
)
def test_d2_private_addresses_are_refused(load: Any, tmp_path: Path, endpoint: str) -> None:
    place = {
        "kind": "s3-compatible", "bucket": "b", "endpoint": endpoint, "path_style": True,
        "access_key": "AK", "secret_key": "SK",
    }  # fmt: skip
    order, _ = load(Copying(tmp_path, place, {"allow": [], "ports": [443]}))
    assert order.final is Final.REFUSED_ADDRESS


def test_d2_the_metadata_address_is_refused_whatever_the_operator_allows(
    load: Any, tmp_path: Path
) -> None:
    place = {
        "kind": "s3-compatible", "bucket": "b", "endpoint": "http://169.254.169.254",
        "path_style": True, "access_key": "AK", "secret_key": "SK",
    }  # fmt: skip
    outbound = {
        "allow": ["0.0.0.0/0", "169.254.0.0/16:80"], "ports": [80, 443],
        "insecure_hosts": ["169.254.169.254:80"],
    }  # fmt: skip
    order, _ = load(Copying(tmp_path, place, outbound))
    assert order.final is Final.REFUSED_ADDRESS


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_d2_no_redirect_is_followed(
    load: Any, copying: Copying, hostile: HostileS3, status: int
) -> None:
    def elsewhere(handler: Handler, call: Call) -> bool:
        handler.say(status, b"", {"Location": f"{hostile.url}/other/{call.key}"})
        return True

    hostile.tricks.append(elsewhere)
    order, _ = load(copying)
    assert order.final is Final.REFUSED_ADDRESS
    assert len(hostile.calls) == 1


def test_d3_nothing_ambient_is_used(tmp_path: Path, hostile: HostileS3) -> None:
    """No identity, proxy or key log of the environment; with a canary in each."""
    home = tmp_path / "home"
    (home / ".aws").mkdir(parents=True)
    (home / ".aws/credentials").write_text("[default]\naws_access_key_id=CANARYAMBIENT\n")
    hostile.put("a", b"x")
    dead = "http://127.0.0.1:9"
    env = {
        "HOME": str(home), "AWS_ACCESS_KEY_ID": "CANARYAMBIENT", "AWS_PROFILE": "default",
        "AWS_SECRET_ACCESS_KEY": "CANARYAMBIENT", "AWS_ENDPOINT_URL": dead,
        "HTTP_PROXY": dead, "HTTPS_PROXY": dead, "http_proxy": dead, "ALL_PROXY": dead,
        "SSLKEYLOGFILE": str(tmp_path / "keys"), "SSL_CERT_FILE": "/nowhere",
    }  # fmt: skip
    copying = Copying(tmp_path, hostile.place(anonymous=True), hostile.outbound(), env=env)
    done = copying.run()
    assert done.code == 0, done.output
    for call in hostile.calls:
        assert "authorization" not in call.headers
        assert "CANARY" not in str(call)
    assert not (tmp_path / "keys").exists()


def test_the_region_that_is_right_is_said(load: Any, copying: Copying, hostile: HostileS3) -> None:
    def wrong(handler: Handler, _call: Call) -> bool:
        body = b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-3</Region></Error>"
        handler.say(400, body)
        return True

    hostile.tricks.append(wrong)
    order, _ = load(copying)
    assert order.final is Final.BAD_PLAN
    assert "eu-west-3" in order.message


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
    order, progress = load(copying)
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
    busy = [25]

    def slow_down(handler: Handler, call: Call) -> bool:
        if call.key and busy[0]:
            busy[0] -= 1
            handler.error(503, "SlowDown")
            return True
        return False

    hostile.tricks.append(slow_down)
    order, progress = load(copying)
    assert order.final is Final.DONE, order.message
    assert progress.done == 60


def test_a_store_that_is_away_ends_the_load(load: Any, tmp_path: Path, hostile: HostileS3) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    outbound = {"allow": [f"127.0.0.0/8:{port}"], "insecure_hosts": [f"127.0.0.1:{port}"]}
    place = hostile.place(endpoint=f"http://127.0.0.1:{port}")
    order, _ = load(Copying(tmp_path, place, outbound))
    assert order.final is Final.UNREACHABLE


@pytest.mark.parametrize("kind", ["same-token", "new-tokens", "empty-pages", "no-token"])
def test_an_endless_listing_ends(
    load: Any, copying: Copying, hostile: HostileS3, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "EMPTY_PAGES_MOST", 20)
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
    monkeypatch.setattr(listing, "OBJECTS_MOST", 50)
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
        b"<ListBucketResult><Contents><Key>a</Key><Size>-5</Size></Contents></ListBucketResult>",
    ],
)
def test_what_is_no_store_is_said_so(
    load: Any, copying: Copying, hostile: HostileS3, body: bytes
) -> None:
    hostile.tricks.append(lambda handler, _call: handler.say(200, body) or True)  # type: ignore[func-returns-value]
    order, _ = load(copying)
    assert order.final is Final.UNREACHABLE


# --- the clock and the credential ---------------------------------------------------------------


@pytest.mark.parametrize("mends", [True, False])
def test_clock_skew_is_corrected_once_by_the_stores_own_time(
    load: Any, copying: Copying, hostile: HostileS3, mends: bool
) -> None:
    for n in range(30):
        hostile.put(f"{n}", b"x")
    ahead = 3 * 3600

    def skewed(handler: Handler, call: Call) -> bool:
        stamp = time.strptime(call.headers["x-amz-date"], "%Y%m%dT%H%M%SZ")
        off = abs(time.time() + ahead - (time.mktime(stamp) - time.timezone))
        if mends and off < 900:
            return False
        date = formatdate(time.time() + ahead, usegmt=True)
        handler.error(403, "RequestTimeTooSkewed", {"Date": date})
        return True

    hostile.tricks.append(skewed)
    order, progress = load(copying)
    assert order.final is (Final.DONE if mends else Final.CLOCK_SKEW)
    assert progress.done == (30 if mends else 0)
    assert len(hostile.calls) < 40


@pytest.mark.parametrize(
    ("status", "code"),
    [(403, "InvalidAccessKeyId"), (400, "ExpiredToken"), (403, "AccessDenied"), (401, "X")],
)
def test_d9_a_credential_that_is_revoked_midway_ends_it_with_few_calls(
    load: Any, copying: Copying, hostile: HostileS3, status: int, code: str
) -> None:
    for n in range(400):
        hostile.put(f"{n:04d}", b"x" * 100)
    refused: list[float] = []
    seen: list[Call] = []

    def revoke(handler: Handler, call: Call) -> bool:
        if refused:
            seen.append(call)
        if len(hostile.calls) < 100:
            return False
        refused.append(time.monotonic())
        handler.error(status, code)
        return True

    hostile.tricks.append(revoke)
    order, progress = load(copying, concurrency=4)
    assert order.final is Final.DENIED, order.message
    assert len(seen) <= 5
    assert 0 < progress.done < 400
    assert len(files_below(copying.target)) == progress.done


def test_one_object_that_is_refused_does_not_end_the_load(
    load: Any, copying: Copying, hostile: HostileS3
) -> None:
    for n in range(20):
        hostile.put(f"{n}", b"x")

    def refuse(handler: Handler, call: Call) -> bool:
        if call.key == "7":
            handler.error(403, "AccessDenied")
            return True
        return False

    hostile.tricks.append(refuse)
    order, progress = load(copying)
    assert order.final is Final.PARTIAL
    assert codes(progress) == {"7": "denied"}
    assert progress.done == 19


# --- D7: killed ---------------------------------------------------------------------------------


def test_d7_large_objects_go_on_in_the_middle_after_a_kill(
    tmp_path: Path, hostile: HostileS3
) -> None:
    """SIGKILL at half; the second run reads what was missing, and counted at the server."""
    bodies = {f"l{n}": random.Random(n).randbytes(60 * MIB) for n in range(3)}
    for key, body in bodies.items():
        hostile.put(key, body)
    total = sum(map(len, bodies.values()))

    def steady(handler: Handler, call: Call) -> bool:
        if call.method == "GET" and call.key:
            handler.give(pause=0.002)
            return True
        return False

    hostile.tricks.append(steady)
    four = {"concurrency": 4}
    copying = Copying(tmp_path, hostile.place(), hostile.outbound(), others=four)
    killed = copying.run(kill_when=lambda report: report["bytes"]["read"] > total / 2)
    assert killed.code == -signal.SIGKILL, killed.output
    assert all(body == bodies[name] for name, body in files_below(copying.target).items())
    before = hostile.read()
    known = killed.reports[-1]["bytes"]["read"]
    time.sleep(0.3)
    before = hostile.read()
    done = copying.run()
    assert done.code == 0, done.output
    assert files_below(copying.target) == bodies
    read = hostile.read() - before
    # What the first run had is at least what it had reported last, but for what was in memory:
    # a block for each connection, what is noted at once, and a twentieth of a second's reading
    # on a machine that may be busy.  (The goal of 1.02 is measured on 8 GiB: loads-large.)
    assert read <= 1.02 * (total - known) + 4 * SCRATCH + SAVE_LEAST + 8 * MIB
    assert read <= 0.55 * total


def test_a_part_that_was_lost_with_the_machine_is_read_again(
    tmp_path: Path, hostile: HostileS3
) -> None:
    """The journal says that bytes are there, and the disk never got them."""
    body = random.Random(5).randbytes(60 * MIB)
    hostile.put("l", body)
    stop = [True]

    def cut(handler: Handler, call: Call) -> bool:
        if stop[0] and call.method == "GET" and call.key:
            handler.give(pause=0.02)
            return True
        return False

    hostile.tricks.append(cut)
    copying = Copying(tmp_path, hostile.place(), hostile.outbound())
    stopped = copying.run(
        kill_when=lambda report: report["bytes"]["read"] > 20 * MIB, sig=signal.SIGTERM
    )
    assert (stopped.code, stopped.final["code"]) == (5, "stopped"), stopped.output
    stop[0] = False
    (part,) = (copying.state / "parts").iterdir()
    with part.open("r+b") as file:
        file.write(bytes(1000))
    done = copying.run()
    assert done.code == 0, done.output
    assert files_below(copying.target) == {"l": body}


# --- D8: full -----------------------------------------------------------------------------------


def test_d8_what_can_not_fit_is_refused_before_anything_is_read(
    load: Any, copying: Copying, hostile: HostileS3
) -> None:
    for n in range(10):
        hostile.put(f"{n}", b"x" * 100_000)
    order, progress = load(copying, space_bytes=500_000)
    assert order.final is Final.QUOTA
    assert "KiB" in order.message
    assert (progress.done, hostile.read()) == (0, 0)
    order, _ = load(copying, space_bytes=1_000_000)
    assert order.final is Final.DONE


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    folder = tmp_path / "data"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("this machine mounts no tmpfs")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize("size", [50_000, 3 * MIB])
def test_d8_a_disk_that_fills_up_meanwhile_stops_the_load_cleanly(
    load: Any, tmp_path: Path, hostile: HostileS3, small_disk: Path, size: int
) -> None:
    count = 18 * MIB // size
    for n in range(count):
        hostile.put(f"{n:04d}", random.Random(n).randbytes(size))
    filler = small_disk / "filler"

    def fill(_handler: Handler, call: Call) -> bool:
        if call.key and len(hostile.calls) == count // 2:
            with filler.open("wb") as file:
                try:
                    while True:
                        file.write(bytes(MIB))
                        file.flush()
                except OSError:
                    pass
        return False

    hostile.tricks.append(fill)
    copying = Copying(tmp_path, hostile.place(), hostile.outbound())
    order, progress = load(copying, concurrency=2)
    assert order.final is Final.DISK_FULL, order.message
    there = files_below(copying.target)
    assert all(len(body) == size for body in there.values())
    assert progress.done == len(there) < count
    filler.unlink()
    hostile.tricks.clear()
    order, _ = load(copying)
    assert order.final is Final.DONE
    assert len(files_below(copying.target)) == count


def test_d8_a_load_larger_than_the_disk_reads_nothing(
    load: Any, tmp_path: Path, hostile: HostileS3, small_disk: Path
) -> None:
    hostile.put("big", bytes(40 * MIB))
    order, _ = load(Copying(tmp_path, hostile.place(), hostile.outbound()))
    assert order.final is Final.DISK_FULL
    assert hostile.read() == 0
