"""Loads that lose the clock, the credential, the process or the disk midway."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from dataplane.copy.lanes import SCRATCH
from dataplane.copy.large import SAVE_LEAST
from dataplane.copy.problems import Final
from tests.support.copying import Copying, codes, files_below
from tests.support.hostile_store import Call, Handler, HostileS3

MIB = 2**20


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


def no_listing(handler: Handler, call: Call) -> bool:
    if call.method == "GET" and not call.key:
        handler.error(403, "AccessDenied")
        return True
    return False


@pytest.mark.parametrize("prefix", ["in/one.bin", "one.bin"])
def test_one_object_needs_no_right_to_list(
    load: Any, tmp_path: Path, hostile: HostileS3, prefix: str
) -> None:
    hostile.put(prefix, b"one")
    hostile.put(f"{prefix}.other", b"other")
    hostile.tricks.append(no_listing)
    copying = Copying(tmp_path, hostile.place(prefix), hostile.outbound())
    order, _ = load(copying)
    assert order.final is Final.DONE, order.message
    assert files_below(copying.target) == {"one.bin": b"one"}


def test_an_address_of_an_object_and_of_a_folder_is_listed_where_that_is_allowed(
    load: Any, tmp_path: Path, hostile: HostileS3
) -> None:
    hostile.put("data", b"one")
    hostile.put("data-2", b"two")
    copying = Copying(tmp_path, hostile.place("data"), hostile.outbound())
    order, _ = load(copying)
    assert order.final is Final.DONE, order.message
    assert files_below(copying.target) == {"data": b"one", "data-2": b"two"}


@pytest.mark.parametrize("prefix", ["", "in/", "in/none.bin"])
def test_what_is_not_one_object_is_told_as_denied(
    load: Any, tmp_path: Path, hostile: HostileS3, prefix: str
) -> None:
    hostile.put("in/one.bin", b"one")
    hostile.tricks.append(no_listing)
    order, _ = load(Copying(tmp_path, hostile.place(prefix), hostile.outbound()))
    assert order.final is Final.DENIED
