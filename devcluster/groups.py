"""The control group under which the kubelet puts all pods of this cluster."""

import os
import time
from pathlib import Path

from devcluster.layout import Layout

CONTROL = Path("/sys/fs/cgroup")
TRIES = 50
PAUSE_S = 0.1
# New groups of version 1 have none, and take no process then.
INHERITED = ("cpuset.cpus", "cpuset.mems")


def hierarchies() -> list[Path]:
    """Each controller's of version 1, or the one of version 2."""
    if (CONTROL / "cgroup.controllers").exists():
        return [CONTROL]
    return [path for path in CONTROL.iterdir() if path.is_dir() and not path.is_symlink()]


def make(layout: Layout) -> None:
    for top in hierarchies():
        folder = top / layout.group
        folder.mkdir(exist_ok=True)
        for name in INHERITED:
            own, above = folder / name, top / name
            if own.exists() and above.exists() and not own.read_text().strip():
                own.write_text(above.read_text())


def left(layout: Layout) -> list[Path]:
    folders = (top / layout.group for top in hierarchies())
    return [folder for folder in folders if folder.is_dir()]


def remove(layout: Layout) -> None:
    """Innermost first; a group lives on for a moment after its last process."""
    for _ in range(TRIES):
        for top in left(layout):
            for path, _, _ in os.walk(top, topdown=False):
                try:
                    Path(path).rmdir()
                except OSError:
                    continue
        if not left(layout):
            return
        time.sleep(PAUSE_S)
