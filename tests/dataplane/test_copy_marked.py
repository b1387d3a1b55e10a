"""What is marked as complete at the store, and cleared away here once it is; against a real process."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

from tests.dataplane.test_copy_out import out, stored, write
from tests.support.copying import Copying
from tests.support.hostile_store import Call, Handler, HostileS3

MARKED = {"others": {"marker": "_BERTH_COMPLETE", "tells": 2}}
FILES = {"a.txt": b"a", "deep/er/b.bin": b"bb", "c.txt": b"ccc"}


def test_the_marker_comes_last_and_only_where_everything_is_there(
    tmp_path: Path, hostile: HostileS3
) -> None:
    copying = out(tmp_path, hostile, **MARKED)
    write(copying, {**FILES, "_BERTH_COMPLETE": b"of the program itself"})
    denies = [True]

    def deny(handler: Handler, call: Call) -> bool:
        if call.method != "PUT" or not call.key.endswith("c.txt") or not denies[0]:
            return False
        handler.error(403, "AccessDenied")
        return True

    hostile.tricks.append(deny)
    partial = copying.run()
    assert partial.code in {3, 4}, partial.output
    assert "to/_BERTH_COMPLETE" not in stored(hostile)
    denies.clear()
    denies.append(False)
    done = copying.run()
    assert done.code == 0, done.output
    kept = stored(hostile)
    assert json.loads(kept.pop("to/_BERTH_COMPLETE")) == {"files": 3, "bytes": 6}
    assert kept == {f"to/{name}": body for name, body in FILES.items()}
    again = copying.run()
    assert again.code == 0, again.output
    assert done.reports[-1]["final"]["files"] == [["a.txt", 1], ["c.txt", 3]]


def test_a_later_copy_that_is_not_whole_takes_the_marker_away(
    tmp_path: Path, hostile: HostileS3
) -> None:
    copying = out(tmp_path, hostile, **MARKED)
    write(copying, FILES)
    assert copying.run().code == 0
    assert "to/_BERTH_COMPLETE" in stored(hostile)
    time.sleep(0.01)
    write(copying, {"c.txt": b"changed"})

    def deny(handler: Handler, call: Call) -> bool:
        if call.method != "PUT" or not call.key.endswith("c.txt"):
            return False
        handler.error(403, "AccessDenied")
        return True

    hostile.tricks.append(deny)
    partial = copying.run()
    assert partial.code in {3, 4}, partial.output
    assert "to/_BERTH_COMPLETE" not in stored(hostile)


def test_what_was_copied_is_cleared_away_and_nothing_else(
    tmp_path: Path, hostile: HostileS3
) -> None:
    copying = out(tmp_path, hostile, **MARKED)
    write(copying, FILES)
    (copying.volume / "beside.txt").write_text("of somebody else")
    assert copying.run().code == 0
    clearing = dataclasses.replace(copying, mode="clear", others={})
    time.sleep(0.01)
    (copying.target / "a.txt").write_bytes(b"newer")  # since it was copied
    (copying.target / "deep" / "new.txt").write_bytes(b"new")
    kept = clearing.run()
    assert kept.code == 3, kept.output
    assert found(copying) == {"a.txt", "deep/new.txt"}
    assert copying.state.is_dir()
    (copying.target / "a.txt").unlink()
    later = clearing.run()  # nothing of it was copied, and the folder is still there
    assert (later.code, found(copying)) == (3, {"deep/new.txt"}), later.output
    assert "what was not copied stays" in later.output
    (copying.target / "deep" / "new.txt").unlink()
    gone = clearing.run()
    assert gone.code == 0, gone.output
    assert (copying.target.exists(), copying.state.exists()) == (False, False)
    assert (copying.volume / "beside.txt").exists()
    assert set(stored(hostile)) == {"to/_BERTH_COMPLETE", *(f"to/{name}" for name in FILES)}


def test_what_was_brought_is_cleared_away_and_nothing_else(
    tmp_path: Path, hostile: HostileS3
) -> None:
    for name, body in FILES.items():
        hostile.put(f"to/{name}", body)
    copying = Copying(tmp_path, hostile.place("to/"), hostile.outbound())
    assert copying.run().code == 0
    (copying.target / "own.txt").write_bytes(b"of the tenant")
    clearing = dataclasses.replace(copying, mode="clear")
    kept = clearing.run()
    assert (kept.code, found(copying)) == (3, {"own.txt"}), kept.output
    (copying.target / "own.txt").unlink()
    gone = clearing.run()
    assert gone.code == 0, gone.output
    assert (copying.target.exists(), copying.state.exists()) == (False, False)
    assert set(stored(hostile)) == {f"to/{name}" for name in FILES}


def found(copying: Any) -> set[str]:
    here = copying.target
    return {str(p.relative_to(here)) for p in here.rglob("*") if p.is_file()}
