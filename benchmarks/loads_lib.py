"""What the benchmarks of loads share: sizes, costs of a process tree, sides in turn, limits."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.lib import Result

MIB = 2**20
GIB = 2**30
TICK = os.sysconf("SC_CLK_TCK")
LOOK_S = 0.05


def option(name: str, usual: int) -> int:
    """A size, made small by BENCH_<NAME> for a quick try."""
    return int(os.environ.get(f"BENCH_{name}", usual))


@contextmanager
def folder(on: str = "memory") -> Iterator[Path]:
    """A place that goes away: on a memory file system, or on the disk (BENCH_DISK)."""
    shared = Path("/dev/shm")
    disk = Path(os.environ.get("BENCH_DISK", tempfile.gettempdir()))
    made = Path(
        tempfile.mkdtemp(
            prefix="berth-bench-", dir=shared if on == "memory" and shared.is_dir() else disk
        )
    )
    made.chmod(0o755)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@dataclass(frozen=True)
class Cost:
    """Of one run: its process with all children, and the server's share of the CPU."""

    wall_s: float
    cpu_s: float
    rss_mib: float
    server_cpu_s: float = 0.0


def measure(
    command: Sequence[str | Path], env: Mapping[str, str], cwd: Path, server: int = 0
) -> Cost:
    """Run to the end; raises with the last words when it fails."""
    before = cpu_of(server)
    log = cwd / "last.log"
    with log.open("wb") as out:
        begin = time.perf_counter()
        child = subprocess.Popen(
            [str(word) for word in command],
            env={"PATH": os.environ.get("PATH", ""), "HOME": str(cwd), **env},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
        memory = Memory(child.pid)
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
    peak = memory.peak()
    if child.returncode:
        words = log.read_text(errors="replace")[-2000:]
        message = f"{Path(command[0]).name} ended with {child.returncode}:\n{words}"
        raise RuntimeError(message)
    return Cost(wall, used.ru_utime + used.ru_stime, peak / MIB, cpu_of(server) - before)


def cpu_of(pid: int) -> float:
    if not pid:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


class Memory:
    """The most that a process and its children had at once, looked at twenty times a second.

    ``ru_maxrss`` is no help: it counts what the parent had before the program was started.
    """

    def __init__(self, pid: int) -> None:
        self._pid, self._peak = pid, 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def peak(self) -> int:
        self._over.set()
        self._thread.join()
        return self._peak

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            family = [self._pid, *_children(self._pid)]
            if len(family) == 1:  # its own high-water mark misses nothing between two looks
                self._peak = max(self._peak, _status(self._pid, "VmHWM"))
            else:
                self._peak = max(self._peak, sum(_proportional(pid) for pid in family))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in _paths(f"/proc/{pid}/task"):
        for child in _read(task / "children").split():
            found += [int(child), *_children(int(child))]
    return found


def _paths(folder: str) -> list[Path]:
    try:
        return list(Path(folder).iterdir())
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _status(pid: int, name: str) -> int:
    return _kib(_read(Path(f"/proc/{pid}/status")), name)


def _proportional(pid: int) -> int:
    """Pages shared after a fork are counted once."""
    return _kib(_read(Path(f"/proc/{pid}/smaps_rollup")), "Pss")


def _kib(text: str, name: str) -> int:
    line = next((x for x in text.splitlines() if x.startswith(f"{name}:")), "")
    return int(line.split()[1]) * 1024 if line else 0


@dataclass(frozen=True)
class Side:
    """``act`` copies into an empty folder and answers what it cost."""

    name: str
    act: Callable[[Path], Cost]
    verifies: bool = True

    @property
    def label(self) -> str:
        return self.name if self.verifies else f"{self.name}, unverified"


def chosen(sides: Sequence[Side]) -> list[Side]:
    """Ours and the peers whose names hold a word of BENCH_PEERS (all of them without it)."""
    words = os.environ.get("BENCH_PEERS", "").split(",")
    return [sides[0], *(s for s in sides[1:] if any(word in s.name for word in words))]


def in_turn(
    sides: Sequence[Side],
    rounds: int,
    target: Path,
    check: Callable[[Path], None],
) -> dict[str, list[Cost]]:
    """Every side once a round, the order turned each time; what is wrong ends the benchmark."""
    costs: dict[str, list[Cost]] = {side.name: [] for side in sides}
    for number in range(rounds):
        order = list(sides) if number % 2 else list(reversed(sides))
        for side in order:
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            cost = side.act(target)
            check(target)
            costs[side.name].append(cost)
            print(
                f"  round {number + 1} {side.label}: {cost.wall_s:.2f} s, {cost.cpu_s:.2f} CPU s,"
                f" {cost.rss_mib:.0f} MiB, server {cost.server_cpu_s:.2f} CPU s",
                flush=True,
            )
    shutil.rmtree(target, ignore_errors=True)
    return costs


def fastest(costs: Mapping[str, list[Cost]], but: str) -> str:
    """The peer with the least median of wall time."""
    return min(
        (name for name in costs if name != but), key=lambda n: median(c.wall_s for c in costs[n])
    )


@dataclass(frozen=True)
class Aim:
    """Time as a multiple of the peer's (1 / its speed), and the most memory."""

    floor: float
    memory_mib: int
    goal: float = 1.0


def results(
    what: str,
    costs: Mapping[str, list[Cost]],
    sides: Sequence[Side],
    *,
    ours: str,
    against: str,
    aim: Aim,
) -> list[Result]:
    """Time, CPU and memory, with a word on each peer."""
    label = {side.name: side.label for side in sides}
    walls = {name: [c.wall_s for c in all_] for name, all_ in costs.items()}
    cpus = {name: [c.cpu_s for c in all_] for name, all_ in costs.items()}
    thrifty = min((n for n in costs if n != ours), key=lambda n: median(cpus[n]))
    peak = max(c.rss_mib for c in costs[ours])
    others = "; ".join(
        f"{label[n]} {median(walls[n]):.3g} s, {median(cpus[n]):.3g} CPU s,"
        f" {max(c.rss_mib for c in costs[n]):.0f} MiB"
        for n in costs
        if n != ours
    )
    return [
        Result(
            f"{what}, time",
            "s",
            walls[ours],
            walls[against],
            label[against],
            aim.goal,
            aim.floor,
            note=others,
        ),
        Result(
            f"{what}, CPU",
            "CPU s",
            cpus[ours],
            cpus[thrifty],
            label[thrifty],
            1.0,
            1.5,
        ),
        Result(f"{what}, memory", "MiB", [peak], goal=aim.memory_mib, floor=aim.memory_mib),
    ]


def against_limits(
    what: str,
    ours: Sequence[Cost],
    limits: Mapping[str, float],
    *,
    goal: float | None = None,
    floor: float | None = None,
) -> Result:
    """Time as a multiple of the slowest of what nobody can be faster than."""
    slowest = max(limits, key=lambda name: limits[name])
    return Result(
        f"{what}, against the limit",
        "s",
        [cost.wall_s for cost in ours],
        [limits[slowest]] * len(ours),
        slowest,
        goal,
        floor,
        note=", ".join(f"{name} {seconds:.3g} s" for name, seconds in limits.items()),
    )
