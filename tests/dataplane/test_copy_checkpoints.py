"""Checkpoints at a store: the newest that are whole, never half of one; and the newest back."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.dataplane.test_copy_out import MIB, stored
from tests.support.copying import Copying, files_below
from tests.support.hostile_store import Call, Handler, HostileS3

INDEX = "to/_BERTH_CHECKPOINTS"


@pytest.fixture
def keeping(tmp_path: Path, hostile: HostileS3) -> Copying:
    where, allowed = hostile.place("to/"), hostile.outbound()
    copying = Copying(tmp_path, where, allowed, direction="out", others={"newest": 2})
    copying.target.mkdir(parents=True)
    return copying


def checkpoint(copying: Copying, name: str, at: int, **files: bytes) -> Path:
    folder = copying.target / name
    folder.mkdir()
    for file, body in files.items():
        (folder / file).write_bytes(body)
    os.utime(folder, (at, at))
    return folder


def names(hostile: HostileS3) -> list[str]:
    """Which the index says are whole, the newest first."""
    return [row[0] for row in json.loads(stored(hostile)[INDEX])["checkpoints"]]


def restoring(copying: Copying, hostile: HostileS3) -> Copying:
    more: dict[str, Any] = {"folder": copying.folder, "others": {"newest": 2}}
    return Copying(copying.base, hostile.place("to/"), hostile.outbound(), **more)


def test_g13_the_newest_whole_ones_are_kept_and_no_half_one(
    keeping: Copying, hostile: HostileS3
) -> None:
    for number in range(1, 5):
        checkpoint(keeping, f"step-{number}", 1_700_000_000 + number, model=b"m%d" % number)
    checkpoint(keeping, "step-5.tmp", 1_700_000_009, model=b"half")
    checkpoint(keeping, "step-6", 1_700_000_010, model=b"half", **{".incomplete": b""})
    (keeping.target / ".latest").symlink_to("step-4")
    hostile.put("to/of-somebody-else", b"stays")
    done = keeping.run()
    assert done.code == 0, done.output
    assert names(hostile) == ["step-4", "step-3"]
    checkpoint(keeping, "step-7", 1_700_000_020, model=b"m7")
    (keeping.target / "weights.pt").write_bytes(b"one file")
    done = keeping.run()
    assert done.code == 0, done.output
    assert names(hostile) == ["weights.pt", "step-7"]
    kept = {key.rpartition("-")[2] for key in stored(hostile)}
    assert kept == {INDEX, "weights.pt", "7/model", "to/of-somebody-else".rpartition("-")[2]}
    shutil.rmtree(keeping.target)  # its volume is lost, and a new one is empty
    keeping.target.mkdir()
    assert keeping.run().code == 0
    assert names(hostile) == ["weights.pt", "step-7"]


def test_g13_one_that_is_refused_or_cut_off_is_not_named_and_the_one_before_stays(
    keeping: Copying, hostile: HostileS3
) -> None:
    checkpoint(keeping, "step-1", 1_700_000_001, model=b"m1")
    assert keeping.run().code == 0
    checkpoint(keeping, "step-2", 1_700_000_002, model=b"m2", other=b"o2")
    denies = [True]

    def deny(handler: Handler, call: Call) -> bool:
        if not denies or call.method != "PUT" or not call.key.endswith("other"):
            return False
        handler.error(403, "AccessDenied")
        return True

    hostile.tricks.append(deny)
    refused = keeping.run()
    assert refused.code in {3, 4}, refused.output
    assert names(hostile) == ["step-1"]
    denies.clear()
    body = random.Random(1).randbytes(64 * MIB)
    checkpoint(keeping, "step-3", 1_700_000_003, model=body)
    is_killed = threading.Event()

    def hold(_handler: Handler, call: Call) -> bool:
        late = int(call.query.get("partNumber", 0)) > 2
        return late and not is_killed.is_set() and is_killed.wait(30)

    hostile.tricks.append(hold)
    killed = keeping.run(kill_when=lambda _report: any(map(len, hostile.uploads.values())))
    is_killed.set()
    assert killed.code == -signal.SIGKILL, killed.output
    assert names(hostile) == ["step-1"]
    done = keeping.run()
    assert done.code == 0, done.output
    assert names(hostile) == ["step-3", "step-2"]
    assert [key for key, _size in done.final["files"]] == [
        "1700000003000000000-step-3",
        "1700000002000000000-step-2",
    ]


@pytest.mark.parametrize("as_file", [False, True])
def test_g13_what_is_lost_comes_back_whole_and_what_is_newer_is_left(
    as_file: bool, keeping: Copying, hostile: HostileS3
) -> None:
    checkpoint(keeping, "step-1", 1_700_000_001, model=b"m1")
    if as_file:
        (keeping.target / "step-2").write_bytes(b"all in one")
        os.utime(keeping.target / "step-2", (1_700_000_002, 1_700_000_002))
    else:
        checkpoint(keeping, "step-2", 1_700_000_002, model=b"m2", other=b"o2")
    before = files_below(keeping.target)
    assert keeping.run().code == 0
    shutil.rmtree(keeping.target)
    for left in (".restoring-1", ".before-1-step-1"):  # by earlier ones
        (keeping.target / left).mkdir(parents=True)
        (keeping.target / left / "half").write_bytes(b"h")
    back = restoring(keeping, hostile)
    done = back.run()
    assert done.code == 0, done.output
    found = files_below(keeping.target)
    assert found == {path: body for path, body in before.items() if path.startswith("step-2")}
    assert (keeping.target / "step-2").stat().st_mtime == 1_700_000_002
    assert [one.name for one in keeping.target.iterdir()] == ["step-2"]
    checkpoint(keeping, "step-3", 1_700_000_003, model=b"m3")
    shutil.rmtree(keeping.target / "step-2") if not as_file else (
        keeping.target / "step-2"
    ).unlink()
    assert back.run().code == 0  # the folder has a newer one
    assert {one.name for one in keeping.target.iterdir()} == {"step-3"}


def test_g13_one_that_is_written_again_takes_no_place_of_others(
    keeping: Copying, hostile: HostileS3
) -> None:
    checkpoint(keeping, "step-1", 1_700_000_001, model=b"m1")
    for number in range(1, 4):
        state = keeping.target / "state.json"
        state.write_bytes(b"s%d" % number)
        os.utime(state, (1_700_000_001 + number, 1_700_000_001 + number))
        done = keeping.run()
        assert done.code == 0, done.output
        assert names(hostile) == ["state.json", "step-1"]
    assert [body for key, body in stored(hostile).items() if "state" in key] == [b"s3"]


def test_g13_a_store_that_denies_holds_up_nobody_whose_folder_is_whole(
    keeping: Copying, hostile: HostileS3
) -> None:
    folder = checkpoint(keeping, "step-1", 1_700_000_001, model=b"m1")
    assert keeping.run().code == 0

    def deny(handler: Handler, _call: Call) -> bool:
        handler.error(403, "AccessDenied")
        return True

    hostile.tricks.append(deny)
    back = restoring(keeping, hostile)
    back.others = {**back.others, "newest_at": folder.stat().st_mtime_ns}
    done = back.run()
    assert (done.code, done.final["files"]) == (0, []), done.output
    shutil.rmtree(folder)
    assert back.run().code not in {0, 3}


def test_g13_a_copy_that_lacks_a_file_is_not_brought_back(
    keeping: Copying, hostile: HostileS3
) -> None:
    checkpoint(keeping, "step-2", 1_700_000_002, model=b"m2", other=b"o2")
    assert keeping.run().code == 0
    shutil.rmtree(keeping.target)
    for key in [key for key in hostile.things if key.endswith(b"other")]:
        del hostile.things[key]
    back = restoring(keeping, hostile).run()
    assert back.code == 3, back.output
    assert not [one for one in keeping.target.iterdir() if not one.name.startswith(".")]


def test_nothing_to_bring_back_is_no_fault(keeping: Copying, hostile: HostileS3) -> None:
    assert restoring(keeping, hostile).run().code == 0
