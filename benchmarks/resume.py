"""How long a job takes to go on once its GPUs are free again, against a plain start of its program.

One machine with simulated GPUs, real processes, all by the API. A job borrows a GPU, is told to
give it back to who is guaranteed it, keeps a checkpoint and ends; when that one has ended it goes
on. Measured is from the end of the other program until the first word of the resumed one, which
reads its checkpoint first; beside it the first start of the same program, from the press on.
"""

from __future__ import annotations

import time

import httpx

from benchmarks.guarantees import SHARED
from benchmarks.lib import Result, percentile, poll, sized
from tests.support.clustered import ok
from tests.support.portal import Portal

ROUNDS = sized(8, 1)
WITHIN_S = 60.0
GONE = httpx.codes.NOT_FOUND
SIZE = {"cpu_milli": 100, "memory_mib": 256, "gpus": 1, "environment": "jupyterlab"}
# Says when it begins and with what; told to end it keeps a checkpoint and ends at once.
KEEPS = """
import os, signal, sys, time
kept, latest = os.environ["BERTH_CHECKPOINTS"], os.environ["BERTH_CHECKPOINT_LATEST"]
print("began", time.time(), os.path.isdir(latest), flush=True)
def told(*_):
    os.mkdir(kept + "/.new")
    os.rename(kept + "/.new", kept + "/step-%d" % time.time_ns())
    sys.exit(3)
signal.signal(signal.SIGTERM, told)
time.sleep(3600)
"""
OWED = "import time; time.sleep(1); print('over', time.time(), flush=True)"


def run() -> list[Result]:
    portal = Portal(
        {
            "BERTH_SIMULATED_GPUS": "1xH100-80",
            "BERTH_RECLAIM_GRACE_SECONDS": "10",
            "BERTH_API_RATE": "100000",
            "BERTH_EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend",
        }
    )
    resumed, started = [], []
    try:
        portal.start()
        borrows, owns = portal.shell(SHARED % 1)
        with portal.api(borrows) as one, portal.api(owns) as other:

            def press(api: httpx.Client, project: str, program: str) -> str:
                body = {**SIZE, "command": ["python", "-c", program]}
                return str(ok(api.post(f"projects/{project}/jobs", json=body)).json()["id"])

            def said(api: httpx.Client, project: str, job: str, word: str) -> list[str]:
                text = api.get(f"projects/{project}/jobs/{job}/logs").json()
                return [line for line in str(text["text"]).splitlines() if line.startswith(word)]

            def until(api: httpx.Client, project: str, job: str, word: str, end: str = "") -> float:
                """Wait for a line that begins so; return the moment that its newest one tells."""

                def found() -> bool:
                    lines = said(api, project, job, word)
                    return bool(lines) and lines[-1].endswith(end)

                poll(found, within_s=WITHIN_S, every_s=0.05)
                return float(said(api, project, job, word)[-1].split()[1])

            def gone(where: str) -> None:
                ok(one.delete(where))
                poll(lambda: one.get(where).status_code == GONE, within_s=WITHIN_S)

            for _ in range(ROUNDS):
                pressed = time.time()
                mine = press(one, "borrows", KEEPS)
                started.append(until(one, "borrows", mine, "began") - pressed)
                owed = press(other, "owns", OWED)
                over = until(other, "owns", owed, "over")
                resumed.append(until(one, "borrows", mine, "began", "True") - over)
                gone(f"projects/borrows/jobs/{mine}")
    finally:
        portal.close()
    beyond = [again - first for again, first in zip(resumed, started, strict=True)]
    note = f"resumed after {percentile(resumed, 0.5):.2f} s, a first start took"
    note += f" {percentile(started, 0.5):.2f} s (medians)"
    what = f"resume after a preemption, beyond a first start, most of {ROUNDS}"
    return [Result(what, "s", [max(beyond)], goal=1, floor=5, note=note)]


if __name__ == "__main__":
    for result in run():
        print(result.line(), result.note)
