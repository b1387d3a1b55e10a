"""The volume, the folder to copy to, the state of the load beside it, and how files get there.

Finished files get their final names a batch at a time, in a thread of its own: what was written
is made durable (one call of the kernel for a whole batch), the rows are committed, and then the
names are given. Killed in between, the next run finds the row and the file (by its inode) and only
gives the name.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import sqlite3
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self, TextIO

from dataplane.copy.http1 import now
from dataplane.copy.journal import Journal, Row
from dataplane.copy.plan import Plan
from dataplane.copy.problems import (
    Code,
    Final,
    Stop,
    Trouble,
    of_journal,
    of_os,
    stopped,
    trouble_of,
)
from dataplane.copy.progress import Progress
from dataplane.safepath import OWN, Folder, UnsafePath

VOLUMES = "BERTH_VOLUMES"
PARTS = "parts"
MANIFEST = "manifest.jsonl"
RESULT = "result.json"
PAGE = 64 * 1024
FOLDERS = 128  # kept open
LOCK_WAIT_S = 20.0  # the run before this one may still be ending
BATCH = 1000
WAIT_S = 0.25
FEW = 8
WAITING_MOST = 4000
_libc = ctypes.CDLL(None, use_errno=True)


class State:
    """Everything that is open in the volume. ``folder`` is where files end up."""

    def __init__(self, plan: Plan, stopping: threading.Event) -> None:
        self.stopping = stopping  # set by a signal: end soon, keep the state
        root = os.environ.get(VOLUMES, "/volumes")
        self.plan = plan
        self.where = f"{OWN}/loads/{plan.uid}"
        try:
            self.volume = Folder.at(Path(root) / plan.volume)
            # these need the journal only: the folder may be gone
            chosen = "" if plan.mode in {"abandon", "clear"} else plan.folder
            self.folder = self.volume.folder(chosen, make=plan.direction == "in")
            self.home = self.volume.folder(self.where, make=True)
            self.parts = self.home.folder(PARTS, make=True)
            self._lock = self.home.open("lock", os.O_RDWR | os.O_CREAT, 0o660)
        except FileNotFoundError:
            raise Stop(Final.BAD_PLAN, "The volume or the folder is not there.") from None
        except (UnsafePath, OSError) as error:
            raise _as_stop(error) from None
        try:
            self._hold()
            self.journal = Journal(self.home)
        except sqlite3.Error as error:
            meant = of_journal(error, self.try_to_write)
            self._release()
            raise meant from None
        except BaseException:
            self._release()
            raise
        self.folds = self._folds()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.close()
        self._release()

    def _release(self) -> None:
        os.close(self._lock)
        for folder in (self.parts, self.home, self.folder, self.volume):
            folder.close()

    def room(self) -> int:
        """Return how many bytes the file system still takes."""
        seen = os.fstatvfs(self.volume.fd)
        return seen.f_bavail * seen.f_frsize

    def try_to_write(self) -> None:
        """Write as much as a page of the journal; raises what the volume says against it."""
        name = "room"
        fd = self.home.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o660)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(bytes(PAGE))
                file.flush()
                os.fsync(fd)
        finally:
            self.home.unlink(name)

    @contextmanager
    def writing(self, name: str) -> Iterator[TextIO]:
        """Write a file of the state, whole or not at all."""
        fd = self.home.open(f"{name}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o660)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            yield file
            file.flush()
            os.fsync(fd)
        self.home.rename(f"{name}.new", name)

    def has(self, name: str) -> bool:
        try:
            self.home.stat(name)
        except FileNotFoundError:
            return False
        return True

    def write_result(self, result: dict[str, Any]) -> None:
        with suppress(OSError), self.writing(RESULT) as file:  # a full disk: the report says it
            file.write(json.dumps(result, indent=1) + "\n")

    def temporary(self, path: str) -> str:
        """Return the name in ``parts`` of a file on its way; the same in each run."""
        return blake2b(path.encode(), digest_size=16).hexdigest()

    def clean(self) -> None:
        """Remove what nothing refers to any more."""
        kept = {self.temporary(partial.path) for partial in self.journal.partials()}
        for entry in list(self.parts.entries()):
            if entry.name in kept:
                continue
            try:
                self.parts.unlink(entry.name)
            except OSError:
                continue

    def _hold(self) -> None:
        until = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}:
                    return  # this file system has no locks
                if self.stopping.is_set():
                    raise stopped() from None
                if time.monotonic() > until:
                    text = "Another run of this load is still going."
                    raise Stop(Final.INTERNAL, text) from None
                time.sleep(0.2)
            else:
                return

    def _folds(self) -> bool:
        """Whether the file system takes ``É`` and ``é`` for one name."""
        probe = "fold-\u00c9x"
        try:
            os.close(self.home.open(probe, os.O_WRONLY | os.O_CREAT, 0o600))
            try:
                for other in (probe.lower(), "fold-E\u0301x"):
                    try:
                        self.home.stat(other)
                    except FileNotFoundError:
                        continue
                    return True
            finally:
                self.home.unlink(probe)
        except OSError as error:
            raise _as_stop(error) from None
        return False


class Folders:
    """Keeps folders open, so that a thousand files of one folder resolve it once."""

    def __init__(self, root: Folder) -> None:
        self._root = root
        self._open: OrderedDict[str, Folder] = OrderedDict()
        self._missing: set[str] = set()

    def get(self, path: str, *, make: bool = False) -> Folder:
        folder = self._open.get(path)
        if folder is not None:
            self._open.move_to_end(path)
            return folder
        folder = self._root.folder(path, make=make)
        self._open[path] = folder
        if len(self._open) > FOLDERS:
            self._open.popitem(last=False)[1].close()
        return folder

    def stat(self, path: str) -> os.stat_result | None:
        """Return what is there under this path itself; None when nothing is."""
        above, _, name = path.rpartition("/")
        if above in self._missing:  # what comes into it from now on is of this very run
            return None
        try:
            folder = self._there(above)
            if folder is None:
                return None
            return os.stat(name, dir_fd=folder.fd, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return None
            raise

    def forget(self, path: str) -> None:
        folder = self._open.pop(path, None)
        if folder is not None:
            folder.close()

    def _there(self, path: str) -> Folder | None:
        try:
            return self.get(path)
        except FileNotFoundError:
            if len(self._missing) > FOLDERS:
                self._missing.clear()
            self._missing.add(path)
            return None

    def close(self) -> None:
        for folder in self._open.values():
            folder.close()
        self._open.clear()


def _as_stop(error: Exception) -> Stop:
    if isinstance(error, OSError):
        meant = of_os(error)
        if isinstance(meant, Stop):
            return meant
        return Stop(Final.BAD_PLAN, f"The folder can't be used: {error.strerror}.")
    return Stop(Final.BAD_PLAN, "The folder is not below the volume.")


@dataclass(frozen=True)
class Ready:
    """A verified file in ``parts`` that may get its name."""

    row: Row
    durable: bool  # it was made durable when it was written


class Settler:
    def __init__(self, state: State, progress: Progress) -> None:
        self._state = state
        self._progress = progress
        self._folders = Folders(state.folder)
        self._queue: deque[Ready] = deque()
        self._wake = threading.Condition()
        self._ending = False
        self._names: dict[str, str] = {}
        self.stopped: Stop | None = None
        self._thread = threading.Thread(target=self._run, name="settle", daemon=True)
        self._thread.start()

    def put(self, ready: Ready) -> None:
        """Hand over a file. Raises when the volume is full or gone."""
        if self.stopped is not None:
            raise self.stopped
        self._queue.append(ready)
        if len(self._queue) == 1 or len(self._queue) >= BATCH:
            with self._wake:
                self._wake.notify()

    @property
    def behind(self) -> bool:
        """Whether more waits than should: the callers pause."""
        return len(self._queue) > WAITING_MOST

    def end(self) -> None:
        """Settle what is left, and wait for it."""
        with self._wake:
            self._ending = True
            self._wake.notify()
        self._thread.join()
        self._folders.close()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._queue and not self._ending:
                    self._wake.wait()
                if not self._queue:
                    return
                until = now() + WAIT_S
                while len(self._queue) < BATCH and not self._ending and now() < until:
                    self._wake.wait(until - now())
            batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
            try:
                self._settle(batch)
            except OSError as error:
                self._give_up(batch, of_os(error))
            except sqlite3.Error as error:
                self._give_up(batch, of_journal(error, self._state.try_to_write))
            except Stop as order:
                self._give_up(batch, order)
            except BaseException:
                self._give_up(batch, Stop(Final.INTERNAL, "The files could not be named."))
                raise

    def _settle(self, batch: list[Ready]) -> None:
        self._make_durable(batch)
        self._state.journal.put([ready.row for ready in batch])
        failed = []
        for ready in batch:
            try:
                if self._state.folds:
                    self._check_fold(ready.row)
                try:
                    self._rename(ready.row.path)
                except FileNotFoundError:  # somebody removed the folder that was kept open
                    self._folders.forget(ready.row.path.rpartition("/")[0])
                    self._rename(ready.row.path)
                progress = self._progress
                progress.done += 1
                progress.bytes_done += ready.row.size
                progress.bytes_copied += ready.row.size
                progress.verified[ready.row.verified] += 1
            except (OSError, Trouble) as error:
                failed.append(ready.row.path)
                self._failed(ready.row, trouble_of(error) if isinstance(error, OSError) else error)
        if failed:
            self._state.journal.drop(failed)

    def _make_durable(self, batch: list[Ready]) -> None:
        waiting = [ready for ready in batch if not ready.durable]
        if len(waiting) > FEW:
            if _libc.syncfs(self._state.parts.fd):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
            return
        for ready in waiting:
            fd = self._state.parts.open(self._state.temporary(ready.row.path), os.O_RDONLY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def _rename(self, path: str) -> None:
        above, _, name = path.rpartition("/")
        folder = self._folders.get(above, make=True)
        part = self._state.temporary(path)
        os.rename(part, name, src_dir_fd=self._state.parts.fd, dst_dir_fd=folder.fd)

    def _check_fold(self, row: Row) -> None:
        """Two keys of one name where the file system folds: the second is named, not written."""
        import unicodedata

        name = unicodedata.normalize("NFC", row.path).casefold()
        if self._names.setdefault(name, row.path) != row.path:
            raise Trouble(Code.NAME_CLASH, "The volume takes this name for that of another key.")

    def _failed(self, row: Row, trouble: Trouble) -> None:
        self._progress.fails(row.key, trouble.code, trouble.message)
        self._state.journal.fail(row.key, trouble.code, trouble.message, again=True)
        try:
            self._state.parts.unlink(self._state.temporary(row.path))
        except OSError:
            return

    def _give_up(self, batch: list[Ready], meant: Stop | Trouble) -> None:
        if isinstance(meant, Stop):
            self.stopped = meant
            self._queue.clear()
            return
        for ready in batch:
            self._failed(ready.row, meant)
