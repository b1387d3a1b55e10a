"""``make demo`` as it is started, with real processes: a reclaim is seen soon after it is ready."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.gpus import NO_REAL_GPUS
from tests.support.portal import Portal

pytestmark = [
    pytest.mark.real,
    pytest.mark.long("demo/test_demo.py plays the same script on the fake machine"),
    pytest.mark.timeout(600),
    NO_REAL_GPUS,
]
WITHIN_S = 90.0
ENV = {
    "BERTH_DEMO": "yes",
    "BERTH_SIMULATED_GPUS": "8xH100-80,4xA100-40",
    "BERTH_RECLAIM_GRACE_SECONDS": "10",
    "BERTH_CPU_OVERCOMMIT": "32",
    "BERTH_MEMORY_OVERCOMMIT": "16",
}
LOOK = """
from clusters.models import Claim
from clusters.streams import log_read
from events.models import Event
from jobs.models import Job
from notebooks.models import Workspace
from queues.models import Turn
from serving.models import Endpoint
rows = {row.uid: row for row in Job.objects.select_related("owner")}
gave = [rows[t.workload_uid] for t in Turn.objects.filter(gave_back=True)]
waiting = Claim.objects.filter(granted_at=None, expected_from__isnull=False)
answer = {
    "reclaimed": Event.objects.filter(verb="job.reclaimed").count(),
    "gave": sorted({row.owner.username for row in gave}),
    "told": [log_read("local", str(row.uid)).text for row in gave],
    "owed": Job.objects.filter(owner__username="ines", phase="running").count(),
    "estimated": waiting.count(),
    "called": Endpoint.objects.exclude(called_at=None).filter(canary_of=None).count(),
    "canaries": Endpoint.objects.filter(phase="running", canary_of__canary_percent=10).count(),
    "workspaces": Workspace.objects.filter(phase="running").count(),
}
"""


@pytest.fixture
def portal() -> Iterator[Portal]:
    running = Portal(ENV)
    try:
        yield running.start()
    finally:
        running.close()


def test_a_minute_after_its_start_gpus_were_borrowed_and_came_back(portal: Portal) -> None:
    shown = portal.log.read_text()
    assert "aiko" in shown
    deadline = time.monotonic() + WITHIN_S
    while True:
        seen = portal.shell(LOOK)
        served = seen["called"] and seen["canaries"]
        if seen["owed"] == 2 and seen["estimated"] and seen["workspaces"] and served:
            break
        assert time.monotonic() < deadline, f"{seen}\n{portal.tail()}"
        time.sleep(1)
    assert seen["reclaimed"] >= 2
    assert seen["gave"] == ["aiko"]
    assert all("checkpoint at step" in text for text in seen["told"])
    assert portal.down() == 0
    before = len(portal.log.read_text())
    portal.up()  # goes on with the same people, whose passwords are not shown again
    again = portal.log.read_text()[before:]
    assert "aiko" not in again
    assert portal.shell("from accounts.models import User; answer = User.objects.count()") == 13
