"""The parent of one workload: starts it, keeps its log bounded, remembers how it ended.

Run as ``python -I -S -E shim.py`` with a marshalled plan on standard input. It lives in a
session of its own, outlives the supervisor, and imports as little as possible: one of these
stands beside every workload. Started by root it stays root, so that a user can't end it.

Order that makes a kill at any point harmless: lock → check the attempt → record myself →
fork a child that waits → record the child → let it go → record that it went.
"""

# pathlib and contextlib cost more to import than the rest together:
# ruff: noqa: PTH100, PTH104, PTH108, PTH114, PTH123, PTH208, PTH211, SIM105

from __future__ import annotations

import _signal
import ctypes
import fcntl
import marshal
import os
import select
import sys
import time

TYPE_CHECKING = False  # typing itself would cost more than all other imports
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_NO_NEW_PRIVS, _PR_SET_CHILD_SUBREAPER = 38, 36
_CLONE_NEWNS = 0x00020000
_DEAF = (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP)
HOOK = ".berth/on-park"  # in its owner's home
_CHUNK = 65536
_FLOOD_BYTES_S = 32 * 1024 * 1024  # more is a flood: its writer waits, the disk is others' too


def killpoint(name: str) -> None:
    """End at once when a test asks for it here."""
    if os.environ.get("BERTH_KILLPOINT") == name:
        os.kill(os.getpid(), _signal.SIGKILL)


def write(path: str, text: str) -> None:
    """Write ``text`` so that a reader sees all of it or none."""
    fd = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, text.encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(path + ".tmp", path)


def start_time(pid: int) -> int:
    """Return field 22 of /proc/<pid>/stat: with the boot id it names a process for ever."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def mounting() -> Any:
    """Return the module that mounts; only a child that needs it pays for reading it."""
    sys.path.insert(0, os.path.abspath(__file__ + "/../../../.."))
    from runtime.drivers.local import mounting as found

    return found


class Log:
    """Output in segments named by their first byte's offset; only the newest few are kept.

    It goes on behind what is there already.
    """

    def __init__(self, prefix: str, segment: int, keep: int) -> None:
        self.prefix, self.segment, self.keep = prefix, segment, keep
        self.offset, self.room, self.fd = 0, 0, -1
        self.names: list[str] = []
        self.due = 0.0  # when what was written would have been, at the rate of a flood

        folder, _slash, begins = prefix.rpartition("/")
        try:
            there = sorted(name for name in os.listdir(folder) if name.startswith(begins))
            if there:
                last = f"{folder}/{there[-1]}"
                self.fd = os.open(last, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
                size = os.fstat(self.fd).st_size
                self.offset, self.room = int(there[-1][len(begins) :]) + size, segment - size
                self.names = [f"{folder}/{name}" for name in there]
        except OSError:
            pass  # it begins anew, or can't be written either

    def pause_after(self, count: int) -> float:
        """Return for how many seconds the writer of ``count`` bytes must wait; a second is free."""
        now = time.monotonic()
        self.due = max(self.due, now - 1) + count / _FLOOD_BYTES_S
        return max(self.due - now, 0.0)

    def write(self, data: bytes) -> None:
        try:
            while data:
                if self.room <= 0:
                    self.rotate()
                part, data = data[: self.room], data[self.room :]
                done = os.write(self.fd, part)
                self.offset += done
                self.room -= done
                data = part[done:] + data
        except OSError:
            return  # a full disk costs lines of the log, never the workload

    def rotate(self) -> None:
        name = f"{self.prefix}{self.offset:015d}"
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        if self.fd >= 0:
            os.close(self.fd)
        self.fd, self.room = fd, self.segment
        self.names.append(name)
        while len(self.names) > self.keep:
            os.unlink(self.names.pop(0))


def become(plan: dict[str, Any], fifo: int) -> None:
    """In the child, after the word to go: put on the workload's clothes."""
    os.setsid()
    if plan["mounts"]:
        isolate(plan)
    leader = checkpoint_leader(plan["checkpoints"])  # its user may not read where our code is
    undress(plan, fifo)
    # Write the workload's own environment, as its own user: no link can lead root astray
    for folder in plan["folders"]:
        attempt(os.makedirs, folder, exist_ok=True)
    for path, content, mode in plan["files"]:
        attempt(place, path, content, mode)
    for path, target in plan["links"]:
        attempt(link, path, target)
    for path, target in plan["leads"]:
        attempt(lead, path, target)
    if leader is not None:
        attempt(leader, plan["checkpoints"], plan["checkpoints_since"])
    os.chdir(plan["cwd"])


