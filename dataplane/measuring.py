"""``python3 -m dataplane.measuring``: say what one volume takes on its storage, and end.

It runs beside the data at the lowest priority for processor and disk, rests as long as it works,
and stops after its time: what it counted until then is "at least". The answer is one line of JSON
in the file ``--report`` (a pod's last words). Nothing in the volume is opened but its folders.

Exit codes: 0 measured, 2 can't start (one sentence says why).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import stat
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dataplane.safepath import PATH_MAX, Folder, UnsafePath, Waiting

_BLOCK = 512
_MOST_TWICE = 200_000  # files with several names that are remembered
_LOOK_UP_EVERY = 256  # entries between two looks at the clock
_WORKS_S = 0.05
# What such a file system says of itself is what lies in it and nothing else.
_OF_ITS_OWN = frozenset({"ext2", "ext3", "ext4", "xfs"})
_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_IOPRIO_IDLE = 3 << 13


@dataclass
class Measure:
    """``whole`` False: something was not counted, so it is at least so much."""

    bytes: int = 0
    entries: int = 0
    whole: bool = True
    seconds: float = 0.0
    _twice: set[tuple[int, int]] = field(default_factory=set)

    def add(self, info: os.stat_result) -> None:
        """A file with several names counts once."""
        self.entries += 1
        if info.st_nlink > 1 and not stat.S_ISDIR(info.st_mode):
            key = (info.st_dev, info.st_ino)
            if key in self._twice:
                return
            if len(self._twice) >= _MOST_TWICE:
                self.whole = False
                return
            self._twice.add(key)
        self.bytes += info.st_blocks * _BLOCK

    def told(self) -> dict[str, object]:
        return {
            "bytes": self.bytes,
            "entries": self.entries,
            "whole": self.whole,
            "seconds": round(self.seconds, 3),
        }


class Pace:
    """Rests as long as it worked; False when the time is over."""

    def __init__(self, seconds: float, *, rest: Callable[[float], None] = time.sleep) -> None:
        self._ends = time.monotonic() + seconds
        self._since, self._count, self._rest = time.monotonic(), 0, rest

    def __call__(self) -> bool:
        self._count += 1
        if self._count % _LOOK_UP_EVERY:
            return True
        at = time.monotonic()
        if at - self._since >= _WORKS_S:
            self._rest(min(at - self._since, 1.0))
            self._since = time.monotonic()
        return at < self._ends


def measure(root: Path, seconds: float) -> Measure:
    """Ask the file system where the volume is one of its own, else look at every entry."""
    began = time.monotonic()
    mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    with Folder.at(root) as top:
        if is_of_its_own(mounts, str(root)):
            about = os.fstatvfs(top.fd)
            taken = (about.f_blocks - about.f_bfree) * about.f_frsize
            found = Measure(taken, about.f_files - about.f_ffree)
        else:
            found = counted(top, Pace(seconds))
    found.seconds = time.monotonic() - began
    return found


def is_of_its_own(mounts: str, place: str) -> bool:
    """Whether a whole disk is mounted there: not a folder of one, not a server's export."""
    for line in reversed(mounts.splitlines()):
        words = line.split(" ")
        if len(words) > 6 and words[4] == place and " - " in line:  # noqa: PLR2004 - of the format
            return words[3] == "/" and words[words.index("-") + 1] in _OF_ITS_OWN
    return False


def counted(top: Folder, goes_on: Callable[[], bool]) -> Measure:
    """Walk it without following links or leaving its file system, as ``du -x`` does."""
    found = Measure()
    about = os.fstat(top.fd)
    found.add(about)
    waiting = Waiting("")
    while waiting:
        here = waiting.take()
        try:
            with top.folder(here) as folder, os.scandir(folder.fd) as entries:
                for entry in entries:
                    if not goes_on():
                        found.whole = False
                        return found
                    _take(found, entry, here, about.st_dev, waiting)
        except (OSError, UnsafePath):  # closed to us, gone, or deeper than a path can say
            found.whole = False
    return found


def _take(
    found: Measure, entry: os.DirEntry[str], here: str, device: int, waiting: Waiting
) -> None:
    try:
        info = entry.stat(follow_symlinks=False)
    except OSError:
        return  # it went away
    if info.st_dev != device:
        return
    found.add(info)
    if not stat.S_ISDIR(info.st_mode):
        return
    below = f"{here}/{entry.name}" if here else entry.name
    if len(below) > PATH_MAX or not waiting.put(below):
        found.whole = False


def be_modest() -> None:
    """Let everybody else go first."""
    os.nice(19)
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:  # refused by some filters: then the processor's priority must do
        ctypes.CDLL(None).syscall(number, 1, 0, _IOPRIO_IDLE)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m dataplane.measuring")
    parser.add_argument("--root", required=True, help="name of the volume below BERTH_VOLUMES")
    parser.add_argument("--seconds", type=float, default=600.0, help="at most so long")
    parser.add_argument("--report", default="/dev/termination-log")
    options = parser.parse_args(words)
    base = os.environ.get("BERTH_VOLUMES", "")
    name = str(options.root)
    if not base or "/" in name or name in {"", ".", ".."} or not (Path(base) / name).is_dir():
        print("There is no such volume here (BERTH_VOLUMES).", file=sys.stderr)  # noqa: T201
        return 2
    be_modest()
    said = json.dumps(measure(Path(base) / name, options.seconds).told())
    with open(options.report, "w", encoding="ascii") as report:  # noqa: PTH123 - may be a device
        report.write(said + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
