"""Removing from a volume what was copied out of it or into it, and the state of that load."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from dataplane.copy.journal import mtime_of
from dataplane.copy.plan import Plan
from dataplane.copy.problems import Code, Final, Stop, stopped
from dataplane.copy.progress import Progress
from dataplane.copy.state import PARTS, VOLUMES, State
from dataplane.safepath import OWN, Folder, UnsafePath


def clear(state: State, progress: Progress) -> Stop:
    """Remove from the volume what was copied, as far as it still is what was copied."""
    progress.phase = "deleting"
    root = state.plan.folder
    folders = {root} if root else set[str]()
    for row in state.journal.all_rows():
        if state.stopping.is_set():
            return stopped()
        progress.found += 1
        path = above = f"{root}/{row.path}" if root else row.path
        while (above := above.rpartition("/")[0]) and above not in folders:
            folders.add(above)
        try:
            seen = state.volume.stat(path)
            if (seen.st_size, mtime_of(seen), seen.st_ino) != (row.size, row.mtime, row.inode):
                progress.fails(row.key, Code.CHANGED, "The file changed since it was copied.")
                continue
            state.volume.unlink(path)
        except FileNotFoundError:
            progress.unchanged += 1  # an earlier run did it, or a person
            continue
        except (UnsafePath, OSError) as error:
            progress.fails(row.key, Code.IO, f"It can't be removed: {error}.")
            continue
        progress.deleted += 1
    progress.listed = True
    is_empty = _fold(state, folders)
    if progress.failed:
        text = f"{progress.deleted} files removed; {progress.failed} stay and are named."
        return Stop(Final.PARTIAL, text)
    if not is_empty:
        text = f"{progress.deleted} files removed; what was not copied stays."
        return Stop(Final.PARTIAL, text)
    return Stop(Final.DONE, f"{progress.deleted} files removed.")


def _fold(state: State, folders: set[str]) -> bool:
    """Remove folders that are empty; False: in some lies what nobody copied, or came later."""
    is_empty = True
    for folder in sorted(folders, reverse=True):  # the deeper ones first
        try:
            state.volume.rmdir(folder)
        except FileNotFoundError:
            continue
        except OSError:
            is_empty = False
    return is_empty


def forget(plan: Plan) -> None:
    """Remove the state of a load of which nothing is left to do."""
    with suppress(OSError), Folder.at(Path(os.environ.get(VOLUMES, "/volumes"), plan.volume)) as at:
        where = f"{OWN}/loads/{plan.uid}"
        for inner in (f"{where}/{PARTS}", where):
            for entry in [e.name for e in at.entries(inner) if not e.is_dir(follow_symlinks=False)]:
                at.unlink(f"{inner}/{entry}")
            at.rmdir(inner)
