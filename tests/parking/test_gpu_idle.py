"""A real GPU: who computes in short bursts keeps it, who only fills its memory gives it back."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from typing import Any

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

# Holds a GiB of the first device, by the driver's own library; computes one second of every ten
# where it is told so, and prints nothing meanwhile.
PROGRAM = """
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
device, context, at = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
size = ctypes.c_size_t(1 << 30)
assert cuda.cuInit(0) == 0
assert cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(at), size) == 0
deadline = time.time() + float(sys.argv[2])
while time.time() < deadline:
    if sys.argv[1] == "bursts":
        end = time.time() + 1
        while time.time() < end:
            assert cuda.cuMemsetD8_v2(at, ctypes.c_ubyte(1), size) == 0
            assert cuda.cuCtxSynchronize() == 0
    time.sleep(9)
"""
POLICY = """
from accounts.models import User
from clusters.services.health import health_refresh
from parking.models import IdlePolicy
from projects.models import Membership, Project
health_refresh(key="local")
project = Project.objects.create(slug="lab", name="Lab", phase="running")
Membership.objects.create(
    project=project, user=User.objects.get(username="admin"), role="owner"
)
# its processor says nothing here: who waits for a GPU spins
IdlePolicy.objects.create(
    kind="job", state="on", minutes=1, grace=1, act="stop", cpu_below=100_000
)
answer = True
"""
SEEN = """
from jobs.models import Job
from metrics.models import DeviceReading
from parking.models import Stretch
row = Job.objects.get(short_id={short_id!r})
stretch = Stretch.objects.filter(workload_id=row.pk).first()
answer = {{
    "warned": bool(stretch and stretch.warned_at), "stopped_for": row.stop_reason,
    "readings": list(DeviceReading.objects.filter(uid=row.uid).values_list(
        "utilisation", "memory_used_mib"
    )),
}}
"""


@pytest.fixture
def portal() -> Iterator[Portal]:
    # A machine with a GPU is often one without a proxy, and with nobody but root.
    own = ("BERTH_NODE", "BERTH_ROUTER", "BERTH_ROOT_ONLY")
    running = Portal({name: os.environ[name] for name in own if name in os.environ})
    try:
        yield running.start()
    finally:
        running.close()


def test_bursts_keep_a_gpu_and_full_memory_alone_does_not(portal: Portal) -> None:
    portal.shell(POLICY)
    own: dict[str, Any] = {"cluster_key": "local", "environment": "jupyterlab", "gpus": 1}
    own |= {"cpu_milli": 1000, "memory_mib": 4096}
    jobs = Jobs(portal, owner="admin", project="lab", **own)

    def seen(one: str) -> dict[str, Any]:
        found: dict[str, Any] = portal.shell(SEEN.format(short_id=one))
        return found

    bursts = jobs.make("bursts", command=["python", "-c", PROGRAM, "bursts", "160"])
    jobs.until(bursts, "running")
    told: list[list[Any]] = []
    while jobs.look(bursts)["state"] == "running":
        found = seen(bursts)
        assert not found["warned"], (found, told)
        told += found["readings"]
        time.sleep(3)
    assert jobs.look(bursts)["state"] == "succeeded"
    measured = [(use, memory) for use, memory in told if use is not None]
    assert measured
    assert max(use for use, _memory in measured) >= 5
    assert max(memory for _use, memory in measured) >= 1024

    idle = jobs.make("idle", command=["python", "-c", PROGRAM, "idle", "900"])
    jobs.until(idle, "running")
    deadline, warned = time.monotonic() + 300, False
    while jobs.look(idle)["state"] == "running" and time.monotonic() < deadline:
        warned = warned or seen(idle)["warned"]
        time.sleep(3)
    jobs.until(idle, "cancelled", "failed", within_s=60)
    assert (warned, seen(idle)["stopped_for"]) == (True, "idle")
    asked = [str(NVIDIA), "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    left = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    assert int(left.split()[0]) < 1000
