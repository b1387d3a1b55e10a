"""The newest complete checkpoint of a folder, to which ``.latest`` leads before a program starts.

Complete is what was renamed into its place: whose name does not begin with a dot or ``tmp``, and
does not end with ``tmp`` or ``partial``. A folder that is written where it stays is complete once
no file ``.incomplete`` is in it. Logs and event files beside them are none, and what is older than
a run that began afresh is another run's.

Pods run this file as text, and each process on one machine reads it before it starts: so it needs
nothing else, and imports as little as can be. In a pod it also makes the folder of what its program
leaves.
"""

import os
import sys

LATEST = ".latest"  # a link beside them, made anew at each start
INCOMPLETE = ".incomplete"


def is_for_whole(name: str) -> bool:
    """Whether only what is complete has such a name, and no log."""
    low = name.lower()
    is_log = "tfevents" in low or low.endswith((".log", ".txt", ".csv", ".jsonl"))
    return not (is_log or low.startswith((".", "tmp")) or low.endswith(("tmp", "partial")))


def newest(folder: str, since: int = 0) -> str:
    """Return the name of the newest complete one, not older than ``since`` (ns); "": none is."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if not is_for_whole(entry.name):
                continue
            if entry.is_symlink() or os.path.lexists(f"{entry.path}/{INCOMPLETE}"):
                continue
            if (at := entry.stat().st_mtime_ns) >= since:
                found.append((at, entry.name))
    return max(found)[1] if found else ""


def lead(folder: str, since: int = 0) -> None:
    """Make the folder, and let ``.latest`` lead to the newest; several starts may do so at once."""
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - see above
    name, link = newest(folder, since), f"{folder}/{LATEST}"
    if name:
        new = f"{link}.{os.getpid()}"
        if os.path.lexists(new):
            os.unlink(new)  # noqa: PTH108
        os.symlink(name, new)  # noqa: PTH211
        os.rename(new, link)  # noqa: PTH104
    elif os.path.islink(link):  # noqa: PTH114
        os.unlink(link)  # noqa: PTH108


if __name__ == "__main__":
    try:
        for folder in sys.argv[3:]:
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - see above
        if sys.argv[1]:
            lead(sys.argv[1], int(sys.argv[2]))
    except OSError as problem:  # its program finds out what it can do without
        print(f"checkpoints: {problem}", file=sys.stderr)  # noqa: T201
