"""From a store into the folder: what is at the store, page by page, and what of it must be copied.

Never all of it is in memory. What the store doesn't have is deleted last, and what a dry run
would take is found out by trying a little of it.
"""

from __future__ import annotations

import asyncio
import os
import stat

from dataplane.copy import keys
from dataplane.copy.engine import Engine, would
from dataplane.copy.http1 import now
from dataplane.copy.journal import MOST, NS, Row, mtime_of
from dataplane.copy.keys import is_text, walk
from dataplane.copy.large import Larges
from dataplane.copy.pace import FILE_WORTH, Unit
from dataplane.copy.pages import Pages, guess_of
from dataplane.copy.problems import Code, Denied, Stop, Trouble, stopped, trouble_of
from dataplane.copy.pull import Puller, Target
from dataplane.copy.state import Folders, Ready
from dataplane.copy.stores.base import Item, Page
from dataplane.safepath import Folder, UnsafePath

SAMPLES = 48
SAMPLE_BYTES = 4 * 1024 * 1024
AT_ONCE = 8
SECONDS = 3.0
HOLD_S = 0.5  # nothing is copied before so much was listed: it may not fit
_CLASH = "Another key is a folder or a file of the same name."
_SOME = 500


class Estimate:
    """Collects what there is to do; keeps a few objects to try."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.files = 0
        self.bytes = 0
        self._samples: list[Item] = []

    def add(self, item: Item) -> None:
        self.files += 1
        self.bytes += item.size
        if len(self._samples) < SAMPLES:
            self._samples.append(item)

    async def result(self) -> Stop:
        progress = self._engine.progress
        seconds = await self._seconds() if self.files else 0.0
        progress.estimate_s = seconds
        return would(progress, self.files, self.bytes, seconds)

    async def _seconds(self) -> float | None:
        """Return how long it would take; None when nothing could be tried."""
        begun, waiting = now(), list(reversed(self._samples))
        before = self._engine.progress.bytes_read
        files = 0

        async def some() -> None:
            nonlocal files
            while waiting and now() - begun < SECONDS:
                files += await self._try(waiting.pop())

        await asyncio.gather(*(some() for _ in range(AT_ONCE)))
        read = self._engine.progress.bytes_read - before
        if not files:
            return None
        rate = (read + files * FILE_WORTH) / max(now() - begun, 0.001)
        seconds = (self.bytes + self.files * FILE_WORTH) / rate
        limit = self._engine.plan.bandwidth
        return max(seconds, self.bytes / limit) if limit else seconds

    async def _try(self, item: Item) -> int:
        calls = self._engine.calls
        end = min(item.size, SAMPLE_BYTES)
        try:
            answer = await calls.once(
                lambda: calls.store.get_question(item, 0, end if end < item.size else None)
            )
        except Trouble:
            return 0
        self._engine.progress.read(len(answer.body))
        return 1


class Clashes:
    """Finds keys below another key that is a file: ``a`` and ``a/b``, in a sorted listing."""

    def __init__(self) -> None:
        self._above: list[str] = []

    def has(self, path: str) -> bool:
        while self._above and not path.startswith(self._above[-1]):
            self._above.pop()
        if any(path[len(above) : len(above) + 1] == "/" for above in self._above):
            return True
        self._above.append(path)
        return False


class Inward:
    """Turns the listing into work, and looks after what is beside and after it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._larges = Larges(engine)
        self._puller = self._larges.puller = Puller(engine, self._larges.take)
        # of a dry run, which copies nothing
        self._estimate = Estimate(engine) if engine.plan.mode == "dry-run" else None
        self._folders = Folders(engine.state.folder)
        self._chosen = keys.chosen_by(engine.plan.include, engine.plan.exclude)
        self._base = keys.base_of(engine.plan.store.prefix)
        self._clashes = Clashes()
        self._keep = engine.plan.deletes

    async def find(self) -> None:
        engine = self._engine
        engine.progress.phase = "listing"
        if self._keep:
            engine.state.journal.listed_begin()
        if not engine.plan.retry_failed_only:
            engine.state.journal.forget_failures()
        held = now() + HOLD_S
        try:
            if engine.plan.retry_failed_only:
                failed = engine.state.journal.failures(again=True)
                await self._named([key for key, _, _ in failed])
            elif engine.plan.store.objects is not None:
                await self._named(list(dict.fromkeys(engine.plan.store.objects)))
            elif await self._is_one_object(engine.plan.store.prefix):
                await self._named([engine.plan.store.prefix])
            else:
                guess = guess_of(engine.state.journal, self._base)
                async for page in Pages(engine, engine.plan.store.prefix, guess).all():
                    engine.page(len(page.items) + len(page.bad))
                    for unit in self._units(page):
                        await engine.work.put(unit)
                    if now() > held:
                        self._begin()
        finally:
            self._folders.close()
        engine.progress.listed = True
        self._begin()
        engine.work.close()

    def _begin(self) -> None:
        self._engine.progress.phase = "copying"
        self._engine.work.start()

    # --- a list of objects ------------------------------------------------------------------

    async def _is_one_object(self, prefix: str) -> bool:
        """Whether the address is that of one object, where nothing may be listed.

        A credential may have the right to read an object and none to list. What is listed tells
        more (``a/b`` beside ``a``), so it is asked for wherever that is allowed; what is to be
        deleted is known by a listing only.
        """
        if not prefix or prefix.endswith("/") or self._keep:
            return False
        calls = self._engine.calls
        try:
            await calls.store.described(calls, prefix)
        except (Trouble, Stop):
            return False
        try:
            await calls.store.listed(calls, prefix, most=1)
        except Denied:
            return True
        except (Trouble, Stop):
            return False
        return False

    async def _named(self, names: list[str]) -> None:
        engine = self._engine
        for key in names:
            if self._path(key) is not None:
                engine.progress.found += 1
                await engine.work.put(lambda key=key: self._one(key))  # type: ignore[misc]

    async def _one(self, key: str) -> None:
        """Ask what this object is, then go on as if it had been listed."""
        engine = self._engine
        engine.progress.found -= 1
        try:
            item = await self._puller.described(key)
        except Trouble as trouble:
            engine.progress.found += 1
            engine.fails(key, trouble)
            return
        for unit in self._units(Page([item], [], ""), ordered=False):
            await unit()

    # --- a page -----------------------------------------------------------------------------

    def _units(self, page: Page, *, ordered: bool = True) -> list[Unit]:
        engine = self._engine
        for key, trouble in page.bad:
            engine.progress.found += 1
            engine.fails(key, trouble, again=False)
        wanted: dict[str, Item] = {}
        for item in page.items:
            path = self._path(item.key, item.size)
            if path is None:
                continue
            engine.progress.found += 1
            if path in wanted or (ordered and self._clashes.has(path)):
                engine.fails(item.key, Trouble(Code.NAME_CLASH, _CLASH))
                continue
            engine.progress.bytes_found += item.size
            wanted[path] = item
        if self._keep:
            engine.state.journal.listed_add(wanted)
        rows = engine.state.journal.rows(list(wanted))
        units = (self._unit(path, item, rows.get(path)) for path, item in wanted.items())
        return [unit for unit in units if unit is not None]

    def _path(self, key: str, size: int = 1) -> str | None:
        """Return where a key belongs; None where it is not wanted, or can't be (and is named)."""
        engine = self._engine
        if key[-1:] == "/" and not size:
            return None  # only a marker that there is such a folder
        try:
            path = keys.path_of(key, self._base, engine.plan.folder)
        except Trouble as trouble:
            engine.progress.found += 1
            engine.fails(key, trouble, again=False)
            return None
        return path if self._chosen is None or self._chosen(path) else None

    def _unit(self, path: str, item: Item, row: Row | None) -> Unit | None:
        """Return what there is to do for one object; None when it is there unchanged."""
        seen = self._folders.stat(path)
        if seen is not None and stat.S_ISDIR(seen.st_mode):
            self._engine.fails(item.key, Trouble(Code.NAME_CLASH, _CLASH))
            return None
        same = None
        if row is not None and _same_object(row, item):
            if seen is not None and _same_file(row, seen):
                if self._engine.plan.retry_failed_only:
                    self._engine.state.journal.put([row])
                self._engine.progress.unchanged += 1
                self._engine.progress.bytes_done += item.size
                return None
            if self._resumed(row):
                return None
            if seen is not None and seen.st_size == item.size:
                same = {"crc32c": row.crc32c}
        elif seen is not None and seen.st_size == item.size and stat.S_ISREG(seen.st_mode):
            same = dict(item.sums) or None
        if self._estimate is not None:
            self._estimate.add(item)
            return None
        there = seen.st_size if seen is not None else 0
        if same is None:  # else it is needed only if it turns out not to be the same
            self._engine.room.need(item.size, there)
        target = Target(path, item, same)
        return lambda: self._puller.take(target)

    def _resumed(self, row: Row) -> bool:
        """Give its name to a file that an earlier run had ready when it was killed."""
        engine = self._engine
        if self._estimate is not None:
            return False
        try:
            seen = engine.state.parts.stat(engine.state.temporary(row.path))
        except FileNotFoundError:
            return False
        if not _same_file(row, seen):
            return False
        engine.settler.put(Ready(row, durable=False))
        return True

    # --- beside and after -------------------------------------------------------------------

    def tick(self, *, due: bool) -> bool:
        """Save how far large objects are, when that is due or would be much to read again."""
        if not due and self._larges.unsaved() < self._larges.worth_saving:
            return False
        self._larges.tick()
        return True

    async def after(self) -> Stop | None:
        if self._estimate is not None:
            return await self._estimate.result()
        if self._engine.plan.deletes:
            await asyncio.to_thread(prune, self._engine)
        return None

    async def close(self) -> None:
        await self._larges.close()


