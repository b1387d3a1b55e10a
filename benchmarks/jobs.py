"""Jobs on this machine: press to program running, and a log of a gigabyte."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx

from benchmarks.idle import family, pss_mib
from benchmarks.lib import Result, poll, sized, timed
from tests.support.portal import Portal, environments

JOBS = "projects/demo/jobs"
WITHIN_S = 120.0
LOG_MIB = sized(1024, 8)
# What most programs of training do first: read their libraries. The clock is the machine's.
TRAINS = (
    "import time, nbclient, nbconvert, IPython, tornado; "
    "print('began=' + str(time.time()), flush=True)"
)
PLAIN = "import time; print('began=' + str(time.time()), flush=True)"
_PRINTS = """
import sys
rest = b"x" * 1013 + b"\\n"
for mib in range({mib}):
    sys.stdout.buffer.write(b"".join(b"%010d" % n + rest for n in range(mib << 10, mib + 1 << 10)))
"""
_OVER = ("succeeded", "failed", "cancelled")


def bare_start(code: str) -> float:
    """Seconds from ``subprocess`` to the moment that the program says."""
    python = environments() / "jupyterlab" / "bin" / "python"
    with tempfile.TemporaryDirectory() as folder:
        begin = time.time()
        said = subprocess.run(
            [python, "-c", code], cwd=folder, capture_output=True, text=True, check=True
        )
    return began(said.stdout) - begin


def began(text: str) -> float:
    return float(next(x for x in text.splitlines() if x.startswith("began=")).partition("=")[2])


def press(api: httpx.Client, code: str) -> float:
    """Seconds from the request to the moment that the program says."""
    begin = time.time()
    made = asked(api, code)
    poll(lambda: state(api, made) in _OVER, within_s=WITHIN_S, every_s=0.05)
    text = api.get(f"{JOBS}/{made}/logs").raise_for_status().json()["text"]
    return began(text) - begin


def asked(api: httpx.Client, code: str) -> str:
    body = {
        "environment": "jupyterlab",
        "command": ["python", "-c", code],
        "cpu_milli": 1000,
        "memory_mib": 512,
    }
    made = api.post(JOBS, json=body)
    assert made.is_success, made.text
    return str(made.json()["id"])


def state(api: httpx.Client, job: str) -> str:
    return str(api.get(f"{JOBS}/{job}").json()["status"]["state"])


def pairs(api: httpx.Client, code: str, rounds: int) -> tuple[list[float], list[float]]:
    ours: list[float] = []
    peer: list[float] = []
    for number in range(rounds + 1):
        if number % 2:
            mine, bare = press(api, code), bare_start(code)
        else:
            bare, mine = bare_start(code), press(api, code)
        if number:  # the first round warms the page cache for both
            ours.append(mine)
            peer.append(bare)
    return ours, peer


def starts(api: httpx.Client, rounds: int) -> list[Result]:
    reads, bare_reads = pairs(api, TRAINS, rounds)
    plain, bare_plain = pairs(api, PLAIN, rounds)
    over = [1000 * (a - b) for a, b in zip(plain, bare_plain, strict=True)]
    what = "press to a program that has read its libraries"
    return [
        Result(what, "s", reads, bare_reads, "subprocess", 1.1, 1.25),
        Result("press to a program of a line, more than subprocess", "ms", over, goal=100),
    ]


class Heard:
    """A log as a follower hears it: its lines whole, in their order and once; what came is counted.

    The machine keeps the last 32 MiB: who is slower than the program misses what it let go.
    """

    def __init__(self) -> None:
        self.bytes, self.end, self.number, self.gaps = 0, 0, -1, 0
        self._raw, self._line = b"", b""

    def take(self, raw: bytes) -> None:
        *whole, self._raw = (self._raw + raw).split(b"\n\n")
        for event in whole:
            kind = event.partition(b"event: ")[2].partition(b"\n")[0]
            if kind in {b"log", b"reset"}:
                said = json.loads(event.partition(b"data: ")[2].partition(b"\n")[0])
                self._text(said["text"].encode(), said["offset"])

    def _text(self, text: bytes, end: int) -> None:
        self.bytes += len(text)
        if end - len(text) != self.end:  # something was let go: up to the next line it is a part
            self.gaps, self._line = self.gaps + 1, b""
            text = text.partition(b"\n")[2]
        self.end = end
        *lines, self._line = (self._line + text).split(b"\n")
        for line in lines:
            assert len(line) == 1023, line[:80]
            assert line[10:] == b"x" * 1013, line[:80]
            assert int(line[:10]) > self.number, (int(line[:10]), self.number)
            self.number = int(line[:10])


def long_log(portal: Portal, api: httpx.Client, rounds: int) -> list[Result]:
    """A log of a gigabyte is written and followed to its end; what the portal grows by, and how
    long that takes against the same program whose lines go into a file.
    """
    code, heard = _PRINTS.format(mib=LOG_MIB), 0
    grown: list[float] = []
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(rounds):
        begin = time.perf_counter()
        more, heard = followed(portal, api, code)
        ours.append(time.perf_counter() - begin)
        grown.append(more)
        python = environments() / "jupyterlab" / "bin" / "python"
        with tempfile.TemporaryFile() as file:
            bare.append(timed(partial(subprocess.run, [python, "-c", code], stdout=file)))
    note = f"{LOG_MIB} MiB printed, {heard / 2**20:.0f} followed in the last round, lines right"
    note += f"; load {os.getloadavg()[1]:.1f} over 5 minutes"
    return [
        Result("a log of 1 GiB followed, the portal grows by", "MiB", grown, goal=32, note=note),
        Result("a log of 1 GiB followed, time", "s", ours, bare, "into a file, nobody follows"),
    ]


def followed(portal: Portal, api: httpx.Client, code: str) -> tuple[float, int]:
    """MiB that the portal grew by while a job's log was followed, and bytes of it that came.

    What was heard is right: no line is broken, told twice or out of its order, and the last
    one is the last that was printed.
    """
    pids = family(portal)
    before = pss_mib(pids)
    made = asked(api, code)
    most, heard = before, Heard()
    with api.stream("GET", f"{JOBS}/{made}/logs?format=sse", timeout=WITHIN_S) as answer:
        answer.raise_for_status()
        looked = 0.0
        for part in answer.iter_raw():
            heard.take(part)
            if time.perf_counter() - looked > 0.5:
                looked = time.perf_counter()
                most = max(most, _alive_mib(pids))
    poll(lambda: state(api, made) in _OVER, within_s=WITHIN_S, every_s=0.2)
    assert heard.number == LOG_MIB * 1024 - 1, heard.number
    return max(0.0, most - before), heard.bytes


def _alive_mib(pids: list[int]) -> float:
    return pss_mib([pid for pid in pids if Path(f"/proc/{pid}/smaps_rollup").exists()])


def run() -> list[Result]:
    with portal() as (at, api):
        return [*starts(api, sized(9, 1)), *long_log(at, api, 1)]


def run_log() -> list[Result]:
    with portal() as (at, api):
        return long_log(at, api, sized(3, 1))


@contextmanager
def portal() -> Iterator[tuple[Portal, httpx.Client]]:
    at = Portal({})
    try:
        at.start()
        yield at, at.api(at.token("admin"))
    finally:
        at.close()
