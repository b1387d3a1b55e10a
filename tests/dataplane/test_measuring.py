"""What a volume takes, counted beside the data: as much as ``du`` says, modestly, and in time."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dataplane import measuring
from dataplane.measuring import Pace, counted, is_of_its_own
from dataplane.safepath import MOST_BYTES, Folder, Waiting

PLAIN = "36 35 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw"
DISK = "98 36 8:17 / /volumes/data rw,relatime master:2 - ext4 /dev/sdb1 rw"
FOLDER_OF_A_DISK = "99 36 8:1 /srv/volumes/1 /volumes/data rw,relatime - ext4 /dev/sda1 rw"
EXPORT = "99 36 0:55 / /volumes/data rw,relatime - nfs4 nfs.example:/vols/1 rw"
PART_OF_BTRFS = "99 36 0:31 /subvol /volumes/data rw,relatime - btrfs /dev/sdc rw"
STRANGE = "99 36 0:31 / /volumes/data rw,relatime"


def endless() -> bool:
    return True


def count(root: Path, goes_on=endless) -> measuring.Measure:
    with Folder.at(root) as top:
        return counted(top, goes_on)


def du(root: Path) -> int:
    done = subprocess.run(
        ["du", "-s", "-x", "--block-size=1", "--", str(root)], capture_output=True, check=True
    )
    return int(done.stdout.split(b"\t")[0])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    for folder in ("a/b/c", ".berth/trash/1", "empty"):
        (made / folder).mkdir(parents=True)
    for number in range(50):
        (made / f"a/b/{number}").write_bytes(b"x" * 300 * number)
    (made / ".berth/trash/1/gone").write_bytes(b"x" * 70_000)
    os.link(made / "a/b/49", made / "a/second")
    (made / "a/all").symlink_to("/")
    os.mkfifo(made / "a/pipe")
    return made


def test_it_counts_what_du_counts_with_what_was_set_aside(root: Path) -> None:
    found = count(root)
    assert (found.bytes, found.whole) == (du(root), True)
    assert found.bytes > 70_000
    assert found.entries == 1 + 6 + 3 + 50 + 1 + 1 + 1 + 1 - 2  # top, folders, files, names


def test_a_link_out_of_the_volume_adds_nothing(root: Path, tmp_path: Path) -> None:
    before = count(root).bytes
    (tmp_path / "outside").write_bytes(b"x" * 100_000)
    (root / "out").symlink_to(tmp_path)
    assert count(root).bytes - before < 50_000


def test_what_it_did_not_count_is_said(root: Path) -> None:
    left = [20]

    def some() -> bool:
        left[0] -= 1
        return left[0] > 0

    found = count(root, some)
    assert not found.whole
    assert 0 < found.bytes < du(root)


def test_folders_deeper_than_a_path_can_say_are_left_out_and_it_says_so(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(40):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    found = count(tmp_path)
    assert not found.whole
    assert found.entries > 15


def test_more_names_of_files_than_are_remembered_count_too_little_and_never_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "_MOST_TWICE", 3)
    for number in range(5):
        (tmp_path / f"f{number}").write_bytes(b"x" * 5000)
        os.link(tmp_path / f"f{number}", tmp_path / f"g{number}")
    found = count(tmp_path)
    assert not found.whole
    assert found.bytes < du(tmp_path)


def test_folders_wait_in_bounded_memory_however_long_their_paths_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounded by what they take, not by how many there are; what found no place is said."""
    waits = Waiting("")
    monkeypatch.setattr(measuring, "Waiting", lambda first: Waiting(first, 10_000))
    for number in range(60):
        (tmp_path / f"{number:03}{'d' * 200}").mkdir()
    assert count(tmp_path).whole is False
    with pytest.MonkeyPatch.context() as roomy:
        roomy.setattr(measuring, "Waiting", Waiting)
        assert count(tmp_path).whole is True
    path = "\U0001f41f" * 1000  # four bytes a letter, in memory as on disk
    taken = 0
    while waits.put(path):
        taken += 1
    assert 4000 * taken <= MOST_BYTES < 4200 * (taken + 1)
    assert waits.take() == path
    assert waits.put(path)


def test_it_rests_as_long_as_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, rested = [0.0], []
    monkeypatch.setattr(measuring.time, "monotonic", lambda: clock[0])

    def rest(seconds: float) -> None:
        rested.append(seconds)
        clock[0] += seconds

    pace = Pace(600, rest=rest)
    for _ in range(256 * 100):
        clock[0] += 0.0001
        assert pace()
    assert sum(rested) == pytest.approx(clock[0] / 2, rel=0.05)


def test_it_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(measuring.time, "monotonic", lambda: clock[0])
    pace = Pace(10, rest=lambda _s: None)
    clock[0] = 11.0
    assert not all(pace() for _ in range(256))


@pytest.mark.parametrize(
    ("mounts", "own"),
    [
        ([PLAIN, DISK], True),
        ([PLAIN, FOLDER_OF_A_DISK], False),  # the disk holds other volumes too
        ([PLAIN, EXPORT], False),
        ([PLAIN, PART_OF_BTRFS], False),
        ([PLAIN], False),
        ([DISK, FOLDER_OF_A_DISK], False),  # what was mounted last is what is seen
        ([PLAIN, STRANGE], False),
        ([], False),
    ],
)
def test_only_a_whole_disk_is_asked_what_it_holds(mounts: list[str], own: bool) -> None:
    assert is_of_its_own("\n".join(mounts) + "\n", "/volumes/data") is own


def program(base: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dataplane.measuring", *words],
        env={"BERTH_VOLUMES": str(base), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_program_leaves_its_answer_as_its_last_words(root: Path, tmp_path: Path) -> None:
    report, begun = tmp_path / "report", time.monotonic()
    done = program(root.parent, "--root", "data", "--report", str(report))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    found = json.loads(report.read_text())
    assert (found["bytes"], found["whole"]) == (du(root), True)
    assert 0 <= found["seconds"] <= time.monotonic() - begun


@pytest.mark.parametrize("name", ["", ".", "..", "../data", "a/b", "none"])
def test_only_a_volume_that_is_there_is_measured(root: Path, name: str) -> None:
    done = program(root.parent, "--root", name, "--report", "/nowhere/at/all")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
