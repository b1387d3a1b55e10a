"""Gives finished files their final names, a batch at a time.

For a batch: what was written is made durable, the rows are committed, and then the names are
given. Killed in between, the next run finds the row and the file (by its inode) and only gives
the name. Runs in a thread of its own; one call of the kernel makes a whole batch durable.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import threading
from collections import deque
from dataclasses import dataclass

from dataplane.copy.http1 import now
from dataplane.copy.journal import Row
from dataplane.copy.problems import Code, Final, Stop, Trouble, of_journal, of_os
from dataplane.copy.progress import Progress
from dataplane.copy.state import Folders, State

BATCH = 1000
WAIT_S = 0.25
FEW = 8
WAITING_MOST = 4000
_libc = ctypes.CDLL(None, use_errno=True)


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
                self._name(ready.row)
            except OSError as error:
                meant = of_os(error)
                if isinstance(meant, Stop):
                    raise
                failed.append(ready.row.path)
                self._failed(ready.row, meant)
            except Trouble as trouble:
                failed.append(ready.row.path)
                self._failed(ready.row, trouble)
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

    def _name(self, row: Row) -> None:
        if self._state.folds:
            self._check_fold(row)
        try:
            self._rename(row.path)
        except FileNotFoundError:  # somebody removed the folder that was kept open
            self._folders.forget(row.path.rpartition("/")[0])
            self._rename(row.path)
        progress = self._progress
        progress.done += 1
        progress.bytes_done += row.size
        progress.bytes_copied += row.size
        progress.verified[row.verified] += 1

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
