"""How long B waits for a launch while A has 10,000 loads queued, against the same when nobody has.

E17, through the API: from B's request to "running", one launch after another, the 99th percentile
of each round. The machine is the fake one: measured are the portal and its queues, not a copy that
takes the cores; A's loads take turns, are placed and wait as they do everywhere. B's first launches
of a round meet all of A's rows due at once.
"""

from __future__ import annotations

import os
import time

import httpx

from benchmarks.lib import Result, percentile, sized
from tests.support.portal import Portal
from tools.provision_tests import Services

LOADS = int(os.environ.get("BERTH_FAIR_LOADS", sized("10000", "50")))
LAUNCHES = int(os.environ.get("BERTH_FAIR_LAUNCHES", sized("60", "3")))
ROUNDS = int(os.environ.get("BERTH_FAIR_ROUNDS", sized("3", "1")))
WITHIN_S = 120.0
SMALL = {"cpu_milli": 1000, "memory_mib": 512}
_PEOPLE = """
from accounts.models import User
from accounts.principal import Principal
from accounts.services.tokens import token_create
from projects.services.life import project_create
answer = []
for name in ("greedy", "patient"):
    who = Principal(user=User.objects.create(username=name, email=f"{name}@example.org"))
    made = project_create(principal=who, name=name.title(), slug=name)
    answer.append(token_create(who=who, name="fair")[1])
"""
_QUEUE = f"""
from accounts.models import User
from common.clock import now
from loaders.models import Load
from projects.models import Project
from tests.support.workloads import insert
from volumes.services.create import project_volume_ensure
project, owner = Project.objects.get(slug="greedy"), User.objects.get(username="greedy")
volume = project_volume_ensure(principal=None, project=project)
at = now()
insert(
    [
        Load(
            project=project, owner=owner, name=f"load-{{n}}", volume=volume, anonymous=True,
            store_kind="s3", bucket="bucket", fingerprint=str(n), launch=1, asked_at=at,
            next_reconcile_at=at, cpu_milli=100, memory_mib=64,
        )
        for n in range({LOADS})
    ],
    batch_size=1000,
)
answer = Load.objects.count()
"""
_CLEAR = """
from clusters.models import Claim
from loaders.models import Load
Claim.objects.filter(workload_uid__in=Load.objects.values("uid")).delete()
Load.objects.all().delete()
answer = Load.objects.count()
"""
_WAITING = """
from loaders.models import Load
answer = Load.objects.filter(phase__in=("pending", "starting")).count()
"""


class Crowd:
    """A portal on PostgreSQL and Redis with two projects."""

    def __init__(self) -> None:
        self.services = Services()
        given = self.services.start({})
        self.portal = Portal(
            {
                "BERTH_DATABASE_URL": given["BERTH_TEST_POSTGRES"],
                "BERTH_REDIS_URL": given["BERTH_TEST_REDIS"],
                "BERTH_LOCAL_DRIVER": "fake",
                "BERTH_ROUTER": "fake",
            }
        )

    def start(self) -> None:
        self.portal.start()
        _greedy, patient = self.portal.shell(_PEOPLE)
        self.api = self.portal.api(patient)

    def launches(self) -> list[float]:
        return [self._launch() for _ in range(LAUNCHES)]

    def queue(self) -> None:
        if self.portal.shell(_QUEUE) != LOADS:
            message = "the loads of the round before are still there"
            raise RuntimeError(message)

    def clear(self) -> int:
        """Return how many of the loads still waited."""
        waiting = int(self.portal.shell(_WAITING))
        self.portal.shell(_CLEAR)
        return waiting

    def close(self) -> None:
        self.portal.close()
        self.services.stop()

    def _launch(self) -> float:
        base, begin = "projects/patient/workspaces", time.perf_counter()
        made = self.api.post(base, json=SMALL).raise_for_status().json()["id"]
        while self.api.get(f"{base}/{made}").json()["status"]["phase"] != "running":
            if time.perf_counter() - begin > WITHIN_S:
                message = "a launch did not run in time"
                raise TimeoutError(message)
            time.sleep(0.01)
        seconds = time.perf_counter() - begin
        self.api.delete(f"{base}/{made}").raise_for_status()
        while self.api.get(f"{base}/{made}").status_code != httpx.codes.NOT_FOUND:
            time.sleep(0.02)
        return seconds


def run() -> list[Result]:
    crowd = Crowd()
    idle: list[float] = []
    busy: list[float] = []
    try:
        crowd.start()
        crowd.launches()  # whatever was cold
        for _ in range(ROUNDS):
            idle.append(percentile(crowd.launches(), 0.99))
            crowd.queue()
            busy.append(percentile(crowd.launches(), 0.99))
            if crowd.clear() < LOADS // 2:
                message = "A's loads did not wait"
                raise RuntimeError(message)
    finally:
        crowd.close()
    what = f"a launch beside {LOADS:,} loads that another project queued, p99 of {LAUNCHES}"
    return [Result(what, "s", busy, idle, "the same without them", 2, 2)]
