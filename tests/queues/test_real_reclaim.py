"""A6 and A7 with real processes on one machine, whose GPUs are simulated."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.jobs.running import Jobs
from tests.support.gpus import NO_REAL_GPUS
from tests.support.portal import Portal

pytestmark = [pytest.mark.real, pytest.mark.timeout(600), NO_REAL_GPUS]

# Counts to eighty, each fifth a checkpoint; told to end it writes one more, and half of another.
# It goes on from the newest that is whole, and tells of itself.
TRAINS = """
import json, os, signal, sys, time
told = open(os.environ["BERTH_EVENTS"], "a", buffering=1)
def tell(**what):
    print(json.dumps(what), file=told)
tell(job_start_time=time.time())
kept, latest = os.environ["BERTH_CHECKPOINTS"], os.environ["BERTH_CHECKPOINT_LATEST"]
step = int(open(latest + "/step").read()) if os.path.isdir(latest) else 0
print("begins at", step, flush=True)
def keep(name):
    os.mkdir(kept + "/.new")
    open(kept + "/.new/step", "w").write(str(step))
    os.rename(kept + "/.new", kept + "/" + name)
def told_to_end(*_):
    why = json.load(open(os.environ["BERTH_NOTICE_FILE"]))
    keep("step-told")
    keep("step-half.tmp")
    print("told", why["why"], why["until"][:10], "at", step, flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, told_to_end)
while step < 80:
    tell(step_count=step, step_start_time=time.time())
    time.sleep(0.25)
    step += 1
    if step % 5 == 0:
        tell(checkpoint_save_start_time=time.time())
        keep(f"step-{step}")
        tell(checkpoint_save_end_time=time.time())
    print("step", step, flush=True)
tell(job_end_time=time.time())
print("done", step, flush=True)
"""
COMES_TO = """
from jobs.goodput import goodput_of
from jobs.models import Job, Told
row = Job.objects.get(short_id={short_id!r})
found = goodput_of(row)
answer = {{
    "unread": Told.objects.filter(job=row, next_at__isnull=False).count(),
    "unused": sum(one.state["unused"] for one in Told.objects.filter(job=row) if one.state),
    "seconds": {{cause: length / 1000 for cause, length in found.sums.items()}},
    "wall": found.wall / 1000,
    "over": found.is_over,
    "steps": found.steps and [found.steps.count, found.steps.mean, found.steps.usual],
}}
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
    assert 0 < resumed < 80
    assert log.rstrip().endswith("done 80")
    past = portal.shell(
        "from jobs.models import Job; from clusters.models import Claim\n"
        f"row = Job.objects.get(short_id={second!r})\n"
        "answer = [row.launch, row.external_ref['given_back']['times'], Claim.objects.count()]"
    )
    assert past == [2, 1, 0]
    # G9: what its time came to, of which only the step that was cut off was done again
    deadline = time.monotonic() + 60
    while (told := portal.shell(COMES_TO.format(short_id=second)))["unread"]:
        assert time.monotonic() < deadline, told
        time.sleep(0.5)
    seconds, (count, _mean, usual) = told["seconds"], told["steps"]
    assert sum(seconds.values()) == pytest.approx(told["wall"], abs=0.01)
    assert (told["over"], told["unused"], count) == (True, 0, 80)
    assert 230 < usual < 400
    assert 19 < seconds["run"] + seconds.get("checkpoint", 0) < 40
    assert 0 < seconds["repeated"] < 2
    assert seconds["suspended"] > 2  # while who is owed its GPU had it
    assert seconds["prepare"] > 0
