"""A real supervisor in a temporary folder, as root, or as an ordinary user."""

import atexit
import functools
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.drivers.local import processes
from runtime.drivers.local.driver import LocalDriver
from runtime.protocol import Device, NotYet, Observation, Seen, Unreachable
from runtime.spec import Mount, Probe, Resources, WorkloadSpec

ROOT = Path(__file__).resolve().parents[3]
IS_ROOT = os.geteuid() == 0
NOBODY = 65534
PATIENCE_S = 60.0  # with a machine that is busy; nothing here is about how soon
# As root the product is itself: what is the same for an ordinary user is not proved twice.
TWICE = pytest.mark.long(
    "the same as root beside it; the driver of an ordinary user: contract/test_driver_contract.py"
)
MODES = [
    pytest.param("ordinary", marks=TWICE if IS_ROOT else ()),
    pytest.param("root", marks=pytest.mark.root),
]
# A Python that every user of the machine may run; under a home of root's it would not be.
PYTHON = "/usr/bin/python3" if IS_ROOT else sys.executable

# Answers on {port}, notes every start, and notes when it is not alone.
SERVER = """
import fcntl, http.server, os, signal, sys
home = os.environ["HOME"]
lock = open(home + "/alone", "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    open(home + "/double", "w").close()
with open(home + "/starts", "a") as file:
    file.write(f"{os.getpid()}\\n")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"ok")
    def log_message(self, *_): pass
print("serving", flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


class NoGpus:
    """A machine without GPUs: a normal machine."""

    def devices(self) -> tuple[Device, ...]:
        return ()


@functools.cache
def code() -> Path:
    """Return a folder with the supervisor's code that every user of the machine may read."""
    if not IS_ROOT or all(p.stat().st_mode & stat.S_IXOTH for p in (ROOT, *ROOT.parents)):
        return ROOT
    copy = Path(tempfile.mkdtemp(prefix="berth-code-", dir="/var/lib"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    copy.chmod(0o755)
    shutil.copytree(ROOT / "runtime", copy / "runtime", ignore=shutil.ignore_patterns("*.pyc"))
    return copy


def wait_for(
    what: Callable[[], object], *, seconds: float = PATIENCE_S, every: float = 0.01
) -> object:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := what():
            return found
        time.sleep(every)
    raise AssertionError(f"{what} did not become true in {seconds} s")


class Supervisor:
    """One supervisor and its driver. ``mode``: root, or ordinary (nobody, no control groups)."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.folder = Path(tempfile.mkdtemp(prefix="berth-", dir="/var/lib" if IS_ROOT else None))
        self.folder.chmod(0o711)
        self.state, self.volumes = self.folder / "state", self.folder / "volumes"
        self.environments = self.folder / "environments"
        self.environments.mkdir()
        self.environments.chmod(0o755)  # whatever the umask: others read it too
        if IS_ROOT and mode == "ordinary":
            os.chown(self.folder, NOBODY, NOBODY)
        self.socket = self.folder / "s.sock"
        self.driver = LocalDriver(self.socket, gpus=NoGpus())
        self.project, self.owner = f"project-{uuid.uuid4()}", "alice"
        self.process: subprocess.Popen[bytes] | None = None
        self.deaths = 0

    def start(self, *, killpoint: str = "", **env: str) -> "Supervisor":
        self.process = subprocess.Popen(
            [
                *(PYTHON, "-m", "runtime.drivers.local.supervisor"),
                *("--socket", self.socket, "--state", self.state),
                *("--volumes", self.volumes, "--environments", self.environments),
            ],
            cwd=code(),
            env={**os.environ, **env, "BERTH_KILLPOINT": killpoint, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "log").open("ab"),
            **self.as_user(),
        )
        wait_for(lambda: self.answers() or self.process.poll() is not None)
        return self

    def as_user(self) -> dict[str, object]:
        """Return how a process is started as the user the supervisor runs as."""
        if IS_ROOT and self.mode == "ordinary":
            return {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        return {}

    def answers(self) -> bool:
        try:
            self.driver.probe()
        except Unreachable:
            return False
        return True

    def kill(self) -> None:
        assert self.process
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def restart(self, **options: str) -> None:
        self.kill()
        self.start(**options)

    @property
    def is_dead(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def messages(self) -> str:
        return (self.folder / "log").read_text()

    def close(self) -> None:
        if self.is_dead:
            self.start()
        self.driver.shutdown(workspaces=True)
        self.process.wait(timeout=PATIENCE_S)
        for command, file in (("userdel", "users.json"), ("groupdel", "volume-groups.json")):
            for name in self._made(file):
                subprocess.run([command, name], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _made(self, file: str) -> list[str]:
        import json

        path = self.state / file
        return list(json.loads(path.read_text())) if path.exists() else []

    # -- shorthand ------------------------------------------------------------------------

    def server(self, **options: object) -> WorkloadSpec:
        return self.spec(
            (PYTHON, "-I", "-S", "-c", SERVER, "{port}"), probe=Probe("/", 200), **options
        )

    def shell(self, script: str, **options: object) -> WorkloadSpec:
        return self.spec(("/bin/sh", "-c", script), **options)

    def spec(self, command: tuple[str, ...], **options: object) -> WorkloadSpec:
        defaults = {
            "uid": str(uuid.uuid4()),
            "kind": "workspace",
            "name": "test",
            "launch": 1,
            "generation": 1,
            "project": self.project,
            "owner": self.owner,
            "environment": "",
            "resources": Resources(cpu_milli=1000, memory_mib=512, pids=200),
            "stop_grace_s": 5.0,
        }
        defaults["mounts"] = (Mount(f"home-{options.get('uid', defaults['uid'])}", role="home"),)
        return WorkloadSpec(command=command, **{**defaults, **options})

    def home(self, spec: WorkloadSpec) -> Path:
        return self.volumes / spec.mounts[0].volume_uid

    def seen(self, uid: str) -> Observation:
        return self.driver.observe([uid])[uid]

    def until(self, uid: str, *wanted: Seen, seconds: float = PATIENCE_S) -> Observation:
        def look() -> Observation | None:
            now = self.seen(uid)
            return now if now.seen in wanted else None

        return wait_for(look, seconds=seconds)

    def ready(self, spec: WorkloadSpec) -> Observation:
        self.driver.ensure(spec)
        return self.until(spec.uid, Seen.READY)

    def ended(self, spec: WorkloadSpec) -> Observation:
        self.driver.ensure(spec)
        return self.until(spec.uid, Seen.EXITED)

    def log(self, spec: WorkloadSpec) -> str:
        return self.driver.read_log(spec.uid)[0].decode()

    def finish(self, act: Callable[[], None]) -> None:
        """Repeat a verb while it says that it is under way."""

        def done() -> bool:
            try:
                act()
            except NotYet:
                return False
            return True

        wait_for(done)

    def stop(self, uid: str, grace_s: float = 5.0) -> None:
        self.finish(lambda: self.driver.stop(uid, grace_s=grace_s))

    def remove(self, uid: str) -> None:
        self.finish(lambda: self.driver.remove(uid))


def processes_of(uid: str) -> set[int]:
    """Return what lives with the mark of a workload: its own processes, not the shim."""
    return processes.marked(f"BERTH_WORKLOAD={uid}")
