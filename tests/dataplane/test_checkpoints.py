"""Which checkpoint is the newest complete one, and the link that leads there before each start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from dataplane import checkpoints


def keep(folder: Path, name: str, at: int) -> Path:
    made = folder / name
    made.mkdir()
    (made / "weights").write_text(name)
    os.utime(made, (at, at))
    return made


def test_g13_the_newest_that_is_complete_is_led_to_and_no_half_of_one(tmp_path: Path) -> None:
    folder = tmp_path / "made/by/it"
    checkpoints.lead(str(folder))
    latest = folder / checkpoints.LATEST
    assert folder.is_dir()
    assert not latest.is_symlink()
    keep(folder, "step-100", 1)
    keep(folder, "step-200", 2)
    for name in (".step-300", "tmp-step-300", "step-300.tmp", "step-300.PARTIAL"):
        keep(folder, name, 9)
    (keep(folder, "in-place", 8) / checkpoints.INCOMPLETE).touch()
    os.utime(folder / "in-place", (8, 8))
    checkpoints.lead(str(folder))
    assert (latest / "weights").read_text() == "step-200"
    (folder / "in-place" / checkpoints.INCOMPLETE).unlink()
    os.utime(folder / "in-place", (8, 8))
    checkpoints.lead(str(folder))
    assert (latest / "weights").read_text() == "in-place"
    (folder / "step-300.tmp").rename(folder / "step-300")
    checkpoints.lead(str(folder))
    assert (latest / "weights").read_text() == "step-300.tmp"


def test_g13_a_file_is_one_too_and_the_last_that_goes_takes_the_link_with_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "model.pt").write_text("weights")
    checkpoints.lead(str(tmp_path))
    assert (tmp_path / checkpoints.LATEST).read_text() == "weights"
    (tmp_path / "model.pt").unlink()
    checkpoints.lead(str(tmp_path))
    assert not (tmp_path / checkpoints.LATEST).is_symlink()


def test_g13_logs_beside_them_are_no_checkpoints(tmp_path: Path) -> None:
    keep(tmp_path, "step-1", 1)
    for name in ("events.out.tfevents.17.host.1", "train.log", "loss.csv", "notes.txt"):
        (tmp_path / name).write_text("newer")
    assert checkpoints.newest(str(tmp_path)) == "step-1"


def test_g13_what_a_run_before_left_is_not_led_to(tmp_path: Path) -> None:
    keep(tmp_path, "step-200", 2)
    since = 3 * 10**9
    checkpoints.lead(str(tmp_path), since)
    latest = tmp_path / checkpoints.LATEST
    assert not latest.is_symlink()
    keep(tmp_path, "step-10", 4)
    checkpoints.lead(str(tmp_path), since)
    assert (latest / "weights").read_text() == "step-10"


def test_as_the_text_that_a_pod_runs_it_never_fails(tmp_path: Path) -> None:
    (tmp_path / "model.pt").touch()
    text = Path(checkpoints.__file__).read_text()
    for folder in (tmp_path, tmp_path / "model.pt"):  # the second can't be a folder
        words = [sys.executable, "-c", text, str(folder), "0"]
        done = subprocess.run(words, capture_output=True, check=True)
    assert b"checkpoints: " in done.stderr
    assert str((tmp_path / checkpoints.LATEST).readlink()) == "model.pt"


def test_in_a_pod_it_makes_the_folder_of_what_the_program_leaves(tmp_path: Path) -> None:
    text = Path(checkpoints.__file__).read_text()
    words = [sys.executable, "-c", text, "", "0", str(tmp_path / "out" / "1")]
    subprocess.run(words, check=True)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out" / "1").is_dir()
