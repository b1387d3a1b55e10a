"""What this machine lets us enforce, found out by trying, once, at start; and control groups.

Version 1, 2 or both side by side. A limit that can't be set is reported, never a reason to refuse
a launch.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from runtime.drivers.local import shim
from runtime.drivers.local.records import destroy

CONTROLLERS = ("memory", "cpu", "cpuacct", "pids", "devices")
_PERIOD_US = 100_000
_MIB = 1024 * 1024
_NVIDIA_CTL_MINOR = 255


def _put(path: Path, text: str) -> bool:
    try:
        path.write_text(text)
    except OSError:
        return False
    return True


def _number(path: Path, key: str = "") -> int:
    """Return the number in a file, or the one after ``key``; 0 when it can't be read."""
    try:
        text = path.read_text()
    except OSError:
        return 0
    if not key:
        return int(text) if text.strip().isdigit() else 0
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == key:
            return int(value)
    return 0


@dataclass
class Groups:
    """The folders under which each workload gets its groups."""

    v1: dict[str, Path] = field(default_factory=dict)
    v2: Path | None = None
    v2_controllers: frozenset[str] = frozenset()

    @classmethod
    def detect(cls, *, root: bool) -> "Groups":
        mounts: dict[str, Path] = {}  # controller → mount point; the unified hierarchy is ""
        with contextlib.suppress(OSError):
            for line in Path("/proc/self/mounts").read_text().splitlines():
                _, point, kind, options, *_ = line.split()
                if kind == "cgroup2":
                    mounts[""] = Path(point)
                elif kind == "cgroup":
                    mounts.update({o: Path(point) for o in options.split(",") if o in CONTROLLERS})
        own = {}
        with contextlib.suppress(OSError):
            for line in Path("/proc/self/cgroup").read_text().splitlines():
                _, names, path = line.split(":", 2)
                own.update(dict.fromkeys(names.split(","), path.strip("/")))
        groups = cls()
        for name in CONTROLLERS:
            if name in mounts and _usable(base := mounts[name] / own.get(name, "") / "berth"):
                groups.v1[name] = base
        if "" in mounts:
            top = mounts[""] if root else mounts[""] / own.get("", "")
            if _usable(top / "berth"):
                groups.v2 = top / "berth"
                groups.v2_controllers = _delegate(top, groups.v2)
        return groups

    def has(self, controller: str) -> bool:
        return controller in self.v1 or controller in self.v2_controllers

    def folders(self, uid: str) -> list[Path]:
        bases = [*self.v1.values(), *([self.v2] if self.v2 else [])]
        return [base / uid for base in dict.fromkeys(bases)]

    def create(self, uid: str, *, cpu_milli: int, memory_mib: int, pids: int) -> list[str]:
        """Make fresh groups (counters at zero) with their limits; return the folders made."""
        self.remove(uid)
        made = []
        for folder in self.folders(uid):
            with contextlib.suppress(OSError):
                folder.mkdir(exist_ok=True)
                made.append(str(folder))
        if memory := self._v1("memory", uid):
            limit = str(memory_mib * _MIB)
            _put(memory / "memory.limit_in_bytes", limit)
            _put(memory / "memory.memsw.limit_in_bytes", limit)
        if cpu := self._v1("cpu", uid):
            _put(cpu / "cpu.cfs_period_us", str(_PERIOD_US))
            _put(cpu / "cpu.cfs_quota_us", str(cpu_milli * _PERIOD_US // 1000))
        if count := self._v1("pids", uid):
            _put(count / "pids.max", str(pids))
        if self.v2:
            self._create_v2(self.v2 / uid, cpu_milli, memory_mib, pids)
        return made

    def _create_v2(self, folder: Path, cpu_milli: int, memory_mib: int, pids: int) -> None:
        if "memory" in self.v2_controllers:
            _put(folder / "memory.max", str(memory_mib * _MIB))
            _put(folder / "memory.swap.max", "0")
        if "cpu" in self.v2_controllers:
            _put(folder / "cpu.max", f"{cpu_milli * _PERIOD_US // 1000} {_PERIOD_US}")
        if "pids" in self.v2_controllers:
            _put(folder / "pids.max", str(pids))

    def _v1(self, controller: str, uid: str) -> Path | None:
        base = self.v1.get(controller)
        return base / uid if base else None

    def restrict_gpus(self, uid: str, minors: Iterable[int]) -> None:
        """Close every NVIDIA device to the group but those with the given minor numbers."""
        folder = self._v1("devices", uid)
        majors = nvidia_majors()
        if folder is None or not majors:
            return
        for major in majors.values():
            _put(folder / "devices.deny", f"c {major}:* rwm")
        allowed = list(minors)
        if not allowed:
            return
        for minor in (*allowed, _NVIDIA_CTL_MINOR):
            _put(folder / "devices.allow", f"c {majors.get('nvidia', 195)}:{minor} rw")
        if "nvidia-uvm" in majors:
            _put(folder / "devices.allow", f"c {majors['nvidia-uvm']}:* rw")

    def kill_file(self, uid: str) -> str:
        path = self.v2 / uid / "cgroup.kill" if self.v2 else None
        return str(path) if path and path.exists() else ""

    def members(self, uid: str) -> set[int]:
        found: set[int] = set()
        for folder in self.folders(uid):
            with contextlib.suppress(OSError):
                found.update(map(int, (folder / "cgroup.procs").read_text().split()))
        return found

    def oom_kills(self, uid: str) -> int:
        if folder := self._v1("memory", uid):
            return _number(folder / "memory.oom_control", "oom_kill")
        if self.v2 and "memory" in self.v2_controllers:
            return _number(self.v2 / uid / "memory.events", "oom_kill")
        return 0

    def memory_bytes(self, uid: str) -> int | None:
        """Return what is used and can't simply be dropped; None when not accounted here."""
        if folder := self._v1("memory", uid):
            used = _number(folder / "memory.usage_in_bytes")
            cache = _number(folder / "memory.stat", "total_inactive_file")
        elif self.v2 and "memory" in self.v2_controllers:
            used = _number(self.v2 / uid / "memory.current")
            cache = _number(self.v2 / uid / "memory.stat", "inactive_file")
        else:
            return None
        return max(used - cache, 0)

    def cpu_seconds(self, uid: str) -> float | None:
        if folder := self._v1("cpuacct", uid):
            return _number(folder / "cpuacct.usage") / 1e9
        if self.v2 and (self.v2 / uid / "cpu.stat").exists():
            return _number(self.v2 / uid / "cpu.stat", "usage_usec") / 1e6
        return None

    def remove(self, uid: str) -> None:
        for folder in self.folders(uid):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _usable(base: Path) -> bool:
    """True when groups can be made under ``base`` and processes moved into them."""
    probe = base / f"probe-{os.getpid()}"
    try:
        base.mkdir(exist_ok=True)
        probe.mkdir(exist_ok=True)
        usable = os.access(probe / "cgroup.procs", os.W_OK)
        probe.rmdir()
    except OSError:
        return False
    return usable


def _delegate(top: Path, base: Path) -> frozenset[str]:
    """Switch the controllers on for our groups where the machine lets us."""
    for folder in (top, base):
        for name in ("memory", "cpu", "pids"):
            _put(folder / "cgroup.subtree_control", f"+{name}")
    with contextlib.suppress(OSError):
        return frozenset((base / "cgroup.subtree_control").read_text().split())
    return frozenset()


def nvidia_majors() -> dict[str, int]:
    """Return device name → major number of the NVIDIA character devices."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/devices").read_text().partition("Block")[0].splitlines():
            number, _, name = line.strip().partition(" ")
            if name.startswith("nvidia"):
                found["nvidia" if name == "nvidia-frontend" else name] = int(number)
    return found


def nvidia_minors(root: Path = Path("/proc/driver/nvidia/gpus")) -> dict[str, int]:
    """Return GPU UUID → minor number of its device file."""
    found = {}
    for path in root.glob("*/information"):
        facts = {}
        with contextlib.suppress(OSError):
            for line in path.read_text().splitlines():
                key, _, value = line.partition(":")
                facts[key.strip()] = value.strip()
        if "GPU UUID" in facts and facts.get("Device Minor", "").isdigit():
            found[facts["GPU UUID"]] = int(facts["Device Minor"])
    return found


# -I -S -E: no site, no user packages, no environment; it starts in 6 ms.
SHIM = (sys.executable, "-I", "-S", "-E", shim.__file__)
SHARED_FOLDERS = ("/tmp", "/var/tmp")  # noqa: S108 - the folders that get a private face


@dataclass(frozen=True)
class Isolation:
    """True means enforced for every workload."""

    users: bool = False
    proc: bool = False
    tmp: bool = False
    shm: bool = False
    memory: bool = False
    cpu: bool = False
    pids: bool = False
    gpu: bool = False
    read_only_volumes: bool = False
    memory_secrets: bool = False

    @property
    def mounts(self) -> bool:
        return self.proc or self.tmp or self.shm or self.read_only_volumes


def detect(
    groups: Groups, *, root: bool, state: Path, volumes: Path, environments: Path, memory: bool
) -> Isolation:
    """A workload must go on seeing its folders: none may lie under what gets a private face."""
    proc = tmp = shm = hidden = False
    needed = (state, volumes, environments)
    if root:
        folder = state / "selftest"
        destroy(folder)
        folder.mkdir(mode=0o700)
        done = subprocess.run(  # noqa: S603 - our own file
            [*SHIM, str(folder)], capture_output=True, env={}, timeout=20, check=False
        )
        proc, tmp = b"proc=1" in done.stdout, b"tmp=1" in done.stdout
        shm = b"shm=1" in done.stdout
        hidden = b"volumes=1" in done.stdout
        destroy(folder)
        tmp = tmp and not any(is_under(path, SHARED_FOLDERS) for path in needed)
        shm = shm and not any(is_under(path, ("/dev/shm",)) for path in needed)  # noqa: S108
        hidden = hidden and not any(is_under(p, (str(volumes),)) for p in (state, environments))
    return Isolation(
        users=root,
        proc=proc,
        tmp=tmp,
        shm=shm,
        memory=groups.has("memory"),
        cpu=groups.has("cpu"),
        pids=groups.has("pids"),
        gpu=root and "devices" in groups.v1,
        read_only_volumes=hidden,
        memory_secrets=memory,
    )


def is_under(path: Path, tops: tuple[str, ...]) -> bool:
    return any(Path(path).resolve().is_relative_to(top) for top in tops)


def closed_folder(path: Path) -> Path | None:
    """Return the first folder on the way to ``path`` that other users can't pass."""
    for folder in reversed([path, *path.parents]):
        if folder.is_dir() and not folder.stat().st_mode & 0o001:
            return folder
    return None
