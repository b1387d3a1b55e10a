"""One workload as the supervisor holds it: started, watched, stopped, taken up again."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict

from runtime.drivers.local import listeners, processes, records
from runtime.drivers.local.launcher import Launcher, Machine, asked, spawn, wants_port
from runtime.drivers.local.listeners import Listener
from runtime.drivers.local.records import Record, killpoint
from runtime.drivers.local.requests import Facts, Refused, Secrets
from runtime.drivers.local.users import SystemUser
from runtime.drivers.local.watching import Watching
from runtime.protocol import Seen

_TRIES = 3
_FOREIGN_TIMES = 3  # a listener is foreign when seen so, so many times in a row
_UNSEEN_S = 0.1
_LATE_GRACE_S = 2.0
_HOOK_S = 0.02  # between looks whether it is over


class Workload(Watching):
    """State lives in the record on disk first; this object is what can be rebuilt from it."""

    def __init__(self, machine: Machine, record: Record, changed: Callable[[str], int]) -> None:
        super().__init__()
        self.machine, self.record, self._changed = machine, record, changed
        self.uid = record.uid
        self.spec: Facts = {}
        self.seen, self.version = Seen.MISSING, 0
        self.attempt = 0
        self.port: int | None = None
        self.times: dict[str, float | None] = {}
        self.end = processes.Ending("")
        self.last_alive: float | None = None  # of one that was found gone: when it was last seen
        self.notice = ("", "")  # reason and message while it is not ended
        self.crowd: Callable[[], int] = lambda: 1
        self.swept: Callable[[], None] = lambda: None  # asks that what was dropped be deleted
        self._secrets: Secrets | None = None  # only until it is ready
        self._tries = 0
        self.parent: tuple[int, int] | None = None  # pid and start time of the shim
        self.child: tuple[int, int] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._probe: asyncio.Task[None] | None = None
        self._pump: records.OrphanPump | None = None
        self.stop_timer: asyncio.TimerHandle | None = None
        self.stopping = self._hijacked = self.orphan = False
        self._hook: int | None = None  # the attempt whose owner's hook was begun

    # -- facts ---------------------------------------------------------------------------

    @property
    def launch(self) -> int:
        return int(self.spec.get("launch", 0))

    @property
    def is_alive(self) -> bool:
        return self.seen not in (Seen.MISSING, Seen.EXITED)

    def ports(self) -> set[int]:
        """Return the ports that are its own on this machine."""
        meeting = (self.spec.get("group") or {}).get("port")
        return {port for port in (self.port, meeting) if port}

    def members(self) -> set[int]:
        """Return the processes of this workload, our own parent process not among them."""
        if found := self.machine.groups.members(self.uid):
            return found
        if self.parent and not self.orphan and processes.is_alive(*self.parent):
            return processes.descendants(self.parent[0]) - {self.parent[0]}
        return processes.marked(f"BERTH_WORKLOAD={self.uid}")

    def become(self, seen: Seen) -> None:
        self.seen = seen
        self.version = self._changed(self.uid)

    # -- start ---------------------------------------------------------------------------

    def create(self, spec: Facts, user: SystemUser, secrets: Secrets) -> None:
        """Start this launch. The previous one has ended."""
        launcher = Launcher(self.machine, spec, user)
        launcher.check()
        self._tries, self._secrets = 0, secrets
        self._spawn(spec, user)

    def _spawn(self, spec: Facts, user: SystemUser) -> None:
        launcher = Launcher(self.machine, spec, user)
        port = self._choose_port(spec)
        if port is None and wants_port(spec):
            raise Refused("not-yet", "no free port on this machine", retry_in=2.0)
        launcher.make_folders()
        facts = {**spec, "port_now": port, "system_user": [user.name, user.uid, user.gid]}
        attempt = self.record.begin(facts)
        if attempt is None:
            raise Refused("not-yet", "the previous process is still ending", retry_in=0.05)
        killpoint("recorded")
        if not spec.get("serve"):  # of what is begun again within its launch it says why
            for _, path in records.log_segments(self.record.folder, spec["launch"]):
                path.unlink(missing_ok=True)
        records.drop_older_logs(self.record.folder, spec["launch"])
        self.spec, self.attempt, self.port = facts, attempt, port
        self.times, self.end, self.last_alive = {}, processes.Ending(""), None
        self.stopping = self._hijacked = self.orphan = False
        self.child = self.parent = self._hook = None
        secrets = self._secrets or Secrets()
        launcher.write_secrets(secrets)
        plan = launcher.plan(self.record, attempt, port, secrets)
        try:
            process = spawn(plan)
            try:
                pidfd = os.pidfd_open(process.pid)
            except OSError:
                process.kill()
                process.wait()
                raise
            self._process = process
            self.parent = (process.pid, 0)
            self.on_readable(pidfd, lambda: self.parent_gone(pidfd))
            told = process.stdout
            if told is not None:
                os.set_blocking(told.fileno(), False)
                self.on_readable(told.fileno(), lambda: self._told(told.fileno()))
        except OSError:
            self.drop_secrets()
            self.become(Seen.MISSING)  # out of processes or descriptors: asked again, made anew
            raise
        self.become(Seen.CREATED)

    def _choose_port(self, spec: Facts) -> int | None:
        if spec["port"]:
            return int(spec["port"])
        if not wants_port(spec):
            return None
        meeting = spec["group"]["port"] if spec.get("group") else 0  # not held by a spec yet
        taken = self.machine.ports_taken() | {meeting}
        return listeners.choose_port(*self.machine.ports, taken)

    def _told(self, fd: int) -> None:
        self.forget_fd(fd)
        told = b""
        with contextlib.suppress(OSError):
            told = os.read(fd, 64)
        if self._process and self._process.stdout:
            self._process.stdout.close()  # one word is all it says
        if told:
            self.went()

    def went(self) -> None:
        """The program runs: note who it is, then wait for its answer."""
        child = self.record.read("child", attempt=self.attempt)
        parent = self.record.read("shim", attempt=self.attempt)
        if child is None:
            return
        self.child = (child["pid"], child["start"])
        if parent:
            self.parent = (parent["pid"], parent["start"])
        self.times["started"] = child["at"]
        if self.stopping:
            self._end_late()
        elif self.port is None:
            self._ready()
        else:
            self.become(Seen.STARTING)
            self._probe = self.task(self._until_ready())

    # -- readiness -----------------------------------------------------------------------

    def judge(self) -> Listener:
        uid = self.spec["system_user"][1]
        return listeners.judge(self.port or 0, uid=uid, members=self.members)

    async def _until_ready(self) -> None:
        begun, foreign = time.monotonic(), 0
        wanted = self.spec["probe"]
        while self.seen == Seen.STARTING:
            verdict = self.judge()
            foreign = foreign + 1 if verdict == Listener.FOREIGN else 0
            if foreign >= _FOREIGN_TIMES:
                # Somebody else listens on our port: end this attempt and try another port
                self._hijacked = True
                self.notice = ("port-hijacked", "another program took its port; trying another one")
                self.become(Seen.STARTING)
                self.kill()
                return
            if verdict == Listener.OWN and (
                wanted is None
                or not wanted["path"]
                or await listeners.answers(self.port or 0, wanted["path"], wanted["status"])
            ):
                self._ready()
                return
            await asyncio.sleep(listeners.probe_delay(time.monotonic() - begun, self.crowd()))

    def _ready(self) -> None:
        if self.stopping or not self.is_alive:
            return
        killpoint("ready")
        self.times["ready"] = time.time()
        self.record.note("ready", {"attempt": self.attempt, "at": self.times["ready"]})
        self._secrets, self.notice = None, ("", "")
        killpoint("ready-recorded")
        self.become(Seen.READY)

    def recall_times(self) -> None:
        for name, source in (("started", "child"), ("ready", "ready")):
            if found := self.record.read(source, attempt=self.attempt):
                self.times[name] = found["at"]

    def resume(self) -> None:
        """Go on where the record says we were; an address is checked again before it is told."""
        child = self.record.read("child", attempt=self.attempt)
        if child is None or not self.record.read("went", attempt=self.attempt):
            return
        self.child = (child["pid"], child["start"])
        if self.stopping:
            self._end_late()
        elif self.seen == Seen.CREATED:
            ready = self.times.get("ready") is not None
            if ready and (self.port is None or self.judge() == Listener.OWN):
                self.become(Seen.READY)
            else:
                self.went()

    # -- stop ----------------------------------------------------------------------------

    def stop(self, grace_s: float) -> None:
        """Ask it to end; after the grace it is killed. Asking again changes nothing."""
        if not self.is_alive or self.stopping:
            return
        killpoint("stop")
        at = time.time() + grace_s
        self.record.note("stop", {"attempt": self.attempt, "at": at, "grace": grace_s})
        killpoint("stop-recorded")
        self.stopping, self._secrets = True, None
        if self._hook is None:
            self._ask_to_end()
        else:
            self.task(self._ask_after_hook(grace_s / 2))
        loop = asyncio.get_running_loop()
        self.stop_timer = loop.call_later(max(grace_s, 0.0), self.kill)
        self.become(Seen.STOPPING)

    def run_hook(self) -> None:
        """Let its parent run its owner's hook, once; one from before there were hooks has none."""
        shim = self.record.read("shim", attempt=self.attempt) or {}
        if self._hook is None and self.child and not self.stopping and shim.get("hook"):
            processes.send_signal(shim["pid"], shim["start"], signal.SIGUSR1)
            self._hook = self.attempt

    async def _ask_after_hook(self, longest_s: float) -> None:
        """Its program is asked to end when the hook is over; at the latest after ``longest_s``."""
        begun = time.monotonic()
        while time.monotonic() - begun < longest_s:
            if self.record.read("hook", attempt=self.attempt) is not None:
                break
            await asyncio.sleep(_HOOK_S)
        if self.is_alive:
            self._ask_to_end()

    def _ask_to_end(self) -> None:
        if self.child:
            processes.send_signal(*self.child, signal.SIGTERM)

    def _end_late(self) -> None:
        """It was asked to end before we knew its process: ask now, and see it through."""
        if self.child:
            processes.send_signal(*self.child, signal.SIGTERM)
        asyncio.get_running_loop().call_later(_LATE_GRACE_S, self._kill_attempt, self.attempt)

    def _kill_attempt(self, attempt: int) -> None:
        if attempt == self.attempt and self.is_alive:
            self.kill()

    def hurry(self, grace_s: float) -> None:
        """Shorten the grace of a workload that is to be removed."""
        self.stop(grace_s)
        if self.stop_timer:
            left = self.stop_timer.when() - asyncio.get_running_loop().time()
            if left > grace_s:
                self.stop_timer.cancel()
                self.stop_timer = asyncio.get_running_loop().call_later(grace_s, self.kill)

    def kill(self) -> None:
        """Kill the program; its parent takes down the rest. Without one we do it ourselves."""
        if self.child:
            processes.send_signal(*self.child, signal.SIGKILL)
        elif self._process:
            self._process.kill()  # still our own unreaped child: the pid can't be another's
        elif self.parent:
            processes.send_signal(*self.parent, signal.SIGKILL)
        if self.orphan:
            processes.kill_all(self.uid, self.machine.groups, by_mark=True)

    # -- end -----------------------------------------------------------------------------

    def parent_gone(self, pidfd: int) -> None:
        self.forget_fd(pidfd)
        os.close(pidfd)
        if self._process:
            self._process.wait()
            if self._process.stdout and not self._process.stdout.closed:
                self.forget_fd(self._process.stdout.fileno())
                self._process.stdout.close()
            self._process = None
        found = self.record.read("exit", attempt=self.attempt)
        if found is None:
            self.adopt_orphan()
        else:
            self.task(self.settle(found))

    def adopt_orphan(self) -> None:
        """The parent was killed. Its program lives on under our own eyes, if it does."""
        self.orphan = True
        child = self.record.read("child", attempt=self.attempt)
        pidfd = processes.open_pidfd(child["pid"], child["start"]) if child else None
        if pidfd is None:
            self.task(self.settle(None))
            return
        self.child = (child["pid"], child["start"]) if child else None
        self.last_alive = None
        self.on_readable(pidfd, lambda: self._orphan_gone(pidfd))
        with contextlib.suppress(OSError):
            self._pump = pump = records.OrphanPump(self.record.folder, self.launch)
            self.on_readable(pump.fd, lambda: self._carry(pump))
        self.resume()
        if self.seen == Seen.CREATED:
            asyncio.get_running_loop().call_later(_UNSEEN_S, self._presume_went, self.attempt)

    def _carry(self, pump: records.OrphanPump) -> None:
        """Carry output; a flood is read no faster than its rate, other workloads wait on us."""
        if pause := pump.pump():
            self.forget_fd(pump.fd)
            asyncio.get_running_loop().call_later(pause, self._carry_on, pump)

    def _carry_on(self, pump: records.OrphanPump) -> None:
        if self._pump is pump and self.watched:
            self.on_readable(pump.fd, lambda: self._carry(pump))

    def _presume_went(self, attempt: int) -> None:
        """A child whose parent died before the word to go has left by now; this one runs."""
        same = attempt == self.attempt and self.orphan and self.watched
        if same and self.seen in (Seen.CREATED, Seen.STOPPING):
            self.record.note("went", {"attempt": self.attempt, "at": time.time()})
            self.resume()

    def _orphan_gone(self, pidfd: int) -> None:
        self.forget_fd(pidfd)
        os.close(pidfd)
        if self._pump:
            self.forget_fd(self._pump.fd)
            self._pump.pump()
            self._pump.close()
            self._pump = None
        self.task(self.settle(None))

    async def settle(self, exit_record: Facts | None) -> None:
        """The program is gone: nothing of it may be left, then say how it ended."""
        if self._probe:
            self._probe.cancel()
        if self.stop_timer:
            self.stop_timer.cancel()
            self.stop_timer = None
        wait = 0.002
        done = self.record.read("done", attempt=self.attempt) is not None
        while processes.kill_all(self.uid, self.machine.groups, by_mark=not done):
            await asyncio.sleep(wait)
            wait = min(wait * 2, 0.5)
        went = self.record.read("went", attempt=self.attempt) is not None
        end = processes.classify(
            exit_record,
            went=went,
            stopped=self.stopping,
            oom_kills=self.machine.groups.oom_kills(self.uid),
        )
        early = "ready" not in self.times and self.port is not None
        if (self._hijacked or (early and self.judge() == Listener.FOREIGN)) and not self.stopping:
            message = "another program took its port"
            end = processes.Ending("port-hijacked", message, end.code, end.at)
        # The same might start on another port, or with more luck. With a code it said why it can't
        # start; it would say so again.
        again = end.reason == "start-failed" and not went and end.code is None
        if end.reason == "port-hijacked":
            again = not self.spec["port"]  # else there is no other
        again = again and self._secrets is not None and self._tries < _TRIES and not self.stopping
        if not (again and await self._retry()):
            self.ended(end)

    async def _retry(self) -> bool:
        self._tries += 1
        for _ in range(100):
            with contextlib.suppress(Refused, OSError):
                self._spawn(asked(self.spec), SystemUser(*self.spec["system_user"]))
                return True
            await asyncio.sleep(0.02)
        return False

    def ended(self, end: processes.Ending) -> None:
        at = end.at or self.last_alive or time.time()
        self.end = processes.Ending(end.reason, end.message, end.code, at)
        self.record.note("end", {"attempt": self.attempt, **asdict(self.end)})
        killpoint("end-recorded")
        self._secrets, self.child, self.notice = None, None, ("", "")
        self.machine.groups.remove(self.uid)
        with contextlib.suppress(OSError):
            (self.record.folder / "output").unlink()
        self.drop_secrets()
        self.become(Seen.EXITED)

    def refresh(self, secrets: Secrets) -> None:
        """Take away what this launch has no more. The environment of a process stays."""
        if self.is_alive:
            if self._secrets is not None:
                self._secrets = secrets  # a second try gets what counts now
            user = SystemUser(*self.spec["system_user"])
            Launcher(self.machine, self.spec, user).write_secrets(secrets)
            self.swept()

    def drop_secrets(self) -> None:
        """What the parent should have removed; it may have been killed."""
        if self.machine.secret_folders.drop(self.uid, self.machine.spaces / self.uid):
            self.swept()

    def close(self) -> None:
        super().close()
        if self.stop_timer:
            self.stop_timer.cancel()
