"""A real GPU on one machine: what NVML tells, who sees which device, and who gives it back.

Only where there is one. The programs ask the CUDA driver itself, so no framework is needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.jobs.running import Jobs
from tests.support.portal import Portal

NVIDIA = shutil.which("nvidia-smi")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.skipif(NVIDIA is None, reason="no NVIDIA GPU on this machine"),
]

# Says how many devices the CUDA driver shows; with one it holds a GiB until it is told to end.
PROGRAM = """
import ctypes, json, os, signal, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
count = ctypes.c_int(0)
code = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
print("devices", count.value, "code", code, flush=True)
if count.value and sys.argv[1:] == ["hold"]:
    device, context = ctypes.c_int(), ctypes.c_void_p()
    assert cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
    at = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(1 << 30)) == 0
    print("holds", flush=True)
    def told(*_):
        print("told", json.load(open(os.environ["BERTH_NOTICE_FILE"]))["why"], flush=True)
        sys.exit(0)
    signal.signal(signal.SIGTERM, told)
    deadline = time.time() + (5 if os.path.exists(os.environ["BERTH_CHECKPOINTS"] + "/was") else 600)
    open(os.environ["BERTH_CHECKPOINTS"] + "/was", "w").close()
    while time.time() < deadline:
        time.sleep(0.2)
    print("done", flush=True)
"""
PROJECTS = """
from accounts.models import User
from clusters.models import Cluster, Device
from clusters.services.health import health_refresh
from projects.models import Membership, Project
from queues.models import Guarantee, Queue
health_refresh(key="local")
rows = list(Device.objects.order_by("index"))
for slug in ("borrows", "owns"):
    project = Project.objects.create(slug=slug, name=slug.title(), phase="running")
    user = User.objects.get(username="admin")
    Membership.objects.create(project=project, user=user, role="owner")
queue = Queue.objects.create(name="owns", project=project)
Guarantee.objects.create(
    queue=queue, cluster=Cluster.objects.get(key="local"), flavor=rows[0].flavor,
    guaranteed=len(rows),
)
answer = [[d.uuid, d.name, d.memory_mib, d.healthy, d.utilisation] for d in rows]
"""


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    # A machine with a GPU is often one without a proxy, and with nobody but root.
    own = ("BERTH_NODE", "BERTH_ROUTER", "BERTH_ROOT_ONLY")
    passed = {name: os.environ[name] for name in own if name in os.environ}
    running = Portal({"BERTH_RECLAIM_GRACE_SECONDS": "20", **passed})
    try:
        yield running.start()
    finally:
        running.close()


def seen_by_nvidia(what: str) -> list[str]:
    asked = [str(NVIDIA), f"--query-gpu={what}", "--format=csv,noheader,nounits"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split("\n")[:-1]


def test_a_real_gpu_is_told_given_to_one_and_given_back(portal: Portal) -> None:
    told = portal.shell(PROJECTS)
    assert [row[0] for row in told] == seen_by_nvidia("uuid")
    assert [row[1] for row in told] == seen_by_nvidia("name")
    assert all(row[3] and row[4] is not None for row in told)
    everything = len(told)
    size = {"cpu_milli": 100, "memory_mib": 4096}
    own = {"owner": "admin", "cluster_key": "local", "environment": "jupyterlab", **size}
    borrows, owns = Jobs(portal, project="borrows", **own), Jobs(portal, project="owns", **own)

    none = owns.make("none", gpus=0, command=["python", "-c", PROGRAM])
    found = owns.until(none, "succeeded")
    assert owns.logs(found, 1)[0].startswith("devices 0 ")

    first = borrows.make("first", gpus=everything, command=["python", "-c", PROGRAM, "hold"])
    borrows.until(first, "running")
    held = _until_held(borrows, first)
    assert held.startswith(f"devices {everything} code 0")
    assert int(seen_by_nvidia("memory.used")[0]) > 1000

    second = owns.make("second", gpus=everything, command=["python", "-c", PROGRAM])
    assert "devices" in owns.logs(owns.until(second, "succeeded", within_s=90), 1)[0]
    again = borrows.until(first, "succeeded", within_s=90)
    assert borrows.logs(again, 1)[0].rstrip().endswith("done")
    assert borrows.look(first)["steps"][-1] == "stopped"


def _until_held(jobs: Jobs, one: str) -> str:
    for _look in range(100):
        (text,) = jobs.logs(jobs.look(one), 1)
        if "holds" in text:
            return text
        time.sleep(0.3)
    raise AssertionError(text)
