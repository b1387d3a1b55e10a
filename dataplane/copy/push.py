"""From the folder to a store: what lies there, what of it the store lacks, and sending that."""

from __future__ import annotations

import asyncio
import json
import os
from itertools import islice
from typing import NamedTuple

from dataplane.copy import checksums, keys
from dataplane.copy.checksums import Check
from dataplane.copy.engine import Engine, would
from dataplane.copy.journal import Row, mtime_of
from dataplane.copy.keys import Found, is_text, walk
from dataplane.copy.pace import Unit
from dataplane.copy.pages import Pages, guess_of
from dataplane.copy.problems import Code, Stop, Trouble, of_opening, stopped, trouble_of
from dataplane.copy.stores.gcs import Gcs
from dataplane.copy.stores.s3 import S3
from dataplane.copy.upload_s3 import S3Uploader
from dataplane.copy.uploads import Book, Local, Sent, Uploader

SOME = 500
MARK = "mark"  # a file of the state: what the marker says
TRIES = 3
NO_FILE = "Only files are copied out, and this is none."


class Remote(NamedTuple):
    """What the store has under a key."""

    size: int
    etag: str
    sums: str  # name=text, as the listing says; "" where it says none


class Outward:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._chosen = keys.chosen_by(engine.plan.include, engine.plan.exclude)
        self._not_excluded = keys.chosen_by((), engine.plan.exclude)
        self._missed: list[tuple[str, Trouble]] = []
        self.prefix = prefix_of(engine.plan.store.prefix)
        self._only = self._named()
        self._uploader: Uploader = open_uploader(engine, self)
        self._rows: list[Row] = []
        self._todo_files = 0
        self._todo_bytes = 0

    def _named(self) -> set[str] | None:
        plan, journal = self._engine.plan, self._engine.state.journal
        if plan.retry_failed_only:
            return {key for key, _, _ in journal.failures(again=True)}
        return None if plan.store.objects is None else set(plan.store.objects)

    # --- finding ----------------------------------------------------------------------------

    async def find(self) -> None:
        engine = self._engine
        engine.progress.phase = "listing"
        engine.state.journal.remote_begin()
        if not engine.plan.retry_failed_only:
            engine.state.journal.forget_failures()
        guess = guess_of(engine.state.journal, self.prefix)
        async for page in Pages(engine, self.prefix, guess).all():
            engine.page(len(page.items) + len(page.bad))
            engine.state.journal.remote_add(
                (item.key, item.size, item.etag, " ".join(f"{k}={v}" for k, v in item.sums.items()))
                for item in page.items
            )
        await self._unmark()
        found = walk(engine.state.folder, top=not engine.plan.folder, missed=self._miss)
        engine.progress.phase = "copying"
        while some := await asyncio.to_thread(lambda: list(islice(found, SOME))):
            for unit in self._units(some):
                await engine.work.put(unit)
            engine.work.start()
        for path, trouble in self._missed:
            self._no_file(path, trouble)
        engine.progress.listed = True
        engine.work.close()

    def _miss(self, path: str, trouble: Trouble) -> None:
        """Keep what the walk could not look at (called in its thread), but what is left out.

        Patterns to include don't count: nobody knows what lies in there.
        """
        if self._not_excluded is None or self._not_excluded(path):
            self._missed.append((path, trouble))

    def _units(self, some: list[Found]) -> list[Unit]:
        wanted: dict[str, Local] = {}
        for found in some:
            local = self._local(found)
            if local is not None:
                wanted[local.path] = local
        rows = self._engine.state.journal.rows(list(wanted))
        there = self._engine.state.journal.remote([local.key for local in wanted.values()])
        units = []
        for path, local in wanted.items():
            known = there.get(local.key)
            unit = self._unit(local, rows.get(path), Remote(*known[1:]) if known else None)
            if unit is not None:
                units.append(unit)
        return units

    def _local(self, found: Found) -> Local | None:
        """Return a file that is to be sent; name what can't be."""
        path, seen = found
        if self._chosen is not None and not self._chosen(path):
            return None
        if path == self._engine.plan.marker:
            return None  # the name is ours: nobody says that all is there but we
        progress = self._engine.progress
        try:
            key = self.key_of(path)
            if self._only is not None and key not in self._only:
                return None
        except Trouble as trouble:
            self._no_file(path, trouble)
            return None
        if not found.regular:
            self._no_file(path, Trouble(Code.BAD_KEY, NO_FILE))
            return None
        progress.found += 1
        progress.bytes_found += seen.st_size
        return Local(path, key, seen.st_size, mtime_of(seen), seen.st_ino)

    def key_of(self, path: str) -> str:
        """Return the key of a file, or raise what is wrong with it."""
        return keys.key_of(path, self.prefix)

    def _no_file(self, path: str, trouble: Trouble) -> None:
        self._engine.progress.found += 1
        self._engine.fails(path if is_text(path) else ascii(path), trouble, again=False)

    def _unit(self, local: Local, row: Row | None, there: Remote | None) -> Unit | None:
        if row is not None and there is not None and _unchanged(local, row, there):
            self._same(local.size)
            return None
        if self._engine.plan.mode == "dry-run":
            self._todo_files += 1
            self._todo_bytes += local.size
            return None
        compare = there if there is not None and there.size == local.size else None
        return lambda: self._take(local, compare)

    def _same(self, size: int) -> None:
        self._engine.progress.unchanged += 1
        self._engine.progress.bytes_done += size

    # --- sending ----------------------------------------------------------------------------

    async def _take(self, local: Local, there: Remote | None) -> None:
        for left in reversed(range(TRIES)):
            try:
                fd, seen = self._engine.state.folder.open_file(local.path)
            except OSError as error:
                self.failed(local, trouble_of(error, of_opening))
                return
            local = local._replace(size=seen.st_size, mtime=mtime_of(seen), inode=seen.st_ino)
            try:
                if not await self._is_same(local, fd, there):
                    await self._uploader.send(local, fd)  # closes it
            except Trouble as trouble:
                if trouble.code is Code.CHANGED and left:
                    continue
                self.failed(local, trouble)
            except OSError as error:
                self.failed(local, trouble_of(error))
            return

    async def _is_same(self, local: Local, fd: int, there: Remote | None) -> bool:
        """Look whether the store has this very content: reading it here costs less than sending.

        If so, ``fd`` is closed: there is nothing to send. So it is when it can't be read.
        """
        if there is None:
            return False
        try:
            same = await self._compared(local, fd, there)
        except BaseException:
            os.close(fd)
            raise
        if same:
            os.close(fd)
        return same

    async def _compared(self, local: Local, fd: int, there: Remote) -> bool:
        check = Check.best(dict(pair.split("=", 1) for pair in there.sums.split(" ") if pair))
        if not check.expected:
            return False
        sums = await self._engine.threaded(checksums.of_file, fd, (check.name, "crc32c"))
        if sums[check.name] != check.expected:
            return False
        self._same(local.size)
        self._keep(local, Sent(there.etag, "", sums["crc32c"], check.name))
        return True

    def sent(self, local: Local, sent: Sent) -> None:
        """Take down that the store has a file now, and how that was verified."""
        progress = self._engine.progress
        progress.done += 1
        progress.bytes_done += local.size
        progress.bytes_copied += local.size
        progress.verified[sent.verified] += 1
        self._keep(local, sent)

    def _keep(self, local: Local, sent: Sent) -> None:
        launch = self._engine.plan.launch
        self._rows.append(
            Row(
                local.path,
                local.key,
                local.size,
                sent.etag,
                sent.version,
                local.mtime,
                local.inode,
                sent.crc32c,
                sent.verified,
                launch,
            )
        )

    def failed(self, local: Local, trouble: Trouble) -> None:
        self._engine.fails(local.key, trouble)

    # --- beside and after -------------------------------------------------------------------

    def tick(self, *, due: bool) -> bool:
        if self._rows and (due or len(self._rows) > SOME):
            rows, self._rows = self._rows, []
            self._engine.state.journal.put(rows)
            return True
        return due

    async def after(self) -> Stop | None:
        self.tick(due=True)
        if self._engine.plan.mode == "dry-run":
            return would(self._engine.progress, self._todo_files, self._todo_bytes, None)
        if self._engine.plan.deletes and self._engine.progress.found:
            # delete at the store what does not lie in the folder, and was chosen to be looked at
            engine = self._engine
            engine.progress.phase = "deleting"
            for key in engine.state.journal.remote_keys():
                if engine.state.stopping.is_set():
                    raise stopped()
                path = key[len(self.prefix) :]
                if not path or (self._chosen is not None and not self._chosen(path)):
                    continue
                if _is_there(engine, path):
                    continue
                if await self.removed(key):
                    engine.progress.deleted += 1
                    engine.state.journal.drop([path])
        progress = self._engine.progress
        whole = not (progress.failed or progress.skipped or self._engine.plan.retry_failed_only)
        if self._engine.plan.marker and whole:
            await self._mark()
        return None

    async def _unmark(self) -> None:
        """Take away what an earlier run said, until this one knows it anew."""
        engine, key = self._engine, self.prefix + self._engine.plan.marker
        writes = engine.plan.mode != "dry-run" and not engine.plan.retry_failed_only
        if not engine.plan.marker or not writes or not engine.state.journal.remote([key]):
            return
        await self.removed(key)

    async def removed(self, key: str) -> bool:
        """Delete an object; False: it stays, and is named among what failed."""
        try:
            await self._uploader.delete(key)
        except Trouble as trouble:
            if trouble.code is not Code.GONE:
                self._engine.progress.found += 1
                self._engine.fails(key, trouble)
                return False
        return True

    async def _mark(self) -> None:
        """Say at the store that everything is there; what is sent last."""
        progress = self._engine.progress
        said = {"files": progress.found, "bytes": progress.bytes_found}
        try:
            await self.put(self._engine.plan.marker, json.dumps(said) + "\n")
        except Trouble as trouble:
            progress.found += 1
            self._engine.fails(self.prefix + self._engine.plan.marker, trouble, again=False)

    async def put(self, name: str, text: str) -> None:
        """Send a text of our own as an object."""
        engine, state = self._engine, self._engine.state
        with state.writing(MARK) as file:
            file.write(text)
        fd, seen = state.home.open_file(MARK)
        mark = Local(MARK, self.prefix + name, seen.st_size, mtime_of(seen), seen.st_ino)
        uploader = open_uploader(engine, None)
        try:
            await uploader.send(mark, fd)  # closes it
        finally:
            await uploader.close()

    async def close(self) -> None:
        self.tick(due=True)
        await self._uploader.close()


def open_uploader(engine: Engine, book: Book | None) -> Uploader:
    store = engine.calls.store
    if isinstance(store, Gcs):
        from dataplane.copy.upload_gcs import GcsUploader  # loads a library of Google's

        return GcsUploader(engine, store, book)
    if isinstance(store, S3):
        return S3Uploader(engine, store, book)
    raise TypeError


def prefix_of(prefix: str) -> str:
    """Return what every key starts with: a place to put files is a folder."""
    return prefix if not prefix or prefix.endswith("/") else prefix + "/"


def _unchanged(local: Local, row: Row, there: Remote) -> bool:
    same = (row.key, row.size, row.mtime) == (local.key, local.size, local.mtime)
    return same and there.size == local.size and there.etag == row.etag


def _is_there(engine: Engine, path: str) -> bool:
    try:
        engine.state.folder.stat(path)
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True  # not a path here, or not to be looked at: not ours to delete
    return True
