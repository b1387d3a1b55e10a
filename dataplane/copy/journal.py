"""What was copied and how far: one SQLite file in the volume, used by one run at a time.

SQLite's write-ahead log is the append-only part: what was committed survives a kill. A row of
``files`` is committed *before* the file gets its final name and carries its inode, so a later
run sees from the volume whether the name was given, and reads nothing twice.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from dataplane.copy.problems import Final, Stop
from dataplane.safepath import Folder

NAME = "journal.sqlite3"
VERSION = 1
_BATCH = 900
_SCHEMA = f"""
CREATE TABLE files (
  path TEXT PRIMARY KEY, key TEXT NOT NULL, size INTEGER NOT NULL, etag TEXT NOT NULL,
  version TEXT NOT NULL, mtime INTEGER NOT NULL, inode INTEGER NOT NULL, crc32c TEXT NOT NULL,
  verified TEXT NOT NULL, launch INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE failures (
  key TEXT PRIMARY KEY, code TEXT NOT NULL, message TEXT NOT NULL, again INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE partial (
  path TEXT PRIMARY KEY, key TEXT NOT NULL, size INTEGER NOT NULL, etag TEXT NOT NULL,
  piece INTEGER NOT NULL, upload TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE pieces (
  path TEXT NOT NULL, start INTEGER NOT NULL, done INTEGER NOT NULL, sums TEXT NOT NULL,
  PRIMARY KEY (path, start)
) WITHOUT ROWID;
CREATE TABLE listed (path TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE remote (
  key TEXT PRIMARY KEY, size INTEGER NOT NULL, etag TEXT NOT NULL, sums TEXT NOT NULL
) WITHOUT ROWID;
PRAGMA user_version = {VERSION};
"""


NS = 1_000_000_000  # in a second
MOST = 2**63 - 1  # what SQLite keeps of a whole number; of nanoseconds that is the year 2262


def mtime_of(seen: os.stat_result) -> int:
    """When a file was changed, in nanoseconds, as far as the journal can keep it."""
    return max(-MOST, min(seen.st_mtime_ns, MOST))


class Row(NamedTuple):
    """One file that is, or is about to be, under its final name. ``mtime`` in nanoseconds."""

    path: str
    key: str
    size: int
    etag: str
    version: str
    mtime: int
    inode: int
    crc32c: str
    verified: str
    launch: int


class Partial(NamedTuple):
    """A large object that is on its way. ``piece`` is the size of its pieces."""

    path: str
    key: str
    size: int
    etag: str
    piece: int
    upload: str = ""  # out: the store's id of the upload


class Journal:
    """Used from several threads; each call is one short transaction."""

    def __init__(self, folder: Folder) -> None:
        self._lock = threading.Lock()
        try:
            self._db = _opened(folder)
        except sqlite3.OperationalError:
            raise  # the disk failed, for a moment perhaps: what is noted there is still wanted
        except sqlite3.DatabaseError:
            # Not ours, or broken: what is in the volume is looked at again, nothing is lost.
            for name in (NAME, f"{NAME}-wal", f"{NAME}-journal"):
                with suppress(FileNotFoundError):
                    folder.unlink(name)
            self._db = _opened(folder)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    # --- files ------------------------------------------------------------------------------

    def rows(self, paths: list[str]) -> dict[str, Row]:
        """Return what is known of these paths."""
        if not paths:
            return {}
        # They mostly lie side by side: one sweep takes half the time of asking for each.
        ends = (min(paths), max(paths), 2 * len(paths))
        query = "SELECT * FROM files WHERE path BETWEEN ? AND ? ORDER BY path LIMIT ?"
        with self._lock:
            near = self._db.execute(query, ends).fetchall()
        found = {values[0]: Row._make(values) for values in near}
        if len(near) == ends[2]:
            apart = [path for path in paths if path > near[-1][0]]
            rows = self._among("SELECT * FROM files WHERE path IN ", apart)
            found |= {values[0]: Row._make(values) for values in rows}
        return found

    def _among(self, query: str, values: list[str]) -> Iterator[Any]:
        """Yield the rows that have one of these values."""
        for start in range(0, len(values), _BATCH):
            some = values[start : start + _BATCH]
            with self._lock:
                found = self._db.execute(f"{query}({','.join('?' * len(some))})", some).fetchall()
            yield from found

    def _by(self, query: str) -> Iterator[Any]:
        """Yield rows by their first column; a page at a time, so that nobody waits."""
        after = ""
        while True:
            with self._lock:
                found = self._db.execute(query, (after,)).fetchall()
            if not found:
                return
            yield from found
            after = found[-1][0]

    def put(self, rows: list[Row]) -> None:
        with self._lock, self._db:
            self._db.executemany("INSERT OR REPLACE INTO files VALUES (?,?,?,?,?,?,?,?,?,?)", rows)
            paths = [(row.path,) for row in rows]
            # what a store still holds parts of is forgotten only when it gave them up
            self._db.executemany("DELETE FROM partial WHERE path = ? AND upload = ''", paths)
            self._db.executemany("DELETE FROM pieces WHERE path = ?", paths)
            keys = [(row.key,) for row in rows]
            self._db.executemany("DELETE FROM failures WHERE key = ?", keys)

    def drop(self, paths: Iterable[str]) -> None:
        with self._lock, self._db:
            self._db.executemany("DELETE FROM files WHERE path = ?", [(p,) for p in paths])

    def ends(self, path: str, count: int) -> tuple[str, str] | None:
        """Return the keys of the last two of ``count`` rows after a path, if more follow."""
        if count < 2:  # noqa: PLR2004 - two are returned
            return None
        query = "SELECT key FROM files WHERE path > ? ORDER BY path LIMIT 3 OFFSET ?"
        with self._lock:
            found = self._db.execute(query, (path, count - 2)).fetchall()
        return (found[0][0], found[1][0]) if len(found) == 3 else None  # noqa: PLR2004

    def all_rows(self) -> Iterator[Row]:
        """Return every row by path."""
        return map(
            Row._make, self._by("SELECT * FROM files WHERE path > ? ORDER BY path LIMIT 1000")
        )

    # --- what failed ------------------------------------------------------------------------

    def fail(self, key: str, code: str, message: str, *, again: bool) -> None:
        """Remember a failure; ``again``: by its key it can be tried again."""
        with self._lock, self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO failures VALUES (?,?,?,?)", (key, code, message, again)
            )

    def failures(self, *, again: bool = False) -> list[tuple[str, str, str]]:
        query = "SELECT key, code, message FROM failures WHERE again >= ? ORDER BY key"
        with self._lock:
            return self._db.execute(query, (int(again),)).fetchall()

    def forget_failures(self) -> None:
        with self._lock, self._db:
            self._db.execute("DELETE FROM failures")

    # --- what is on its way -----------------------------------------------------------------

    def partial(self, path: str) -> tuple[Partial, dict[int, tuple[int, str]]] | None:
        """Return a large object on its way and its pieces: start → (bytes done, sums)."""
        with self._lock:
            head = self._db.execute("SELECT * FROM partial WHERE path = ?", (path,)).fetchone()
            if head is None:
                return None
            pieces = self._db.execute(
                "SELECT start, done, sums FROM pieces WHERE path = ?", (path,)
            ).fetchall()
        return Partial._make(head), {start: (done, sums) for start, done, sums in pieces}

    def partials(self) -> list[Partial]:
        with self._lock:
            return [Partial._make(v) for v in self._db.execute("SELECT * FROM partial")]

    def begin(self, partial: Partial) -> None:
        with self._lock, self._db:
            self._db.execute("DELETE FROM pieces WHERE path = ?", (partial.path,))
            self._db.execute("INSERT OR REPLACE INTO partial VALUES (?,?,?,?,?,?)", partial)

    def pieces(self, rows: list[tuple[str, int, int, str]]) -> None:
        """Store (path, start, done, sums) of pieces that went on."""
        with self._lock, self._db:
            self._db.executemany("INSERT OR REPLACE INTO pieces VALUES (?,?,?,?)", rows)

    def finish(self, path: str) -> None:
        with self._lock, self._db:
            self._db.execute("DELETE FROM pieces WHERE path = ?", (path,))
            self._db.execute("DELETE FROM partial WHERE path = ?", (path,))

    def set_aside(self, path: str) -> None:
        """Keep the id of an upload that the store did not give up; its file begins anew.

        No path has two slashes in a row, so this row is in no file's way.
        """
        with self._lock, self._db:
            self._db.execute("DELETE FROM pieces WHERE path = ?", (path,))
            self._db.execute(
                "UPDATE OR REPLACE partial SET path = '//' || upload WHERE path = ?", (path,)
            )

    # --- what the other side has ------------------------------------------------------------

    def listed_begin(self) -> None:
        with self._lock, self._db:
            self._db.execute("DELETE FROM listed")

    def listed_add(self, paths: Iterable[str]) -> None:
        with self._lock, self._db:
            self._db.executemany(
                "INSERT OR IGNORE INTO listed VALUES (?)", [(path,) for path in paths]
            )

    def listed(self, paths: list[str]) -> set[str]:
        return {path for (path,) in self._among("SELECT path FROM listed WHERE path IN ", paths)}

    def remote_begin(self) -> None:
        with self._lock, self._db:
            self._db.execute("DELETE FROM remote")

    def remote_add(self, rows: Iterable[tuple[str, int, str, str]]) -> None:
        """Remember (key, size, etag, sums) of what the store has."""
        with self._lock, self._db:
            self._db.executemany("INSERT OR REPLACE INTO remote VALUES (?,?,?,?)", rows)

    def remote(self, keys: list[str]) -> dict[str, tuple[str, int, str, str]]:
        rows = self._among("SELECT * FROM remote WHERE key IN ", keys)
        return {values[0]: values for values in rows}

    def remote_keys(self) -> Iterator[str]:
        return (
            key
            for (key,) in self._by("SELECT key FROM remote WHERE key > ? ORDER BY key LIMIT 1000")
        )


def _opened(folder: Folder) -> sqlite3.Connection:
    """Open the journal in the folder that is open: SQLite itself knows only paths.

    The file is made by us, and it is compared with what SQLite opened, so that a folder that
    somebody swaps for a link meanwhile is not written to.
    """
    os.close(folder.open(NAME, os.O_RDWR | os.O_CREAT, 0o660))
    path = f"/proc/self/fd/{folder.fd}/{NAME}"
    # No locks of SQLite's own: a lock of the run keeps others out, also where NFS has none.
    db = sqlite3.connect(
        f"file:{path}?mode=rw&nolock=1", uri=True, check_same_thread=False, isolation_level=None
    )
    try:
        db.isolation_level = "DEFERRED"
        for setting in (
            "locking_mode = EXCLUSIVE",
            "journal_mode = WAL",
            "synchronous = NORMAL",
            "cache_size = -8000",
            "temp_store = MEMORY",
        ):
            db.execute(f"PRAGMA {setting}")
        if db.execute("PRAGMA user_version").fetchone()[0] != VERSION:
            if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise sqlite3.DatabaseError("another version")  # noqa: TRY301
            db.executescript(_SCHEMA)
        _compare(folder)
    except BaseException:
        db.close()
        raise
    return db


def _compare(folder: Folder) -> None:
    ours = folder.stat(NAME)
    for link in Path("/proc/self/fd").iterdir():
        try:
            seen = link.stat()
        except OSError:
            continue
        if (seen.st_dev, seen.st_ino) == (ours.st_dev, ours.st_ino):
            return
    raise Stop(Final.INTERNAL, "The folder for the state of this load was swapped.")
