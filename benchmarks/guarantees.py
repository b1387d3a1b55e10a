"""How long a guarantee takes beyond the grace of those who give back, while others keep submitting.

One machine with simulated GPUs, real processes, all by the API. A holds every GPU, borrowed, with
programs that do not heed being told to end, and keeps submitting more from several clients; B asks
for one of the GPUs that it is guaranteed, has it, lets it go, and asks again. Measured is from B's
request until its job runs.
"""

from __future__ import annotations

import os
import threading
import time

import httpx

from benchmarks.lib import Result, percentile, poll, sized
from tests.support.clustered import ok
from tests.support.portal import Portal

GPUS = 8
ASKED = int(os.environ.get("BERTH_GUARANTEES_ASKED", sized("15", "2")))
SUBMITTERS, EVERY_S = sized(2, 1), 0.5  # each, once the line is as long as it gets
LINE = sized(100, 6)  # so many of A wait at most: then it submits as many as begin
GRACE_S = 3
WITHIN_S = 120.0
SIZE = {"cpu_milli": 100, "memory_mib": 256, "gpus": 1}
DEAF = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
# A project that owns so many GPUs, one that borrows them, and a token of a person in each.
SHARED = """
from accounts.models import User
from accounts.principal import Principal
from accounts.services.tokens import token_create
from clusters.models import Cluster, Device
from clusters.services.health import health_refresh
from projects.services.life import project_create
from queues.models import Guarantee, Queue
health_refresh(key="local")
kind, cluster = Device.objects.first().flavor, Cluster.objects.get(key="local")
answer = []
for slug in ("borrows", "owns"):
    who = Principal(user=User.objects.create(username=slug, email=f"{slug}@example.org"))
    made = project_create(principal=who, name=slug.title(), slug=slug)
    if slug == "owns":
        queue = Queue.objects.create(name=slug, project=made)
        Guarantee.objects.create(queue=queue, cluster=cluster, flavor=kind, guaranteed=%d)
    answer.append(token_create(who=who, name="bench")[1])
"""
_LINE = """
from clusters.models import Claim
waiting = Claim.objects.filter(granted_at=None).count()
answer = [waiting, Claim.objects.count() - waiting]
"""


class Storm:
    def __init__(self) -> None:
        self.portal = Portal(
            {
                "BERTH_SIMULATED_GPUS": f"{GPUS}xH100-80",
                "BERTH_RECLAIM_GRACE_SECONDS": str(GRACE_S),
                "BERTH_CPU_OVERCOMMIT": "32",
                "BERTH_MEMORY_OVERCOMMIT": "16",
                "BERTH_API_RATE": "100000",
                "BERTH_EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend",
            }
        )
        self.over = threading.Event()
        self.submitted = self.refused = 0

    def start(self) -> None:
        self.portal.start()
        self._borrows, self._owns = self.portal.shell(SHARED % 2)
        self.owner = self.portal.api(self._owns)
        for _each in range(SUBMITTERS):
            threading.Thread(target=self._submit, daemon=True).start()
        poll(lambda: self.line() == (LINE, GPUS), within_s=WITHIN_S * 4, every_s=1)
        self.before = self.submitted

    def line(self) -> tuple[int, int]:
        """Return how many wait, LINE at most, and how many hold a GPU."""
        waiting, held = self.portal.shell(_LINE)
        return min(LINE, waiting), held

    def _submit(self) -> None:
        with self.portal.api(self._borrows) as api:
            while not self.over.is_set():
                if self.submitted >= LINE + GPUS:  # one goes, one comes: the line stays as long
                    time.sleep(EVERY_S)
                    (last, *_rest) = api.get("projects/borrows/jobs?page_size=1").json()["results"]
                    api.delete(f"projects/borrows/jobs/{last['id']}")
                answer = api.post("projects/borrows/jobs", json={**SIZE, "command": DEAF})
                if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                    self.refused += 1  # "try again in a moment"
                    time.sleep(0.5)
                    continue
                ok(answer)
                self.submitted += 1

    def owed(self) -> float:
        """Ask within the guarantee; return how long it took. Its GPU is borrowed again after it."""
        base, begin = "projects/owns/jobs", time.perf_counter()
        body = {**SIZE, "command": ["sleep", "3600"]}
        made = ok(self.owner.post(base, json=body)).json()["id"]

        def runs() -> bool:
            return bool(self.owner.get(f"{base}/{made}").json()["status"]["phase"] == "running")

        poll(runs, within_s=WITHIN_S, every_s=0.05)
        seconds = time.perf_counter() - begin
        ok(self.owner.delete(f"{base}/{made}"))
        gone = httpx.codes.NOT_FOUND
        poll(lambda: self.owner.get(f"{base}/{made}").status_code == gone, within_s=WITHIN_S)
        poll(lambda: self.line()[1] == GPUS, within_s=WITHIN_S, every_s=0.2)
        return seconds

    def close(self) -> None:
        self.over.set()
        self.owner.close()
        self.portal.close()


def run() -> list[Result]:
    storm = Storm()
    try:
        storm.start()
        took = [storm.owed() for _each in range(ASKED)]
        kept = storm.submitted - storm.before
    finally:
        storm.close()
    beyond = [seconds - GRACE_S for seconds in took]
    what = f"a guarantee beyond its grace of {GRACE_S} s, {LINE} of another project wait"
    half, most = (percentile(beyond, share) for share in (0.5, 0.99))
    note = f"median {half:.2f} s; {ASKED} times, {kept} submitted meanwhile"
    note += f", {storm.refused} asked to try again in a moment"
    return [Result(f"{what}, p99 of {ASKED}", "s", [most], goal=5, floor=10, note=note)]


if __name__ == "__main__":
    for result in run():
        print(result.line())
