"""A log is bounded, and readable by offset while it rotates."""

import contextlib
import json
import os
import signal
import time
from types import SimpleNamespace

import pytest

from runtime.drivers.local import records, shim
from tests.drivers.local.harness import wait_for


def test_a_log_keeps_only_its_newest_segments(tmp_path):
    log = shim.Log(records.log_prefix(tmp_path, 1), segment=10, keep=2)
    for number in range(7):
        log.write(f"line {number}\n".encode())
    assert log.offset == 49
    assert [start for start, _ in records.log_segments(tmp_path, 1)] == [30, 40]


def test_reading_goes_over_a_rotation(tmp_path):
    log = shim.Log(records.log_prefix(tmp_path, 1), segment=10, keep=3)
    log.write(b"0123456789abcdefghij")
    assert records.read_log(tmp_path, 1, offset=5, limit=10) == (b"56789abcde", 15)
    assert records.read_log(tmp_path, 1, offset=15, limit=100) == (b"fghij", 20)


def test_an_offset_that_was_rotated_away_goes_on_at_the_oldest_kept(tmp_path):
    log = shim.Log(records.log_prefix(tmp_path, 1), segment=10, keep=2)
    log.write(b"x" * 35)
    assert records.read_log(tmp_path, 1, offset=0, limit=100) == (b"x" * 15, 35)


def test_an_offset_past_the_end_gives_no_bytes(tmp_path):
    log = shim.Log(records.log_prefix(tmp_path, 1), segment=10, keep=2)
    log.write(b"abc")
    assert records.read_log(tmp_path, 1, offset=99, limit=10) == (b"", 99)
    assert records.read_log(tmp_path, 2, offset=0, limit=10) == (b"", 0)


def test_g9_of_what_a_user_put_in_place_of_a_file_nothing_is_read(tmp_path):
    told, secret = tmp_path / "1.jsonl", tmp_path / "secret"
    assert records.read_users(told, offset=0, limit=9) == (b"", 0)
    told.write_bytes(b"first\nsecond\n")
    assert records.read_users(told, offset=6, limit=3) == (b"sec", 9)
    assert records.read_users(told, offset=99, limit=9) == (b"", 0)  # made anew: from its begin
    secret.write_bytes(b"of another")
    for put in (
        lambda: told.symlink_to(secret),
        lambda: told.hardlink_to(secret),
        told.mkdir,
        lambda: os.mkfifo(told),
    ):
        told.rmdir() if told.is_dir() else told.unlink()
        put()
        assert records.read_users(told, offset=0, limit=99) == (b"", 0)


def test_a_full_disk_costs_lines_not_the_workload(tmp_path):
    log = shim.Log(str(tmp_path / "no-such-folder" / "log-1-"), segment=10, keep=2)
    log.write(b"lost")


def test_c11_a_flood_waits_after_its_first_second(tmp_path, monkeypatch):
    monkeypatch.setattr(shim, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    log = shim.Log(records.log_prefix(tmp_path, 1), segment=10, keep=2)
    second = 32 * 1024 * 1024
    assert log.pause_after(second // 2) == 0
    assert log.pause_after(second // 4) == 0
    assert log.pause_after(second * 5 // 4) == 1


def test_c11_who_takes_a_flood_over_gives_it_no_second_for_nothing(tmp_path, monkeypatch):
    """The parent that was killed may have given it already."""
    monkeypatch.setattr(records, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    monkeypatch.setattr(shim, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    os.mkfifo(tmp_path / "output")
    writer = os.open(tmp_path / "output", os.O_RDWR)
    pump = records.OrphanPump(tmp_path, 1)
    os.write(writer, b"x" * 32768)
    assert pump.pump() == pytest.approx(1 / 1024)
    pump.close()
    os.close(writer)


_FLOOD = """
yes 0123456789012345678901234567890123456789 &
until [ -e "$HOME/enough" ]; do sleep 0.1; done
kill $!; wait; echo over; exec sleep 600
"""


@pytest.mark.real
@pytest.mark.parametrize("orphaned", [False, True], ids=["kept", "orphaned"])
def test_c11_a_flood_is_bounded_and_others_go_on(supervisor, orphaned):
    flood, begun = supervisor.shell(_FLOOD), time.monotonic()
    supervisor.ready(flood)
    if orphaned:  # its parent is killed: the supervisor itself carries the output on
        record = supervisor.state / "records" / flood.uid / "shim.json"
        os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)
    until = time.monotonic() + 3
    while time.monotonic() < until or written_by(supervisor, flood) <= records.SEGMENT_BYTES:
        found = supervisor.ready(supervisor.shell("sleep 600"))
        assert found.address == ""
        time.sleep(0.3)
    # Bounded in time: a second's worth may come at once, a chunk may just be on its way.
    (supervisor.home(flood) / "enough").touch()
    wait_for(lambda: log_end(supervisor, flood).endswith(b"over\n"))
    written, seconds = written_by(supervisor, flood), time.monotonic() - begun
    assert records.SEGMENT_BYTES < written < 32 * 1024 * 1024 * (seconds + 1.5)
    # Bounded in place, measured when nothing rotates any more.
    folder = supervisor.state / "records" / flood.uid
    total = sum(path.stat().st_size for path in folder.glob("log-*"))
    assert 0 < total <= 2 * records.SEGMENT_BYTES
    supervisor.remove(flood.uid)


def written_by(supervisor, spec):
    """Return how much was written until now."""
    folder = supervisor.state / "records" / spec.uid
    while True:
        with contextlib.suppress(FileNotFoundError):  # rotated away: there is a newer one
            found = records.log_segments(folder, spec.launch)
            return found[-1][0] + found[-1][1].stat().st_size if found else 0


def log_end(supervisor, spec):
    offset = max(written_by(supervisor, spec) - 100, 0)
    return supervisor.driver.read_log(spec.uid, offset=offset, limit=100)[0]


@pytest.mark.real
def test_following_a_log_by_offset_loses_no_byte(supervisor):
    spec = supervisor.shell(
        "for i in $(seq 200); do echo line $i; done; echo over >&2; exec sleep 60"
    )
    supervisor.driver.ensure(spec)
    data, offset = b"", 0
    deadline = time.monotonic() + 60
    while b"over" not in data and time.monotonic() < deadline:
        part, offset = supervisor.driver.read_log(spec.uid, offset=offset, limit=100)
        data += part
    assert data.decode().splitlines() == [f"line {i}" for i in range(1, 201)] + ["over"]