def _same_object(row: Row, item: Item) -> bool:
    if row.key != item.key or row.size != item.size or row.etag != item.etag:
        return False
    return bool(item.etag) or row.mtime // NS == min(item.mtime, MOST // NS)


def _same_file(row: Row, seen: os.stat_result | None) -> bool:
    return seen is not None and (row.size, row.mtime, row.inode) == (
        seen.st_size,
        mtime_of(seen),
        seen.st_ino,
    )


def prune(engine: Engine) -> None:
    """Delete files in the folder that were not listed. Excluded ones are nobody's business.

    Neither is anything deleted where a folder of the store could not be listed.
    An empty listing deletes nothing: a prefix with a slip of the pen would empty the folder.
    """
    progress = engine.progress
    if not progress.found or not progress.listed or engine.gaps:
        return
    progress.phase = "deleting"
    chosen = keys.chosen_by(engine.plan.include, engine.plan.exclude)
    some: list[str] = []
    # what can't be looked at is not deleted either, and nobody asked for it
    for path, _ in walk(engine.state.folder, top=not engine.plan.folder, missed=lambda *_: None):
        if chosen is None or chosen(path):
            some.append(path)
        if engine.state.stopping.is_set():
            raise stopped()
        if len(some) == _SOME:
            _delete(engine, some)
            some = []
    _delete(engine, some)


def _delete(engine: Engine, paths: list[str]) -> None:
    readable = [path for path in paths if is_text(path)]
    kept = engine.state.journal.listed(readable)
    gone = []
    for path in paths:
        if path in kept:
            continue
        try:
            engine.state.folder.unlink(path)
        except FileNotFoundError:
            pass
        except UnsafePath:
            _kept(engine, path, Trouble(Code.BAD_KEY, "The path is too long to be opened."))
            continue
        except OSError as error:
            _kept(engine, path, trouble_of(error))
            continue
        engine.progress.deleted += 1
        gone.append(path)
        _empty_folders(engine.state.folder, path)
    engine.state.journal.drop(path for path in gone if is_text(path))


def _kept(engine: Engine, path: str, trouble: Trouble) -> None:
    """Name a file that could not be deleted; it is no object that a retry could copy."""
    engine.progress.found += 1
    engine.fails(path, trouble, again=False)


def _empty_folders(root: Folder, path: str) -> None:
    above = path.rpartition("/")[0]
    while above:
        try:
            root.rmdir(above)
        except OSError:
            return
        above = above.rpartition("/")[0]
