"""G14 on one machine: everything of it is killed, the portal comes up again, and a job goes on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.jobs.running import Jobs
from tests.support.portal import Portal

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

# A checkpoint each half a second; it says with which it begins, and ends at 24.
KEEPS = """
cd "$BERTH_CHECKPOINTS"; n=0
[ -L .latest ] && n=$(cat .latest/step); echo "begins at $n"
while [ "$n" -lt 24 ]; do
  sleep 0.5; n=$((n + 1)); mkdir .new; echo "$n" > .new/step; mv .new "step-$n"
done
"""


@pytest.fixture
def portal() -> Iterator[Portal]:
    running = Portal()
    try:
        yield running.start()
    finally:
        running.close()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill_everything(portal: Portal) -> int:
    """End whatever belongs to it at one moment, as a power cut does; return how many it was.

    All are halted before the first is killed: no parent sees how its child ended.
    """
    mark, found, above, pid = str(portal.var).encode(), set[int](), {0}, os.getpid()
    while pid not in above:
        above.add(pid)
        pid = parent_of(pid)
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdecimal():
                told = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
                pid = int(process.name)
                found |= {pid, parent_of(pid)} if mark in told else set()
    for word in (signal.SIGSTOP, signal.SIGKILL):
        for pid in found - above:
            with suppress(ProcessLookupError):
                os.kill(pid, word)
    return len(found)


@pytest.mark.long("each way of a loss: jobs/test_losses.py")
def test_g14_after_the_machine_is_back_a_job_goes_on_and_another_says_what_happened(
    portal: Portal,
) -> None:
    own = {"owner": "admin", "cluster_key": "local", "environment": "jupyterlab"}
    jobs = Jobs(portal, **own, cpu_milli=100, memory_mib=256)
    loses = jobs.make("loses", command=["sleep", "600"])
    jobs.until(loses, "running")
    keeps = jobs.make("keeps", command=["bash", "-c", KEEPS])  # last: it ends by itself
    jobs.until(keeps, "running")
    deadline = time.monotonic() + 60
    while not list((portal.var).rglob("checkpoints/step-3")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert kill_everything(portal) > 5  # portal, worker, proxy, supervisor, parents, programs
    assert portal.process is not None
    portal.process.wait(30)
    portal.up()
    lost = jobs.until(loses, "failed")
    assert (lost["reason"], lost["exit_code"]) == ("killed", None)
    found = jobs.until(keeps, "succeeded")
    (log,) = jobs.logs(found, 1)
    assert int(log.split("begins at ")[1].split()[0]) >= 3
    past = portal.shell(
        f"from jobs.models import Job; row = Job.objects.get(short_id={keeps!r})\n"
        "answer = [row.launch, row.external_ref['lost']['reason'], row.exit_code]"
    )
    assert past == [2, "machine-lost", 0]
