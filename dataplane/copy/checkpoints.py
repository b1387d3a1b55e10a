"""Complete checkpoints of a folder, their copies at a store, and the newest of these back.

At the store each lies under its time and name, so one that is written again under the same name
is another one. ``INDEX`` says which are whole: it is sent when all of their files are there, and
what it no longer names is deleted after that. Whoever is killed in between leaves the index as it
was, and all that it names.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from dataplane.checkpoints import INCOMPLETE, is_for_whole
from dataplane.copy import keys
from dataplane.copy.inward import Inward
from dataplane.copy.problems import Code, Denied, Final, Stop, Trouble, stopped
from dataplane.copy.push import Outward, prefix_of

if TYPE_CHECKING:
    from dataplane.copy.engine import Engine
    from dataplane.copy.uploads import Local
    from dataplane.safepath import Folder

INDEX = "_BERTH_CHECKPOINTS"
_INDEX_MOST = 1 << 20  # bytes
_KEY = re.compile(r"[0-9]{19}-[^/]+")  # of a copy, below the prefix
_NOT_WHOLE = "The copy at the store is not whole."


class Copy(NamedTuple):
    """A checkpoint at the store. ``at``: its time, in nanoseconds."""

    name: str
    at: int
    is_file: bool
    files: int = 0
    bytes: int = 0

    @property
    def key(self) -> str:
        return f"{self.at:019d}-{self.name}"


def here(folder: Folder) -> list[Copy]:
    """Return the complete checkpoints of a folder, the newest first."""
    found = []
    for entry in folder.entries():
        if not is_for_whole(entry.name) or entry.is_symlink():
            continue
        with suppress(FileNotFoundError):
            seen, is_file = entry.stat(follow_symlinks=False), entry.is_file(follow_symlinks=False)
            if is_file or not _has(folder, f"{entry.name}/{INCOMPLETE}"):
                found.append(Copy(entry.name, seen.st_mtime_ns, is_file))
    return sorted(found, key=lambda one: one.at, reverse=True)


def _has(folder: Folder, path: str) -> bool:
    try:
        folder.stat(path)
    except FileNotFoundError:
        return False
    return True


async def copies_there(engine: Engine, prefix: str) -> list[Copy]:
    """Return the copies that are whole, the newest first; raise Stop where nobody may know."""
    calls, key = engine.calls, prefix + INDEX
    try:
        item = await calls.tried(lambda: calls.store.described(calls, key))
        if item.size > _INDEX_MOST:
            raise Stop(Final.INTERNAL, "The index of the copies is too long to be one.")
        answer = await calls.tried(lambda: calls.once(lambda: calls.store.get_question(item)))
        rows = [Copy(*row) for row in json.loads(bytes(answer.body))["checkpoints"]]
    except Trouble as trouble:
        if trouble.code is Code.GONE:
            return []
        how = Final.DENIED if isinstance(trouble, Denied) else Final.UNREACHABLE
        raise Stop(how, trouble.message) from None
    except (ValueError, TypeError, KeyError):
        raise Stop(Final.INTERNAL, "The index of the copies can't be read.") from None
    good = [one for one in rows if is_for_whole(one.name) and "/" not in one.name]
    return sorted(good, key=lambda one: one.at, reverse=True)


class Keeping(Outward):
    """Copies the newest that are complete, and keeps so many at the store."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._ours: dict[str, Copy] = {}
        self._known: list[Copy] = []
        self._broken: set[str] = set()
        self._files, self._bytes = Counter[str](), Counter[str]()

    async def find(self) -> None:
        engine = self._engine
        newest = (await asyncio.to_thread(here, engine.state.folder))[: engine.plan.newest]
        self._ours = {one.name: one for one in newest}
        self._known = await copies_there(engine, self.prefix)
        await super().find()

    def _local(self, found: keys.Found) -> Local | None:
        top = found.path.partition("/")[0]
        if top not in self._ours:
            return None
        self._files[top] += 1
        self._bytes[top] += found.stat.st_size
        return super()._local(found)

    def key_of(self, path: str) -> str:
        top, slash, below = path.partition("/")
        return keys.key_of(f"{self._ours[top].key}{slash}{below}", self.prefix)

    def _miss(self, path: str, trouble: Trouble) -> None:
        if path.partition("/")[0] in self._ours:
            super()._miss(path, trouble)

    def _no_file(self, path: str, trouble: Trouble) -> None:
        self._broken.add(path.partition("/")[0])
        super()._no_file(path, trouble)

    def failed(self, local: Local, trouble: Trouble) -> None:
        """Name what could not be sent; of one that its program removed since, nothing is lost."""
        top, progress = local.path.partition("/")[0], self._engine.progress
        self._broken.add(top)
        if trouble.code is Code.GONE and not _has(self._engine.state.folder, top):
            progress.found -= 1
            progress.bytes_found -= local.size
            return
        super().failed(local, trouble)

    async def after(self) -> Stop | None:
        self.tick(due=True)
        engine = self._engine
        now_here = set(await asyncio.to_thread(here, engine.state.folder))
        whole = [
            one._replace(files=self._files[one.name], bytes=self._bytes[one.name])
            for one in self._ours.values()
            if one.name not in self._broken and one in now_here  # nobody wrote to it meanwhile
        ]
        # one that was written again takes no place of others
        found = {one.name: one for one in sorted((*self._known, *whole), key=lambda one: one.at)}
        kept = sorted(found.values(), key=lambda one: one.at, reverse=True)[: engine.plan.newest]
        engine.files = [(one.key, one.bytes) for one in kept]
        if kept != self._known:
            try:
                await self.put(INDEX, json.dumps({"checkpoints": kept}) + "\n")
            except Trouble as trouble:
                raise Stop(Final.UNREACHABLE, trouble.message) from None
        await self._delete_all_but({one.key for one in kept})
        return None

    async def _delete_all_but(self, kept: set[str]) -> None:
        engine = self._engine
        for key in engine.state.journal.remote_keys():
            if engine.state.stopping.is_set():
                raise stopped()
            top = key[len(self.prefix) :].partition("/")[0]
            if top in kept or not _KEY.fullmatch(top):
                continue
            engine.progress.deleted += await self.removed(key)


