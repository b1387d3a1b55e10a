"""All workloads of this machine: found again at start, made, removed, and who watches them."""

import asyncio
import contextlib
import os
import time
from pathlib import Path

from runtime.drivers.local import adoption, observing, procfs
from runtime.drivers.local.json_lines import Refused
from runtime.drivers.local.killpoints import killpoint
from runtime.drivers.local.launcher import Machine, Secrets, checked_name
from runtime.drivers.local.records import Record, destroy, write_atomic
from runtime.drivers.local.snapshots import Snapshots
from runtime.drivers.local.workload import Facts, Workload
from runtime.protocol import Seen

_REMOVE_GRACE_S = 2.0
_ASK_AGAIN_S = 0.2
_ALIVE_S = 30.0
_GONE = ".gone-"


class Watcher:
    """One who watches: gets the uids that changed since it last looked, each once."""

    def __init__(self) -> None:
        self.dirty: set[str] = set()
        self.event = asyncio.Event()

    def tell(self, uid: str) -> None:
        self.dirty.add(uid)
        self.event.set()

    async def changes(self, timeout_s: float) -> set[str]:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.event.wait()
        self.event.clear()
        changed, self.dirty = self.dirty, set()
        return changed


class World:
    """Every uid we know."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.workloads: dict[str, Workload] = {}
        self.watchers: set[Watcher] = set()
        self.snapshots = Snapshots(machine)
        self.snapshots.swept, self.snapshots.needs_quiet = self.empty_trash, self.needs_quiet
        self._making = asyncio.Lock()
        self._empty_again = False
        self._emptying: asyncio.Task[None] | None = None
        self._version = _new_epoch(machine.state / "epoch") << 32
        machine.ports_taken = lambda: {
            w.port for w in self.workloads.values() if w.port and w.is_alive
        }

    def adopt(self) -> None:
        """Take up everything the previous supervisor left."""
        boot, last_alive = procfs.boot_id(), self._last_alive()
        for folder in sorted(self.machine.records.iterdir()):
            if folder.is_dir():
                workload = self._workload(folder.name)
                adoption.adopt(workload, boot, last_alive)
        self.snapshots.make()
        living = {uid for uid, found in self.workloads.items() if found.is_alive}
        self.machine.secret_folders.keep_only(living)
        self.empty_trash()

    def _last_alive(self) -> float | None:
        try:
            return (self.machine.state / "alive").stat().st_mtime
        except OSError:
            return None

    async def stay_known(self) -> None:
        """Note every while that we, and what runs, are here: a power cut tells nobody when."""
        while True:
            if any(found.is_alive for found in self.workloads.values()):
                with contextlib.suppress(OSError):
                    (self.machine.state / "alive").touch(mode=0o600)
            await asyncio.sleep(_ALIVE_S)

    def _workload(self, uid: str) -> Workload:
        found = self.workloads.get(uid)
        if found is None:
            record = Record(self.machine.records / uid)
            found = self.workloads[uid] = Workload(self.machine, record, self.changed)
            found.crowd, found.swept = self.starting, self.empty_trash
        return found

    def changed(self, uid: str) -> int:
        """Count a change of ``uid`` and tell who watches; return the new version."""
        self._version += 1
        for watcher in self.watchers:
            watcher.tell(uid)
        return self._version

    def starting(self) -> int:
        return sum(1 for w in self.workloads.values() if w.seen == Seen.STARTING)

    def observation(self, uid: str) -> Facts:
        if found := self.workloads.get(uid):
            return observing.observation(found)
        return {"uid": uid, "seen": str(Seen.MISSING), "version": self._version}

    async def ensure(self, spec: Facts, secrets: Secrets | None) -> Facts:
        """Make (uid, launch) exist, once. Without ``secrets`` say whether they are needed."""
        uid = checked_name(spec["uid"], "uid")
        async with self._making:
            found = self.workloads.get(uid)
            if found and found.seen != Seen.MISSING:
                if spec["launch"] <= found.launch:
                    return self._reference(found)
                if found.is_alive:
                    found.stop(spec["stop_grace_s"])
                    raise Refused("not-yet", "the previous launch is still ending", retry_in=0.2)
            if secrets is None:
                return {"need_secrets": True}
            user = await self.machine.user_of(spec["project"], spec["owner"])
            for mount in spec["mounts"]:
                is_shared = mount["role"] == "data" and not mount["owner"]
                uid_of_volume = mount["volume_uid"]
                mount["group"] = await self.machine.group_of(uid_of_volume) if is_shared else None
            workload = self._workload(uid)
            try:
                workload.create(spec, user, secrets)
            except BaseException:
                if not workload.spec:
                    del self.workloads[uid]
                raise
            return self._reference(workload)

    def refresh(self, uid: str, launch: int, secrets: Secrets) -> None:
        """Write the secrets of exactly this launch again."""
        found = self.workloads.get(uid)
        if found and found.launch == launch:
            found.refresh(secrets)

    @staticmethod
    def _reference(workload: Workload) -> Facts:
        return {"ref": {"supervisor": "local", "uid": workload.uid, "launch": workload.launch}}

    def stop(self, uid: str, grace_s: float) -> None:
        found = self.workloads.get(uid)
        if found and found.is_alive:
            found.stop(grace_s)
            raise Refused("not-yet", "it is ending", retry_in=_ASK_AGAIN_S)

    def mark(self, uid: str, installation: str) -> None:
        """Say whose it is, of what was made before there were marks."""
        found = self.workloads.get(uid)
        if found and not found.spec.get("installation"):
            found.spec["installation"] = installation
            if (kept := found.record.read("spec")) is not None:
                found.record.write("spec", {**kept, "installation": installation})

    def remove(self, uid: str, installation: str = "") -> None:
        """Remove all traces but volumes; the record goes last."""
        checked_name(uid, "uid")
        found = self.workloads.get(uid)
        if found and found.spec.get("installation", "") not in ("", installation):
            raise Refused("error", f"{uid} was made by another Berth, and is left")
        if found and found.is_alive:
            found.hurry(_REMOVE_GRACE_S)
            raise Refused("not-yet", "it is ending", retry_in=_ASK_AGAIN_S)
        killpoint("remove")
        self.machine.groups.remove(uid)
        self.machine.trash.take(self.machine.spaces / uid)
        killpoint("remove-space-gone")
        self.machine.trash.take(self.machine.records / uid)
        killpoint("remove-record-gone")
        if found:
            found.close()
            del self.workloads[uid]
            self.changed(uid)
        self.empty_trash()

    def needs_quiet(self, volume_uid: str) -> None:
        """NotYet while a workload uses the volume."""
        for found in self.workloads.values():
            mounts = found.spec.get("mounts", ()) if found.is_alive else ()
            if any(mount["volume_uid"] == volume_uid for mount in mounts):
                raise Refused("not-yet", "a workload still uses it", retry_in=1.0)

    def discard(self, volume: Path) -> None:
        """Move a volume aside in one step, so that nobody sees half of it; then delete it."""
        with contextlib.suppress(FileNotFoundError):
            volume.rename(volume.with_name(f"{_GONE}{volume.name}-{os.urandom(4).hex()}"))
        self.empty_trash()

    def empty_trash(self) -> None:
        self._empty_again = True
        if self._emptying is None or self._emptying.done():
            self._emptying = asyncio.get_running_loop().create_task(self._empty())

    async def _empty(self) -> None:
        while self._empty_again:
            self._empty_again = False
            await asyncio.to_thread(self.machine.trash.empty)
            await asyncio.to_thread(self.machine.secret_folders.empty)
            await asyncio.to_thread(self.snapshots.empty)
            for folder in self.machine.volumes.glob(f"{_GONE}*"):
                await asyncio.to_thread(destroy, folder)

    async def stop_all(self) -> None:
        """End every workload, each within its own grace."""
        for workload in self.workloads.values():
            workload.stop(float(workload.spec.get("stop_grace_s", _REMOVE_GRACE_S)))
        while any(w.is_alive for w in self.workloads.values()):  # noqa: ASYNC110 - ends once
            await asyncio.sleep(0.05)

    async def close(self) -> None:
        for workload in self.workloads.values():
            workload.close()
        await self.snapshots.close()
        if self._emptying:
            with contextlib.suppress(Exception):
                await self._emptying
        self.machine.secret_folders.close()


def _new_epoch(path: Path) -> int:
    """Return a number higher than any before, even when the folder was lost in between."""
    try:
        before = int(path.read_text())
    except (OSError, ValueError):
        before = 0
    epoch = max(before + 1, int(time.time()))
    write_atomic(path, str(epoch))
    return epoch
