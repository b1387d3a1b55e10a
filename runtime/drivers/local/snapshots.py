"""Snapshots of volumes that are folders: copies that share blocks where the disk can do that.

A copy is made by a process of its own beside the event loop (``copytree.py``), under a name that
counts for nothing, and becomes the snapshot by one rename. A restore copies the snapshot the
same way and exchanges two names. Whatever is killed leaves the volume as it was or as it shall
be; half a copy is thrown away by the next supervisor.
"""

import asyncio
import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from runtime.drivers.local import copytree
from runtime.drivers.local.launcher import Machine
from runtime.drivers.local.records import destroy, killpoint, write_atomic
from runtime.drivers.local.requests import Refused, checked_name

_COPY = (sys.executable, "-I", "-S", "-E", copytree.__file__)
_LIBC = ctypes.CDLL(None, use_errno=True)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_ASK_AGAIN_S = 0.3
_NEW, _GONE = ".new-", ".gone-"
_DONE_KEPT = 1000


class Snapshots:
    """All of one machine; ``<volumes>/.snapshots/<uid>``, closed to everybody."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.folder = machine.volumes / ".snapshots"
        self.swept: Callable[[], None] = lambda: None  # asks that what was put aside be deleted
        self.needs_quiet: Callable[[str], None] = lambda _uid: None  # Refused while it is used
        self._running: dict[str, asyncio.Task[int]] = {}
        self._restored: dict[tuple[str, str], int] = {}

    def make(self) -> None:
        """At start: what a killed supervisor left half done counts for nothing."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.folder.chmod(0o700)
        for entry in self.folder.iterdir():
            if entry.name.startswith(_NEW):
                entry.rename(entry.with_name(f"{_GONE}{os.urandom(6).hex()}"))

    def ensure(self, uid: str, volume_uid: str) -> int:
        """Make it once; return the bytes in it."""
        kept = self._kept(uid)
        if kept.is_dir():
            try:
                return int(self._note(uid).read_text())
            except (OSError, ValueError):
                return 0  # unknown
        source = self._machine.volume(volume_uid)
        if not source.is_dir():
            raise Refused("invalid-spec", "the volume is not on this machine")
        self._begin(uid, lambda: self._copy(uid, source))
        raise Refused("not-yet", "it is being copied", retry_in=_ASK_AGAIN_S)

    def restore(self, uid: str, volume_uid: str) -> None:
        """Put its contents in place of the volume's."""
        pair = (uid, volume_uid)
        if pair in self._restored:  # the answer to who asks again until it is done
            del self._restored[pair]
            return
        kept, target = self._kept(uid), self._machine.volume(volume_uid)
        if not kept.is_dir():
            raise Refused("invalid-spec", "there is no such snapshot")
        self._begin(f"{uid}/{volume_uid}", lambda: self._put_back(pair, kept, target))
        raise Refused("not-yet", "it is being copied", retry_in=_ASK_AGAIN_S)

    def remove(self, uid: str) -> None:
        kept = self._kept(uid)
        if uid in self._running:
            self._running[uid].cancel()
        if kept.exists():
            kept.rename(kept.with_name(f"{_GONE}{os.urandom(6).hex()}"))
        self._note(uid).unlink(missing_ok=True)

    def empty(self) -> None:
        """Delete what was put aside; in a thread of its own."""
        if self.folder.is_dir():
            for entry in self.folder.glob(f"{_GONE}*"):
                destroy(entry)

    async def close(self) -> None:
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    # -- inside ----------------------------------------------------------------------------

    def _kept(self, uid: str) -> Path:
        return self.folder / checked_name(uid, "snapshot")

    def _note(self, uid: str) -> Path:
        return self.folder / f"{checked_name(uid, 'snapshot')}.size"

    def _begin(self, key: str, work: Callable[[], Coroutine[Any, Any, int]]) -> None:
        """Start it, or look how it goes; an error is told once and it may be tried again."""
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.get_running_loop().create_task(work())
            task.add_done_callback(lambda done: self._ended(key, done))
        elif task.done():
            del self._running[key]
            if not task.cancelled() and (problem := task.exception()):
                if isinstance(problem, Refused):
                    raise problem
                raise Refused("error", str(problem), reason="start-failed")

    def _ended(self, key: str, done: asyncio.Task[int]) -> None:
        """What went well is seen by its result; an error waits to be told."""
        self.swept()
        if not done.cancelled() and done.exception() is None and self._running.get(key) is done:
            del self._running[key]

    async def _copy(self, uid: str, source: Path) -> int:
        with self._fresh(uid) as fresh:
            size = await self._run(source, fresh)
            killpoint("snapshot-copied")
            write_atomic(self._note(uid), str(size))
            fresh.rename(self._kept(uid))
        killpoint("snapshot-kept")
        return size

    async def _put_back(self, pair: tuple[str, str], kept: Path, target: Path) -> int:
        with self._fresh(pair[0]) as fresh:
            size = await self._run(kept, fresh)
            killpoint("snapshot-read")
            self.needs_quiet(target.name)  # a workload may have begun meanwhile
            self._swap(fresh, target)
        while len(self._restored) >= _DONE_KEPT:
            self._restored.pop(next(iter(self._restored)))
        self._restored[pair] = size
        return size

    def _swap(self, fresh: Path, target: Path) -> None:
        """The volume's name leads to the old contents or to the new ones, never to nothing."""
        if not target.exists():
            fresh.rename(target)
            return
        # Swap two names in one step
        names = (str(fresh).encode(), str(target).encode())
        if _LIBC.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(target))
        killpoint("snapshot-exchanged")

    @contextlib.contextmanager
    def _fresh(self, uid: str) -> Iterator[Path]:
        """Give a name for a copy; what bears it in the end, half a copy or old contents, goes."""
        fresh = self.folder / f"{_NEW}{uid}-{os.urandom(6).hex()}"
        try:
            yield fresh
        finally:
            if fresh.exists():
                fresh.rename(fresh.with_name(f"{_GONE}{os.urandom(6).hex()}"))

    async def _run(self, source: Path, target: Path) -> int:
        process = await asyncio.create_subprocess_exec(
            *_COPY,
            str(source),
            str(target),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={},
        )
        try:
            out, said = await process.communicate()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):  # it ended, and we were not told yet
                process.kill()
            await process.wait()
            raise
        if process.returncode:
            why = said.decode(errors="replace").strip()[:200]
            raise OSError(f"the volume could not be copied: {why or process.returncode}")
        return int(out)
