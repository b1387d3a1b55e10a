"""Host processes of the cluster: started detached, found again by pid and start time."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from devcluster.layout import Layout
from tools.setup_shell import SetupError

TAIL = 15
POLL_S = 0.05


@dataclass(frozen=True)
class Record:
    pid: int
    started: int  # clock ticks since boot: tells a reused pid from the process that was meant
    command: list[str]

    def alive(self) -> bool:
        return start_time(self.pid) == self.started


def start_time(pid: int) -> int | None:
    """None when there is no such process, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


class Processes:
    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.records = self.read()
        self.writing = threading.Lock()

    def read(self) -> dict[str, Record]:
        try:
            content = json.loads(self.layout.processes.read_text())
        except (OSError, ValueError):
            return {}
        return {name: Record(**record) for name, record in content.items()}

    def write(self) -> None:
        with self.writing:
            content = {name: record.__dict__ for name, record in dict(self.records).items()}
            fresh = self.layout.processes.with_suffix(".new")
            fresh.write_text(json.dumps(content, indent=1))
            fresh.replace(self.layout.processes)

    def alive(self, name: str) -> bool:
        record = self.records.get(name)
        return record is not None and record.alive()

    def start(
        self,
        name: str,
        command: Iterable[object],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        """Nothing when it runs already."""
        if self.alive(name):
            return
        words = [str(word) for word in command]
        with self.log(name).open("ab") as out:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=cwd or self.layout.base,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        started = start_time(process.pid)
        if started is None:
            raise SetupError(self.explain(name, "ended at once"))
        # Its exit must not be waited for by this object: it outlives this process.
        process.returncode = 0
        self.records[name] = Record(process.pid, started, words)
        self.write()

    def log(self, name: str) -> Path:
        return self.layout.logs / f"{name}.log"

    def explain(self, name: str, what: str) -> str:
        try:
            lines = self.log(name).read_text(errors="replace").splitlines()[-TAIL:]
        except OSError:
            lines = []
        tail = "\n".join(f"    {line[:400]}" for line in lines)
        return f"{name} {what}; the end of {self.log(name)}:\n{tail}"

    def wait(self, name: str, ready: Callable[[], bool], timeout_s: float = 180) -> None:
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.alive(name):
                raise SetupError(self.explain(name, "ended at its start"))
            if time.monotonic() > deadline:
                raise SetupError(self.explain(name, f"was not ready in {timeout_s:.0f} s"))
            time.sleep(POLL_S)

    def stop(self, name: str, timeout_s: float = 15) -> None:
        """Asks, waits, and then insists; the pid is only touched while it is the same process."""
        record = self.records.get(name)
        if record is None:
            return
        for number, patience in ((signal.SIGTERM, timeout_s), (signal.SIGKILL, 60.0)):
            if not record.alive():
                break
            with suppress(ProcessLookupError):  # it ended since that look
                os.kill(record.pid, number)
            self.await_end(record, patience)
        if record.alive():
            raise SetupError(f"{name} (pid {record.pid}) does not end.")
        del self.records[name]
        self.write()

    @staticmethod
    def await_end(record: Record, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while record.alive() and time.monotonic() < deadline:
            time.sleep(POLL_S)
