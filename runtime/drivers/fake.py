"""A driver whose world is a dictionary: for tests, demos and the contract suite.

Behaviour is scripted per uid, or for all by ``"*"``::

    fake.script("*", ready_after_s=2)
    fake.script(uid, never_ready=True)
    fake.script(uid, exit_after_s=1, exit_code=137, exit_reason="oom")
    fake.script(uid, exit_after_s=1, exit_codes=[1, 0])    # of one attempt after the other
    fake.fail("ensure", "unreachable", times=2)      # for all; or uid=…
    fake.exit(uid, code=1); fake.vanish(uid); fake.make_ready(uid)
    fake.exit(uid, code=3, replica=1)                # of a group: the others end with it

With ``BERTH_FAKE_WORLD`` (a file) the world is shared between processes and outlives them.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runtime import protocol as p
from runtime.capabilities.experiments import EXPERIMENT, ExperimentSpec, Proposal, TrialEnd
from runtime.capabilities.volumes import CannotGrow
from runtime.capabilities.workloads import EventLines, Held
from runtime.drivers import mounts
from runtime.drivers.mounts import checked
from runtime.spec import Backing, RetryPolicy, WorkloadSpec
from runtime.store import Store

_ERRORS: dict[str, Callable[[], Exception]] = {
    "unreachable": lambda: p.Unreachable("The fake machine does not answer."),
    "denied": lambda: p.Denied("The fake machine's rules refuse this."),
    "no-capacity": lambda: p.NoCapacity("The fake machine is full."),
    "invalid": lambda: p.InvalidSpec("The fake machine can't run this."),
    "not-yet": lambda: p.NotYet("Under way.", retry_in=0.01),
    "held": lambda: Held("A mark keeps it.", retry_in=2.0),
    "crash": lambda: RuntimeError("a bug in the driver"),
}
_HEARTBEAT_S = 10.0
_PORTS = (20000, 40000)
_OVER = (p.Seen.STOPPING, p.Seen.EXITED)


class FakeDriver:
    """Implements every verb and every capability."""

    def __init__(self, path: Path | None = None, installation: str = "") -> None:
        self._store = Store(path)
        self._installation = installation

    # --- scripting (tests only) ---------------------------------------------------------
    def script(self, uid: str, **behaviour: Any) -> None:
        with self._store.open() as world:
            world.setdefault("scripts", {})[str(uid)] = behaviour

    def fail(self, verb: str, error: str, *, times: int = 1, uid: str = "*") -> None:
        """Make ``verb`` raise ``error`` the next ``times`` times; -1 = until told otherwise."""
        with self._store.open() as world:
            world.setdefault("failures", {})[f"{verb}:{uid}"] = {"error": error, "left": times}

    def heal(self) -> None:
        with self._store.open() as world:
            world["failures"] = {}

    def change(self, uid: str, **seen: Any) -> None:
        with self._store.open() as world:
            world["workloads"][str(uid)].update(seen, version=self._bump(world))

    def make_ready(self, uid: str) -> None:
        self.change(uid, seen=p.Seen.READY, ready_at=time.time())

    def exit(
        self,
        uid: str,
        *,
        code: int | None = 1,
        reason: str = "",
        message: str = "",
        replica: int = 0,
        checkpoint: bool = False,
    ) -> None:
        told: dict[str, Any] = {"reason": reason, "message": message, "ended_first": replica}
        told["checkpoint"] = checkpoint
        with self._store.open() as world:
            self._end(world, world["workloads"][str(uid)], code, **told)

    def vanish(self, uid: str) -> None:
        """Gone by somebody's hand, with all traces."""
        with self._store.open() as world:
            world.get("workloads", {}).pop(str(uid), None)
            self._bump(world)

    def set_devices(self, devices: Iterable[p.Device]) -> None:
        with self._store.open() as world:
            world["devices"] = [asdict(one) for one in devices]

    def set_capacity(self, *, cpu_milli: int, memory_mib: int) -> None:
        with self._store.open() as world:
            world["capacity"] = [cpu_milli, memory_mib]

    def calls(self, verb: str) -> int:
        with self._store.open() as world:
            return int(world.get("calls", {}).get(verb, 0))

    def spec_seen(self, uid: str) -> Mapping[str, Any]:
        with self._store.open() as world:
            return dict(world.get("workloads", {}).get(str(uid), {}))

    def write_log(self, uid: str, text: str, *, replica: int = 0) -> None:
        with self._store.open() as world:
            logs, key = world.setdefault("logs", {}), _log_of(str(uid), replica)
            logs[key] = logs.get(key, "") + text

    # --- the verbs ----------------------------------------------------------------------
    def ensure(self, spec: WorkloadSpec) -> Mapping[str, object]:
        with self._verb("ensure", spec.uid) as world:
            workloads = world.setdefault("workloads", {})
            old = workloads.get(spec.uid)
            if old is not None:
                self._settle(world, spec.uid)
            if old is not None and old["launch"] >= spec.launch:
                return {"launch": old["launch"]}
            if old is not None and old["seen"] != p.Seen.EXITED:
                self._ask_to_end(world, spec.uid)
                raise p.NotYet("The previous run is still ending.", retry_in=0.05)
            if spec.is_group and not spec.once:
                raise p.InvalidSpec("Only what runs to its end can have several replicas.")
            if spec.serve is not None and spec.serve.replicas < 1:
                raise p.InvalidSpec("What serves begins with one replica or more.")
            mounts.check(spec.mounts)
            groups = spec.groups if spec.is_group else ()
            roles = [one.role for one in groups for _ in range(one.replicas)]
            secrets, files = spec.secret_env(), checked(spec.secret_files())
            workloads[spec.uid] = {
                "uid": spec.uid,
                "kind": spec.kind,
                "name": spec.name,
                "launch": spec.launch,
                "installation": self._installation,
                "env": dict(spec.env),
                "secret_names": sorted(secrets),
                "secret_files": sorted(files),
                "placed_files": list(spec.placed_files),
                "devices": list(spec.devices),
                "mounts": [m.volume_uid for m in spec.mounts],
                "attempt": 1,
                "retry": asdict(spec.retry if spec.once else RetryPolicy()),
                "queue": spec.queue,
                "priority": spec.priority,
                "roles": roles,
                # of each replica that serves, since when it is there; None: it does not serve
                "serving": [time.time()] * spec.serve.replicas if spec.serve else None,
                "node": "fake",
                "seen": p.Seen.STARTING,
                "started_at": time.time(),
                "version": self._bump(world),
            }
            logs = world.setdefault("logs", {})  # of the present launch, as everywhere
            logs[spec.uid] = f"starting {spec.name}, launch {spec.launch}\n"
            for number in range(len(roles)):
                logs[_log_of(spec.uid, number)] = (
                    f"starting {spec.name}, launch {spec.launch}\n"
                    f"rank={number} of {spec.replicas} at 127.0.0.1:29500\n"
                )
            starts = world.setdefault("starts", {})
            starts[spec.uid] = [*starts.get(spec.uid, []), spec.launch]
            return {"launch": spec.launch}

    def scale(self, spec: WorkloadSpec) -> None:
        with self._verb("scale", spec.uid) as world:
            item = world.get("workloads", {}).get(spec.uid) or {}
            if item.get("launch") != spec.launch or item["seen"] in _OVER or spec.serve is None:
                return
            more = spec.serve.replicas - len(item["serving"])
            if more:
                item["serving"] = item["serving"][: spec.serve.replicas] + [time.time()] * more
                item["version"] = self._bump(world)

    def observe(self, uids: Iterable[str]) -> Mapping[str, p.Observation]:
        with self._verb("observe") as world:
            return {str(uid): self._look(world, str(uid)) for uid in uids}

    def stop(self, uid: str, *, grace_s: float) -> None:
        del grace_s
        with self._verb("stop", uid) as world:
            item = world.get("workloads", {}).get(uid)
            if item is None or item["seen"] == p.Seen.EXITED:
                return
            self._ask_to_end(world, uid)
            self._settle(world, uid)
            if item["seen"] != p.Seen.EXITED:
                raise p.NotYet("It is ending.", retry_in=0.05)

    def tell(self, uid: str, notice: Mapping[str, str]) -> None:
        with self._store.open() as world:
            world.setdefault("told", {})[uid] = dict(notice)

    def told(self, uid: str) -> Mapping[str, str]:
        """Return what was told last to a program that was about to end."""
        with self._store.open() as world:
            return dict(world.get("told", {}).get(uid, {}))

    def remove(self, uid: str) -> None:
        with self._verb("remove", uid):
            pass  # it may be told to fail before it asks anything to end
        self.stop(uid, grace_s=0)
        with self._store.open() as world:
            if world.get("workloads", {}).pop(uid, None) is not None:
                self._bump(world)
            logs = world.get("logs", {})
            for name in [n for n in logs if n.partition("/")[0] == uid]:
                del logs[name]

    def list_owned(self) -> Iterable[p.Observation]:
        with self._verb("list_owned") as world:
            return [self._look(world, uid) for uid in list(world.get("workloads", {}))]

    def adopt(self, uid: str) -> None:
        with self._store.open() as world:
            item = world.get("workloads", {}).get(uid)
            if item is not None and not item.get("installation"):
                item["installation"] = self._installation

    def probe(self) -> p.Health:
        with self._verb("probe") as world:
            cpu, memory = world.get("capacity", [64000, 262144])
            devices = tuple(p.Device(**d) for d in world.get("devices", []))
        flags = dict.fromkeys(p.ISOLATION, True)
        return p.Health(True, "fake", cpu, memory, devices, flags)

    # --- capabilities ---------------------------------------------------------------------
    def watch(self, *, stop: Callable[[], bool]) -> Iterator[list[p.Observation]]:
        known: dict[str, int] = {}
        first = True
        beat = time.monotonic()
        while not stop():
            with self._verb("watch") as world:
                seen = [self._look(world, uid) for uid in list(world.get("workloads", {}))]
                top = world.get("version", 0)
            now_there = {o.uid for o in seen}
            changes = [o for o in seen if known.get(o.uid) != o.version]
            gone = [
                p.Observation(uid=u, seen=p.Seen.MISSING, version=top)
                for u in known
                if u not in now_there
            ]
            known = {o.uid: o.version for o in seen}
            if first or changes or gone or time.monotonic() - beat > _HEARTBEAT_S:
                yield seen if first else changes + gone
                first, beat = False, time.monotonic()
                continue
            self._store.wait(0.05)

    def ensure_volume(
        self, volume_uid: str, *, project: str, owner: str, backing: Backing | None = None
    ) -> None:
        with self._verb("ensure_volume", volume_uid) as world:
            made = world.setdefault("volumes", {}).setdefault(
                volume_uid, {"project": project, "owner": owner, "bytes": 0}
            )
            wanted, before = backing.size_mib if backing else None, made.get("size_mib")
            if backing and before and (wanted or 0) > before and not self.can_grow(backing):
                raise CannotGrow("The fake storage stays as it is.", size_mib=before)
            made["size_mib"] = wanted

    def can_grow(self, backing: Backing) -> bool:
        return backing.options.get("storage_class") != "fixed"

    def refresh_secrets(self, spec: WorkloadSpec) -> None:
        with self._verb("refresh_secrets", spec.uid) as world:
            if (held := world.get("workloads", {}).get(spec.uid)) is not None:
                held["secret_names"] = sorted(spec.secret_env())
                held["secret_files"] = sorted(spec.secret_files())

    def stand(self, uid: str, *, priority: str, waits: bool) -> bool:
        with self._verb("stand", uid) as world:
            held = world.get("workloads", {}).get(uid)
            if held is not None:
                held["stands"] = {"priority": priority, "waits": waits}
            return held is not None

    # --- values of searches: random ones that ``proposals`` scripts (tests only) -----------------
    def propose(self, *values: Mapping[str, str]) -> None:
        """What experiments are to propose, one after the other, as many as may be open."""
        with self._store.open() as world:
            world["proposals"] = [dict(one) for one in values]

    def ensure_experiment(self, spec: ExperimentSpec) -> tuple[Proposal, ...]:
        with self._verb("ensure_experiment", spec.uid) as world:
            made = world.setdefault("experiments", {}).setdefault(_begin_of(spec), [])
            waiting = world.get("proposals", [])
            while waiting and len(made) < spec.trials_max:
                if sum(not one["told"] for one in made) >= spec.parallel:
                    break
                name = f"{_begin_of(spec)}-{len(made)}"
                made.append({"name": name, "values": waiting.pop(0), "told": ""})
            return tuple(Proposal(o["name"], o["values"], bool(o["told"])) for o in made)

    def tell_trial(self, spec: ExperimentSpec, name: str, end: TrialEnd) -> None:
        with self._verb("tell_trial", spec.uid) as world:
            for one in world["experiments"].get(_begin_of(spec), []):
                if one["name"] == name:
                    one.update(told=end.state, curve=list(end.curve))

    def remove_experiment(self, uid: str) -> None:
        with self._verb("remove_experiment", uid) as world:
            made = world.get("experiments", {})
            for name in [name for name in made if name.rpartition("-")[0] == uid]:
                del made[name]

    def list_experiments(self) -> Iterable[p.Observation]:
        with self._verb("list_experiments") as world:
            uids = {name.rpartition("-")[0] for name in world.get("experiments", {})}
        whose = self._installation
        return [
            p.Observation(uid, p.Seen.READY, kind=EXPERIMENT, installation=whose)
            for uid in sorted(uids)
        ]

    def experiments_seen(self) -> Mapping[str, list[Mapping[str, Any]]]:
        with self._store.open() as world:
            return dict(world.get("experiments", {}))

    def can_snapshot(self, backing: Backing) -> bool:
        return backing.kind != "nfs"

    def ensure_snapshot(self, snapshot_uid: str, *, volume_uid: str, backing: Backing) -> int:
        del backing
        with self._verb("ensure_snapshot", snapshot_uid) as world:
            size = int(world.get("volumes", {}).get(volume_uid, {}).get("bytes", 0))
            world.setdefault("snapshots", {}).setdefault(
                snapshot_uid, {"of": volume_uid, "bytes": size}
            )
            return int(world["snapshots"][snapshot_uid]["bytes"])

    def restore_snapshot(self, snapshot_uid: str, *, volume_uid: str, backing: Backing) -> None:
        del backing
        with self._verb("restore_snapshot", snapshot_uid) as world:
            kept = world.get("snapshots", {}).get(snapshot_uid)
            if kept is None:
                raise p.InvalidSpec("There is no such snapshot.")
            world["volumes"][volume_uid]["bytes"] = kept["bytes"]

    def remove_snapshot(self, snapshot_uid: str, *, volume_uid: str, backing: Backing) -> None:
        del volume_uid, backing
        with self._verb("remove_snapshot", snapshot_uid) as world:
            world.get("snapshots", {}).pop(snapshot_uid, None)

    def can_move(self, backing: Backing) -> bool:
        return backing.kind != "storage-class"

    def move_volume(self, volume_uid: str, *, project: str, owner: str, backing: Backing) -> None:
        del backing
        with self._verb("move_volume", volume_uid) as world:
            world["volumes"][volume_uid].update(project=project, owner=owner)

    def fill_volume(self, volume_uid: str, size: int) -> None:
        """Let it hold so many bytes (tests only)."""
        with self._store.open() as world:
            world["volumes"][str(volume_uid)]["bytes"] = size

    def volume_seen(self, volume_uid: str) -> Mapping[str, Any] | None:
        with self._store.open() as world:
            found = world.get("volumes", {}).get(str(volume_uid))
            return None if found is None else dict(found)

    def remove_volume(self, volume_uid: str) -> None:
        with self._verb("remove_volume", volume_uid) as world:
            world.get("volumes", {}).pop(volume_uid, None)

    def volume_usage(self, volume_uid: str) -> int | None:
        with self._store.open() as world:
            volume = world.get("volumes", {}).get(volume_uid)
            return int(volume["bytes"]) if volume else None

    def read_log(
        self, uid: str, *, offset: int = 0, limit: int = 65536, replica: int = 0
    ) -> tuple[bytes, int]:
        with self._verb("read_log", uid) as world:
            data = str(world.get("logs", {}).get(_log_of(uid, replica), "")).encode()
        part = data[offset : offset + limit]
        return part, min(offset, len(data)) + len(part)

    def read_events(
        self, uid: str, *, launch: int, cursor: str = "", limit: int = 65536
    ) -> EventLines:
        with self._verb("read_events", uid) as world:
            data = str(world.get("events", {}).get(f"{uid}/{launch}", "")).encode()
            seen = self._look(world, uid)
        is_over = seen.launch != launch or seen.seen in (p.Seen.EXITED, p.Seen.MISSING)
        if (offset := int(cursor or 0)) > len(data):
            return EventLines(b"", "0", more=True, again=True)
        part = data[offset : offset + limit]
        return EventLines.of_file(part, offset, limit=limit, is_over=is_over)

    def tell_events(self, uid: str, launch: int, text: str) -> None:
        """Let the program of a launch tell of itself."""
        with self._store.open() as world:
            told = world.setdefault("events", {})
            told[f"{uid}/{launch}"] = told.get(f"{uid}/{launch}", "") + text

    def usage(self, uids: Iterable[str]) -> Mapping[str, Mapping[str, float]]:
        with self._verb("usage") as world:
            looked = {str(u): self._look(world, str(u)) for u in uids}
        sample = {"cpu_milli": 250.0, "memory_mib": 512.0}
        return {u: sample for u, o in looked.items() if o.seen == p.Seen.READY}

    # --- inside ------------------------------------------------------------------------------
    @contextmanager
    def _verb(self, verb: str, uid: str = "*") -> Iterator[dict[str, Any]]:
        """Open the world, count the call, and fail as it was told."""
        with self._store.open() as world:
            calls = world.setdefault("calls", {})
            calls[verb] = calls.get(verb, 0) + 1
            for key in (f"{verb}:{uid}", f"{verb}:*", f"*:{uid}", "*:*"):
                plan = world.get("failures", {}).get(key)
                if plan and plan["left"] != 0:
                    plan["left"] -= 1 if plan["left"] > 0 else 0
                    error = _ERRORS[plan["error"]]()
                    raise error
            yield world

    def _bump(self, world: dict[str, Any]) -> int:
        world["version"] = int(world.get("version", 0)) + 1
        return int(world["version"])

    def _ask_to_end(self, world: dict[str, Any], uid: str) -> None:
        item = world["workloads"][uid]
        if item["seen"] in {p.Seen.EXITED, p.Seen.STOPPING}:
            return
        item.update(seen=p.Seen.STOPPING, asked_at=time.time(), version=self._bump(world))

    def _settle(self, world: dict[str, Any], uid: str) -> None:
        """Let time do what the script says."""
        item = world["workloads"][uid]
        scripts = world.get("scripts", {})
        script = scripts.get(uid) or scripts.get("*") or {}
        age = time.time() - item["started_at"]
        if item["seen"] == p.Seen.STOPPING:
            if time.time() - item["asked_at"] >= script.get("stop_after_s", 0):
                self._end(world, item, -15, reason="stopped")
            return
        if item["seen"] == p.Seen.EXITED:
            return
        if "exit_after_s" in script and age >= script["exit_after_s"]:
            item["ended_first"] = script.get("exit_replica", 0)
            codes = script.get("exit_codes") or [script.get("exit_code", 0)]  # of each attempt
            code = codes[min(item["attempt"], len(codes)) - 1]
            policy = RetryPolicy(**item["retry"])
            if item["attempt"] < policy.attempts and not policy.is_final(code):
                again = {"attempt": item["attempt"] + 1, "started_at": time.time()}
                told = {"reason": "tried-again", "message": f"exit code {code}"}
                item.update(again, **told, seen=p.Seen.STARTING, version=self._bump(world))
                return
            said = {name: script.get(f"exit_{name}", "") for name in ("reason", "message")}
            self._end(world, item, code, **said)
            return
        if item.get("serving") is not None:
            self._settle_serving(world, item, script)
            return
        if script.get("flapping"):
            flip = p.Seen.READY if item["seen"] == p.Seen.STARTING else p.Seen.STARTING
            item.update(seen=flip, version=self._bump(world))
            return
        waits = script.get("never_ready") or age < script.get("ready_after_s", 0)
        if item["seen"] == p.Seen.STARTING and not waits:
            at = time.time()
            item.update(seen=p.Seen.READY, ready_at=at, version=self._bump(world))

    def _settle_serving(
        self, world: dict[str, Any], item: dict[str, Any], script: Mapping[str, Any]
    ) -> None:
        """Ready as soon as one is, and where none is wanted."""
        young = time.time() - script.get("ready_after_s", 0)
        answer = [not script.get("never_ready") and at <= young for at in item["serving"]]
        seen = p.Seen.READY if any(answer) or not answer else p.Seen.STARTING
        if (seen, answer) != (item["seen"], item.get("answer")):
            ready_at = item.get("ready_at") or time.time()
            item.update(seen=seen, answer=answer, ready_at=ready_at, version=self._bump(world))

    def _end(
        self, world: dict[str, Any], item: dict[str, Any], code: int | None, **told: Any
    ) -> None:
        item.update(told, seen=p.Seen.EXITED, exit_code=code)
        item.update(ended_at=time.time(), version=self._bump(world))

    def _look(self, world: dict[str, Any], uid: str) -> p.Observation:
        if uid not in world.get("workloads", {}):
            return p.Observation(uid=uid, seen=p.Seen.MISSING, version=world.get("version", 0))
        self._settle(world, uid)
        item = world["workloads"][uid]
        low, high = _PORTS
        port = low + (int(uid.replace("-", "")[:8], 16) + item["launch"]) % (high - low)
        address = f"127.0.0.1:{port}" if item["seen"] == p.Seen.READY else ""
        detail = {"pid": 1, "devices": item["devices"], "failed_attempts": item["attempt"] - 1}
        detail["checkpoint"] = item.get("checkpoint", False)
        detail["silent"] = item.get("silent", False)
        # All are as the whole is; one that ended badly took the others with it
        again = {"restarts": item["attempt"] - 1}
        replicas = [{**item, **again, "index": n, "role": r} for n, r in enumerate(item["roles"])]
        for one in replicas if item.get("exit_code") else ():
            if one["index"] != item.get("ended_first", 0):
                one.update(exit_code=-15, reason="stopped")
        if item.get("serving") is not None:
            is_alive = item["seen"] not in _OVER
            answer = [is_alive and one for one in item.get("answer", [])]
            states = {True: p.Seen.READY, False: p.Seen.STARTING if is_alive else item["seen"]}
            replicas = [
                {**item, "index": n, "seen": states[one]}
                | {"address": f"127.0.0.1:{port + n}" if one else ""}
                | {"started_at": item["serving"][n]}
                for n, one in enumerate(answer)
            ]
            address = next((one["address"] for one in replicas if one["address"]), "")
        told = {"address": address, "detail": detail, "replicas": replicas}
        return p.observation_read({**item, **told})


def _begin_of(spec: ExperimentSpec) -> str:
    return f"{spec.uid}-{spec.generation}"


def _log_of(uid: str, replica: int) -> str:
    return f"{uid}/{replica}" if replica else uid