def undress(plan: dict[str, Any], fifo: int) -> None:
    """Give up what the shim may do and what it hears: from here on it is the workload's user."""
    limits(plan["rlimits"])
    os.umask(plan["umask"])
    if plan["uid"] is not None:
        os.setgroups(plan["groups"])
        os.setresgid(plan["gid"], plan["gid"], plan["gid"])
        os.setresuid(plan["uid"], plan["uid"], plan["uid"])
        _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for number in (*_DEAF, _signal.SIGPIPE, _signal.SIGUSR1):
        _signal.signal(number, _signal.SIG_DFL)
    os.dup2(fifo, 1)
    os.dup2(fifo, 2)


def checkpoint_leader(folder: str) -> Callable[[str, int], object] | None:
    """Return what leads to the newest one there; who keeps none does not pay for reading it."""
    try:
        if not os.listdir(folder):
            return None
    except OSError:
        pass  # it is made, or only its user may look
    sys.path.insert(0, os.path.abspath(__file__ + "/../../../.."))
    from dataplane import checkpoints

    return checkpoints.lead


def isolate(plan: dict[str, Any]) -> None:
    """Leave the machine's mounts. Volumes and memory must be as told; the rest is best effort."""
    tools = mounting()
    if not tools.own_mounts():
        if plan["volumes"] or plan["shm"]:
            raise OSError(0, "volumes and shared memory can't be mounted")
        return
    if plan["volumes"]:
        tools.show_volumes(plan["volumes"])
    if plan["shm"]:
        tools.own_shared_memory(*plan["shm"])
    for source, target in plan["binds"]:
        tools.bind(source, target)
    if plan["hide_proc"]:
        tools.hide_processes()


def attempt(step: Callable[..., object], *args: object, **kwargs: object) -> None:
    """Go on without what can't be written: a user may have broken only his own layer."""
    try:
        step(*args, **kwargs)
    except OSError as problem:
        os.write(2, f"berth: {args[0]}: {problem.strerror}\n".encode())