class Restoring(Inward):
    """Brings the newest copy back, where the folder has none that is as new.

    It gets its name when all of it is there, with the time that it had. A store that is away holds
    up nobody whose folder has what was copied last.
    """

    def __init__(self, engine: Engine) -> None:
        self._prefix = prefix_of(engine.plan.store.prefix)
        self._copy: Copy | None = None
        super().__init__(engine)

    async def find(self) -> None:
        engine = self._engine
        engine.progress.phase = "listing"
        mine = next((one.at for one in await asyncio.to_thread(here, engine.state.folder)), 0)
        has_newest = 0 < engine.plan.newest_at <= mine
        copies = [] if has_newest else await copies_there(engine, self._prefix)
        there = next(iter(copies), None)
        if there is None or mine >= there.at:
            engine.progress.listed = True
            engine.work.start()
            engine.work.close()
            return
        self._copy, where = there, self._prefix + there.key
        await asyncio.to_thread(self._tidy)
        store = replace(engine.plan.store, prefix=self._prefix, objects=(where,))
        if not there.is_file:
            store = replace(store, prefix=f"{where}/", objects=None)
        engine.plan = replace(engine.plan, store=store)
        self._base = keys.base_of(store.prefix)
        await super().find()

    @property
    def _aside(self) -> str:
        """The folder in which it grows; no complete one has such a name."""
        return f".restoring-{self._copy.at}" if self._copy is not None else ""

    def _tidy(self) -> None:
        """Remove what an earlier one left, that was cut off or put aside: it has its own size."""
        folder = self._engine.state.folder
        for entry in list(folder.entries()):
            is_left = entry.name.startswith((".restoring-", ".before-"))
            if is_left and entry.name != self._aside and entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.name, ignore_errors=True, dir_fd=folder.fd)

    def _path(self, key: str, size: int = 1) -> str | None:
        path = super()._path(key, size)
        return f"{self._aside}/{path}" if path is not None else None

    async def after(self) -> Stop | None:
        if (copy := self._copy) is None:
            return None
        progress = self._engine.progress
        if progress.failed or progress.skipped:
            return None
        if (progress.found, progress.bytes_found) != (copy.files, copy.bytes):
            return Stop(Final.PARTIAL, _NOT_WHOLE)
        await asyncio.to_thread(self._give_name, copy)
        self._engine.files = [(copy.key, copy.bytes)]
        return None

    def _give_name(self, copy: Copy) -> None:
        folder, aside = self._engine.state.folder, self._aside
        made = f"{aside}/{copy.key}" if copy.is_file else aside
        with suppress(FileNotFoundError):
            folder.rename(copy.name, f".before-{copy.key}")  # an older one of this name
        folder.folder(aside, make=True).close()  # one that holds nothing is one, too
        at = folder.folder(aside) if copy.is_file else folder.folder()
        with at:
            name = copy.key if copy.is_file else aside
            os.utime(name, ns=(copy.at, copy.at), dir_fd=at.fd, follow_symlinks=False)
        folder.rename(made, copy.name)
        if copy.is_file:
            folder.rmdir(aside)
