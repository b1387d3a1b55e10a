"""Verify: is what lies in the folder still what this load put there? Asks no store."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from dataplane.copy import checksums
from dataplane.copy.journal import Row
from dataplane.copy.problems import Code, Final, Stop, Trouble, stopped
from dataplane.copy.progress import Progress
from dataplane.copy.state import State

THREADS = 4
AHEAD = 64


def check(state: State, progress: Progress) -> Stop:
    """Compare every file of the manifest: its length and its CRC32C."""
    progress.phase = "verifying"
    with ThreadPoolExecutor(THREADS, "verify") as pool:
        waiting: deque[tuple[Row, Future[Trouble | None]]] = deque()
        for row in state.journal.all_rows():
            if state.stopping.is_set():
                return stopped()
            progress.found += 1
            progress.bytes_found += row.size
            waiting.append((row, pool.submit(_one, state, row)))
            if len(waiting) > AHEAD:
                _take(progress, *waiting.popleft())
        progress.listed = True
        for row, future in waiting:
            _take(progress, row, future)
    if not progress.found:
        return Stop(Final.BAD_PLAN, "This load has put nothing here that could be verified.")
    good = f"{progress.unchanged} files are as they were copied"
    if progress.failed:
        return Stop(Final.PARTIAL, f"{good}; {progress.failed} are not, and are named.")
    return Stop(Final.DONE, f"{good}.")


def _take(progress: Progress, row: Row, future: Future[Trouble | None]) -> None:
    trouble = future.result()
    if trouble is not None:
        progress.fails(row.key, trouble.code, trouble.message)
        return
    progress.unchanged += 1
    progress.bytes_done += row.size
    progress.read(row.size)
    progress.verified["crc32c"] += 1


def _one(state: State, row: Row) -> Trouble | None:
    try:
        fd, seen = state.folder.open_file(row.path)
    except FileNotFoundError:
        return Trouble(Code.MISSING, "The file is not there any more.")
    except OSError:
        return Trouble(Code.IO, "What is there is no file that can be read.")
    try:
        if seen.st_size != row.size:
            text = f"The file has {seen.st_size} bytes, and {row.size} were copied."
            return Trouble(Code.LENGTH, text)
        if checksums.of_file(fd, ("crc32c",))["crc32c"] != row.crc32c:
            return Trouble(Code.CHECKSUM, "The file is not what was copied any more.")
    except OSError as error:
        return Trouble(Code.IO, f"The file can't be read: {error.strerror}.")
    finally:
        os.close(fd)
    return None


def rows(state: State) -> Iterator[dict[str, object]]:
    """Yield the manifest: one entry for each file that this load has put, by path."""
    for row in state.journal.all_rows():
        yield {
            "path": row.path,
            "key": row.key,
            "size": row.size,
            "crc32c": row.crc32c,
            "verified": row.verified,
            "etag": row.etag,
            "version": row.version,
            "launch": row.launch,
        }