def place(path: str, content: str | bytes, mode: int) -> None:
    clear(path + ".berth")
    fd = os.open(path + ".berth", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        os.write(fd, content.encode() if isinstance(content, str) else content)
        os.fchmod(fd, mode)
    finally:
        os.close(fd)
    os.rename(path + ".berth", path)


def clear(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def link(path: str, target: str) -> None:
    clear(path + ".berth")
    os.symlink(target, path + ".berth")
    os.rename(path + ".berth", path)


def lead(path: str, target: str) -> None:
    """Make or turn a link, but never replace what a user keeps there."""
    if os.path.islink(path) or not os.path.lexists(path):
        link(path, target)


def limits(wanted: list[tuple[str, int, int]]) -> None:
    """Set resource limits; one that the machine refuses never stops a launch."""
    import resource

    for name, soft, hard in wanted:
        number = getattr(resource, name)
        top = resource.getrlimit(number)[1]
        if top != resource.RLIM_INFINITY:
            soft, hard = min(soft, top), min(hard, top)  # noqa: PLW2901
        try:
            resource.setrlimit(number, (soft, hard))
        except (OSError, ValueError):
            continue


def child(plan: dict[str, Any], go: int, error: int, fifo: int) -> None:
    """Wait for the word, then become the workload. Never returns."""
    try:
        if os.read(go, 1) != b"g":
            os._exit(126)  # the shim died before it could record us: nothing may run
        become(plan, fifo)
        os.execve(plan["argv"][0], plan["argv"], plan["env"])  # noqa: S606 - that is the point
    except OSError as problem:
        os.write(error, f"{problem.strerror or problem}: {problem.filename or ''}".encode())
    except BaseException as problem:  # noqa: BLE001 - nothing may return into the shim's code
        os.write(error, repr(problem).encode())
    finally:
        os._exit(127)


def beside(plan: dict[str, Any], program: int, output: str) -> None:
    """In a child: become the owner's hook where the program lives, with what it was told."""
    # From setns on until it is the user, all that is read is theirs: nothing may be imported then.
    import resource  # noqa: F401 - a shared object, which limits() would load from their files

    heard = os.open(output, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.setsid()
        join(plan["cgroups"], os.getpid())
        with open(f"/proc/{program}/environ", "rb") as file:
            told = [pair.partition(b"=") for pair in file.read().split(b"\0") if pair]
        if plan["mounts"]:
            space = os.open(f"/proc/{program}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            if _LIBC.setns(space, _CLONE_NEWNS):
                os._exit(127)  # it would run among the machine's own mounts
        undress(plan, heard)
        env = {name: value for name, _sign, value in told}
        path = f"{os.fsdecode(env[b'HOME'])}/{HOOK}"
        if os.access(path, os.X_OK):  # most people have none, and that is no news
            os.chdir(env[b"HOME"])
            os.execve(path, [path], env)  # noqa: S606 - that is the point
    except BaseException as problem:  # noqa: BLE001 - nothing may return into the shim's code
        os.write(heard, f"berth: {HOOK}: {problem}\n".encode())
    finally:
        os._exit(127)


def join(groups: list[str], pid: int) -> None:
    for folder in groups:
        try:
            with open(f"{folder}/cgroup.procs", "w") as file:
                file.write(str(pid))
        except OSError:
            continue


class Shim:
    """The running parent."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.plan, self.dir, self.error = plan, plan["dir"], ""
        self.hook = 0  # the process of its owner's own hook
        self.hears_shutdown = False
        self.log = Log(plan["log_prefix"], plan["log_segment"], plan["log_keep"])
        with open("/proc/sys/kernel/random/boot_id") as file:
            self.boot = file.read().strip()

    def record(self, name: str, **fields: float | str) -> None:
        """Write a small JSON object; the values are numbers and plain words only."""
        fields["attempt"] = self.plan["attempt"]
        quoted = {k: f'"{v}"' if isinstance(v, str) else v for k, v in fields.items()}
        text = ", ".join(f'"{key}": {value}' for key, value in quoted.items())
        write(f"{self.dir}/{name}.json", "{" + text + "}\n")

    def note(self, name: str, **fields: float | str) -> None:
        """Record what is better remembered; on a full disk what was left must go all the same."""
        try:
            self.record(name, **fields)
        except OSError:
            pass

    def claim(self) -> bool:
        """Take the workload's lock and see that this attempt is still the wanted one."""
        self.lock = os.open(f"{self.dir}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        with open(f"{self.dir}/attempt") as file:
            return int(file.read()) == self.plan["attempt"]

    def start(self) -> None:
        killpoint("shim-locked")
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        _signal.signal(_signal.SIGUSR1, lambda *_: None)  # before anybody reads that it may be sent
        _signal.signal(_signal.SIGTERM, self.hear)
        me = os.getpid()
        self.record("shim", pid=me, start=start_time(me), boot=self.boot, hook=HOOK)
        killpoint("shim-recorded")
        path = f"{self.dir}/output"
        clear(path)
        os.mkfifo(path, 0o600)
        if self.plan["uid"] is not None:
            os.chown(path, self.plan["uid"], self.plan["gid"])
        self.fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        # Read and write: the workload keeps a reader itself, so our death costs it no SIGPIPE.
        theirs = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        go_r, go_w = os.pipe()
        error_r, error_w = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            os.close(go_w)
            child(self.plan, go_r, error_w, theirs)
        for fd in (go_r, error_w, theirs):
            os.close(fd)
        killpoint("shim-forked")
        self.release(go_w, error_r)

    def hear(self, *_told: object) -> None:
        """The machine ends, and tells its programs so: what ends now did not end by itself."""
        self.hears_shutdown = True

    def release(self, go: int, error: int) -> None:
        """Record the waiting child, put it in its groups, let it run, see whether it could."""
        join(self.plan["cgroups"], self.child)
        now = time.time()
        self.record("child", pid=self.child, start=start_time(self.child), boot=self.boot, at=now)
        killpoint("shim-child-recorded")
        os.write(go, b"g")
        os.close(go)
        self.error = os.read(error, 2000).decode(errors="replace")
        os.close(error)
        killpoint("shim-gone")
        if not self.error:
            self.record("went", at=time.time())
        self.plan["env"] = {}  # the only copy of a secret is now the workload's own
        killpoint("shim-went")
        try:
            os.write(1, b"went\n")
        except OSError:
            pass  # the supervisor is away; it will read the record

    def watch(self) -> int:
        """Carry output until the workload ends; reap everything that falls to us."""
        wake_r, wake_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        _signal.set_wakeup_fd(wake_w)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        poll = select.poll()
        poll.register(self.fifo, select.POLLIN)
        poll.register(wake_r, select.POLLIN)
        while (status := self.reap()) is None:
            for fd, _ in poll.poll():
                if fd != wake_r:
                    self.pump()
                elif _signal.SIGUSR1 in os.read(wake_r, 512) and not self.hook:
                    self.run_hook()
        return status

    def run_hook(self) -> None:
        """Run its owner's ``~/.berth/on-park`` beside the program, as the program was started."""
        self.hook = os.fork()
        if self.hook == 0:
            beside(self.plan, self.child, f"{self.dir}/output")

    def reap(self) -> int | None:
        """Collect the dead; return the workload's status once it is among them."""
        found = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return found
            if pid == 0:
                return found
            if pid == self.child:
                found = status
            elif pid == self.hook:
                self.note("hook", code=os.waitstatus_to_exitcode(status))

    def pump(self) -> bool:
        """Carry one chunk; True when there may be more."""
        try:
            data = os.read(self.fifo, _CHUNK)
        except BlockingIOError:
            return False
        self.log.write(data)
        time.sleep(self.log.pause_after(len(data)))
        return bool(data)

    def finish(self, status: int) -> None:
        """Record the end first, then take everything down that the workload left behind."""
        safe = "".join(c if c.isalnum() or c in " ._-:/'()" else "?" for c in self.error)
        code, at = os.waitstatus_to_exitcode(status), time.time()
        killpoint("shim-ended")
        self.note("exit", code=code, at=at, error=safe, shutdown=int(self.hears_shutdown))
        killpoint("shim-exit-recorded")
        kill_rest(self.plan["kill_file"])
        forget(self.plan["secrets"])
        for _ in range(64):
            if not self.pump():
                break
        self.note("done", at=time.time())


def forget(folder: str) -> None:
    """Remove the secret files. ``rm`` walks by descriptors: no link leads it astray."""
    if not os.path.lexists(folder):
        return
    try:
        quiet = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)]
        pid = os.posix_spawn("/bin/rm", ["rm", "-rf", "--", folder], {}, file_actions=quiet)
        os.waitpid(pid, 0)
    except OSError:
        pass  # the supervisor does it when it notices the end


def kill_rest(kill_file: str) -> None:
    """Kill all descendants: a subreaper inherits even those that detached themselves."""
    if kill_file:
        try:
            with open(kill_file, "w") as file:
                file.write("1")
        except OSError:
            pass  # the walk below does the same, slower
    me = os.getpid()
    while True:
        for pid in children(me):
            try:
                os.kill(pid, _signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def children(me: int) -> list[int]:
    try:
        with open(f"/proc/{me}/task/{me}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        everyone = map(int, filter(str.isdigit, os.listdir("/proc")))
        return [pid for pid in everyone if parent(pid) == me]


def parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return -1


def main() -> None:
    if len(sys.argv) > 1:
        os.write(1, mounting().selftest(sys.argv[1]).encode())
        return
    killpoint("shim-start")
    with open(0, "rb") as stdin:
        plan = marshal.load(stdin)  # noqa: S302 - written by the supervisor into a memfd
    os.set_inheritable(os.open("/dev/null", os.O_RDWR), True)  # it is 0: the plan's was closed
    for number in _DEAF:
        _signal.signal(number, _signal.SIG_IGN)
    shim = Shim(plan)
    if shim.claim():
        shim.start()
        shim.finish(shim.watch())


if __name__ == "__main__":
    main()
