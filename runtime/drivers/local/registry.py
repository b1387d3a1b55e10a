"""All workloads of this machine: found again at start, made, removed, and who watches them."""

import asyncio
import contextlib
import json
import logging
import os
import time
from pathlib import Path

from runtime.drivers.local import group, listeners, processes, recovery, serving
from runtime.drivers.local.group import Retry
from runtime.drivers.local.launcher import Machine, notice_file
from runtime.drivers.local.records import Record, destroy, killpoint, write_atomic
from runtime.drivers.local.requests import Facts, Refused, Secrets, checked_name
from runtime.drivers.local.snapshots import Snapshots
from runtime.drivers.local.workload import Workload
from runtime.protocol import Seen

log = logging.getLogger("berth.supervisor")
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


class Registry:
    """Every uid we know."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.workloads: dict[str, Workload] = {}  # each part of a group for itself
        self._names: dict[str, set[str]] = {}  # uid → what runs under it
        self._retries: dict[str, Retry] = {}  # uid → the attempts that its launch has left
        self.watchers: set[Watcher] = set()
        self.snapshots = Snapshots(machine)
        self.snapshots.swept, self.snapshots.needs_quiet = self.empty_trash, self.needs_quiet
        self._making = asyncio.Lock()
        self._empty_again = False
        self._emptying: asyncio.Task[None] | None = None
        path = machine.state / "epoch"
        try:
            before = int(path.read_text())
        except (OSError, ValueError):
            before = 0
        epoch = max(before + 1, int(time.time()))
        write_atomic(path, str(epoch))
        self._version = epoch << 32
        machine.ports_taken = lambda: {
            port for w in self.workloads.values() if w.is_alive for port in w.ports()
        }

    def adopt(self) -> None:
        """Take up everything the previous supervisor left."""
        boot, last_alive = processes.boot_id(), self._last_alive()
        for folder in sorted(self.machine.records.iterdir()):
            if folder.is_dir():
                workload = self._workload(folder.name)
                recovery.adopt(workload, boot, last_alive)
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
            self._names.setdefault(group.whole_of(uid), set()).add(uid)
        return found

    def _forget(self, uid: str) -> Workload | None:
        whole = group.whole_of(uid)
        names = self._names.get(whole, set())
        names.discard(uid)
        if not names:
            self._names.pop(whole, None)
        return self.workloads.pop(uid, None)

    def changed(self, uid: str) -> int:
        """Count a change of ``uid`` and tell who watches; return the new version."""
        self._version += 1
        whole = group.whole_of(uid)
        if whole != uid or whole in self._retries:
            asyncio.get_running_loop().call_soon(self._stand_or_fall, whole)
        for watcher in self.watchers:
            watcher.tell(whole)
        return self._version

    def _stand_or_fall(self, whole: str) -> None:
        """One of a group that failed ends the others, each within its own grace; then all again.

        What serves the others ends when they have ended well.
        """
        parts = self.parts(whole)
        if parts and parts[0].spec.get("serve"):
            return  # each for itself
        if group.first_failed(parts) is not None:
            for part in parts:
                part.stop(float(part.spec["stop_grace_s"]))
        for part in group.idle_servers(parts):
            part.stop(float(part.spec["stop_grace_s"]))
        if (retry := self._retries.get(whole)) and not retry.goes_on(parts):
            del self._retries[whole]  # and the secrets with it

    def _give_up(self, uid: str) -> None:
        """No attempt follows any more: how it ended is how it stays."""
        if retry := self._retries.pop(uid, None):
            retry.cancel()
            self.changed(uid)

    def uids(self) -> list[str]:
        """Return what the portal knows of: a group once."""
        return list(self._names)

    def parts(self, uid: str) -> list[Workload]:
        """Return what runs under ``uid`` in its newest launch: itself, or a group's parts."""
        known = self._known(uid)
        newest = max((part.launch for part in known), default=0)
        return [part for part in known if part.launch == newest]

    def _known(self, uid: str) -> list[Workload]:
        found = [self.workloads[name] for name in self._names.get(uid, ())]
        return sorted(found, key=lambda w: group.number_of(w.spec) or 0)

    def starting(self) -> int:
        return sum(1 for w in self.workloads.values() if w.seen == Seen.STARTING)

    def observation(self, uid: str) -> Facts:
        parts = self.parts(uid)
        if not parts:
            return {"uid": uid, "seen": str(Seen.MISSING), "version": self._version}
        alone = group.is_whole(parts)
        try:
            found = group.observation_of_one(parts[0]) if alone else group.observation(parts)
        except Exception:
            # A record may be of an older Berth, or torn: that one is told as far as it is known,
            # and everybody else's as ever.
            log.exception("what is known of %s can't be put together", uid)
            return {**group.observation_of_one(parts[0]), "uid": uid}
        if (retry := self._retries.get(uid)) is None:
            return found
        due = retry.is_due(parts)
        again = retry.made - 1 + due  # all of a group begin anew together
        found["detail"] = {**found["detail"], "failed_attempts": again}
        found["replicas"] = [{**one, "restarts": again} for one in found.get("replicas", ())]
        return group.tried_again(found) if due else found

    async def ensure(self, spec: Facts, secrets: Secrets | None) -> Facts:
        """Make (uid, launch) exist, once. Without ``secrets`` say whether they are needed."""
        uid, launch = spec["uid"], spec["launch"]
        async with self._making:
            known = self._known(uid)
            there = {part.uid: part for part in known if part.seen != Seen.MISSING}
            if any(part.launch > launch for part in there.values()):
                return self._reference(uid, known)
            same = [part for part in known if part.launch == launch]
            if spec.get("serves") is not None and serving.is_made(same):
                return self._reference(uid, known)  # how many there are to be, ``scale`` says
            parts = group.parts_of(spec, lambda many: self._meeting_ports(known, launch, many))
            made = {name for name, part in there.items() if part.launch == launch}
            todo = [part for part in parts if part["uid"] not in made]
            if not todo:
                return self._reference(uid, known)
            if older := [part for part in known if part.is_alive and part.launch < launch]:
                for part in older:
                    part.stop(spec["stop_grace_s"])
                raise Refused("not-yet", "the previous launch is still ending", retry_in=0.2)
            if secrets is None:
                return {"need_secrets": True}
            for part in known:  # of a launch that had more of them
                if not part.is_alive and part.uid not in {one["uid"] for one in parts}:
                    self._discard(part.uid)
            if same and same[0].spec.get("serve"):  # its making was cut short
                serving.note(same[0], wanted=len(parts))
            await self._create(parts, {part["uid"] for part in todo}, secrets)
            return self._reference(uid, self.parts(uid))

    async def scale(self, spec: Facts, secrets: Secrets | None) -> Facts:
        """Let a launch that serves have so many parts; those that are there go on."""
        uid, wanted = spec["uid"], spec["serves"]
        async with self._making:
            parts = self.parts(uid)
            is_its = parts and parts[0].launch == spec["launch"] and parts[0].spec.get("serve")
            if not is_its or serving.is_stopped(parts):
                return {}
            made = serving.parts_of(spec)
            names = {one["uid"] for one in made}
            if any(part.seen == Seen.STOPPING for part in parts if part.uid in names):
                raise Refused("not-yet", "a replica is still ending", retry_in=_ASK_AGAIN_S)
            todo = names - {part.uid for part in parts if part.is_alive}
            if todo and secrets is None:
                return {"need_secrets": True}
            if parts[0].spec["serve"]["wanted"] != wanted:
                serving.note(parts[0], wanted=wanted)
            for part in parts:
                if part.is_alive and part.uid not in names:
                    part.stop(spec["stop_grace_s"])
            if todo and secrets is not None:
                await self._create(made, todo, secrets)
            return {}

    async def _create(self, parts: list[Facts], todo: set[str], secrets: Secrets) -> None:
        """Make those of the parts that are in ``todo``; they share their owner and their mounts."""
        first = parts[0]
        user = await self.machine.user_of(first["project"], first["owner"])
        for mount in first["mounts"]:
            is_shared = mount["role"] == "data" and not mount["owner"]
            uid_of_volume = mount["volume_uid"]
            mount["group"] = await self.machine.group_of(uid_of_volume) if is_shared else None
        whole = group.whole_of(first["uid"])
        self._give_up(whole)
        if retry := Retry.of(parts, user, secrets, self.workloads.get):
            self._retries[whole] = retry
        for spec in parts:
            if spec["uid"] not in todo:
                continue
            workload = self._workload(spec["uid"])
            try:
                workload.create(spec, user, secrets)
            except BaseException:
                if not workload.spec:
                    self._forget(spec["uid"])
                raise

    def _meeting_ports(self, known: list[Workload], launch: int, many: int) -> list[int]:
        """Return where the parts of this launch meet: chosen once for all of them."""
        for part in known:
            if part.launch == launch and (told := part.spec.get("group")):
                return [int(port) for port in told.get("ports") or [told["port"]]]
        taken = set(self.machine.ports_taken())
        found: list[int] = []
        while len(found) < many:
            port = listeners.choose_port(*self.machine.ports, taken | set(found))
            if port is None:
                raise Refused("not-yet", "no free port on this machine", retry_in=2.0)
            found.append(port)
        return found

    def refresh(self, uid: str, launch: int, secrets: Secrets) -> None:
        """Write the secrets of exactly this launch again."""
        parts = [part for part in self.parts(uid) if part.launch == launch]
        for part in parts:
            part.refresh(secrets)
        if parts and (retry := self._retries.get(uid)):
            retry.secrets = secrets

    @staticmethod
    def _reference(uid: str, parts: list[Workload]) -> Facts:
        launch = max(part.launch for part in parts)
        return {"ref": {"supervisor": "local", "uid": uid, "launch": launch}}

    async def stop(self, uid: str, grace_s: float) -> None:
        async with self._making:  # what is just being made is seen, and ends too
            self._stop(uid, grace_s)

    def _stop(self, uid: str, grace_s: float) -> None:
        self._give_up(uid)
        parts = self.parts(uid)
        if parts and parts[0].spec.get("serve") and not serving.is_stopped(parts):
            serving.note(parts[0], stopped=True)
        alive = [part for part in self._known(uid) if part.is_alive]
        for part in alive:
            part.stop(grace_s)
        if alive:
            raise Refused("not-yet", "it is ending", retry_in=_ASK_AGAIN_S)

    def tell(self, uid: str, notice: dict[str, str]) -> None:
        """Write why it is about to end where each of its parts looks (``BERTH_NOTICE_FILE``).

        Then its owner's own hook runs; what it does counts in the grace.
        """
        text = json.dumps({str(name)[:64]: str(value)[:512] for name, value in notice.items()})
        for part in self._known(uid):
            if part.is_alive:
                path = notice_file(self.machine.spaces / part.uid)
                write_atomic(path, text)
                path.chmod(0o644)
                part.run_hook()

    def mark(self, uid: str, installation: str) -> None:
        """Say whose it is, of what was made before there were marks."""
        for found in self._known(uid):
            if found.spec.get("installation"):
                continue
            found.spec["installation"] = installation
            if (kept := found.record.read("spec")) is not None:
                found.record.write("spec", {**kept, "installation": installation})

    def remove(self, uid: str, installation: str = "") -> None:
        """Remove all traces but volumes; the record goes last."""
        checked_name(uid, "uid")
        known = self._known(uid)
        if any(part.spec.get("installation", "") not in ("", installation) for part in known):
            raise Refused("error", f"{uid} was made by another Berth, and is left")
        self._give_up(uid)
        if alive := [part for part in known if part.is_alive]:
            for part in alive:
                part.hurry(_REMOVE_GRACE_S)
            raise Refused("not-yet", "it is ending", retry_in=_ASK_AGAIN_S)
        killpoint("remove")
        for name in [part.uid for part in known] or [uid]:
            self._discard(name)
        self.machine.trash.take(self.machine.spaces / uid)  # a group's own, with its checkpoints
        self.empty_trash()

    def _discard(self, name: str) -> None:
        self.machine.groups.remove(name)
        self.machine.trash.take(self.machine.spaces / name)
        killpoint("remove-space-gone")
        self.machine.trash.take(self.machine.records / name)
        killpoint("remove-record-gone")
        if found := self._forget(name):
            found.close()
            self.changed(name)

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
        for uid in list(self._retries):
            self._give_up(uid)
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
