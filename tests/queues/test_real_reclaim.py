"""A6 and A7 with real processes on one machine, whose GPUs are simulated."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.jobs.running import Jobs
from tests.support.gpus import NO_REAL_GPUS
from tests.support.portal import Portal

pytestmark = [pytest.mark.real, pytest.mark.timeout(600), NO_REAL_GPUS]

# Counts to forty, each fifth a checkpoint; told to end it writes one more, and half of another.
# It goes on from the newest that is whole.
TRAINS = """
import json, os, signal, sys, time
kept, latest = os.environ["BERTH_CHECKPOINTS"], os.environ["BERTH_CHECKPOINT_LATEST"]
step = int(open(latest + "/step").read()) if os.path.isdir(latest) else 0
print("begins at", step, flush=True)
def keep(name):
    os.mkdir(kept + "/.new")
    open(kept + "/.new/step", "w").write(str(step))
    os.rename(kept + "/.new", kept + "/" + name)
def told(*_):
    why = json.load(open(os.environ["BERTH_NOTICE_FILE"]))
    keep("step-told")
    keep("step-half.tmp")
    print("told", why["why"], why["until"][:10], "at", step, flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, told)
while step < 40:
    time.sleep(0.25)
    step += 1
    if step % 5 == 0:
        keep(f"step-{step}")
    print("step", step, flush=True)
print("done", step, flush=True)
"""
SHARED = """
from accounts.models import User
from clusters.models import Cluster, Device
from clusters.services.health import health_refresh
from projects.models import Membership, Project
from queues.models import Guarantee, Queue
health_refresh(key="local")
kind = Device.objects.first().flavor
for slug in ("hunter", "allen"):
    project = Project.objects.create(slug=slug, name=slug.title(), phase="running")
    user = User.objects.get(username="admin")
    Membership.objects.create(project=project, user=user, role="owner")
    queue = Queue.objects.create(name=slug, project=project)
    cluster = Cluster.objects.get(key="local")
    Guarantee.objects.create(queue=queue, cluster=cluster, flavor=kind, guaranteed=1)
answer = True
"""


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    running = Portal({"BERTH_SIMULATED_GPUS": "2xH100-80", "BERTH_RECLAIM_GRACE_SECONDS": "20"})
    try:
        yield running.start()
    finally:
        running.close()


def test_a6_a7_who_borrows_is_told_by_file_and_signal_and_resumes_from_its_checkpoint(
    portal: Portal,
) -> None:
    portal.shell(SHARED)
    size = {"cpu_milli": 100, "memory_mib": 256, "gpus": 1}
    own = {"owner": "admin", "cluster_key": "local", "environment": "jupyterlab", **size}
    hunter, allen = Jobs(portal, project="hunter", **own), Jobs(portal, project="allen", **own)
    first, second = (
        hunter.make(name, command=["python", "-c", TRAINS]) for name in ("first", "second")
    )
    for one in (first, second):
        hunter.until(one, "running")
    deadline = time.monotonic() + 60
    while "step 3" not in hunter.logs(hunter.look(second), 1)[0]:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    owed = allen.make("owed", command=["python", "-c", "import time; time.sleep(3)"])
    allen.until(owed, "running", "succeeded", within_s=60)
    assert hunter.look(first)["state"] in {"running", "succeeded"}  # guaranteed
    allen.until(owed, "succeeded")
    found = hunter.until(second, "succeeded")
    hunter.until(first, "succeeded")
    (log,) = hunter.logs(found, 1)
    resumed = int(log.split("begins at ")[1].split()[0])
    assert 0 < resumed < 40
    assert log.rstrip().endswith("done 40")
    past = portal.shell(
        "from jobs.models import Job; from clusters.models import Claim\n"
        f"row = Job.objects.get(short_id={second!r})\n"
        "answer = [row.launch, row.external_ref['given_back']['times'], Claim.objects.count()]"
    )
    assert past == [2, 1, 0]
