"""A launch storm on simulated nodes, against a bare client that makes the same objects.

Done is when the portal says that all run (bare: when all pods are Ready). Requests are counted in
the API server's own audit log, for Berth's identity.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from benchmarks import kubespawner
from benchmarks.cluster_start import bare_copy, the_cluster
from benchmarks.cpu import Cpu
from benchmarks.lib import Result, poll, sized
from devcluster.kube import Kube
from devcluster.layout import Layout
from devcluster.processes import Processes
from tests.support.clustered import KEY, ClusteredPortal, ok
from tools.provision_tests import Services

PROJECTS = int(os.environ.get("BERTH_STORM_PROJECTS", sized("100", "2")))
LAUNCHES = int(os.environ.get("BERTH_STORM_LAUNCHES", sized("1000", "4")))
AT_ONCE = 16
WITHIN_S = 540.0
WRITES = ("create", "update", "patch", "delete", "deletecollection")
SIMULATED = {"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}
_PEOPLE = f"""
from accounts.models import User
from accounts.principal import Principal
from accounts.services.tokens import token_create
from projects.services.life import project_create
answer = []
for number in range({PROJECTS}):
    user = User.objects.create(username=f"storm{{number}}", email=f"storm{{number}}@example.org")
    who = Principal(user=user)
    made = project_create(principal=who, name=f"Storm {{number}}", slug=f"storm-{{number}}")
    answer.append([made.slug, token_create(who=who, name="storm")[1]])
"""


class Storm:
    """A portal on PostgreSQL and Redis; its projects are prepared, each by a first workspace."""

    count = LAUNCHES
    size: Mapping[str, Any] = {"cpu_milli": 100, "memory_mib": 256}

    def __init__(self, cluster: dict[str, Any], name: str = "bench-storm", **options: Any) -> None:
        self.cluster = cluster
        self.ours_only = f"berth.dev/instance={name},berth.dev/uid"
        self.kube = Kube(Path(cluster["kubeconfig"]), timeout_s=60)
        self.services = Services()
        given = self.services.start({})
        self.portal = ClusteredPortal(
            cluster,
            f"{name}-",
            {
                "BERTH_DATABASE_URL": given["BERTH_TEST_POSTGRES"],
                "BERTH_REDIS_URL": given["BERTH_TEST_REDIS"],
            },
            options=options,
        )
        self.people: list[tuple[str, httpx.Client]] = []
        self.first: list[str] = []
        self.preset = ""

    def prepare(self) -> None:
        self.portal.start()
        with self.portal.api(self.portal.token("admin")) as api:
            pool = {
                "name": "simulated",
                "node_labels": {"type": "kwok"},
                "tolerations": [SIMULATED],
            }
            ok(api.post(f"clusters/{KEY}/pools", json=pool))
        self.preset = self.portal.preset(name="Simulated", pool="simulated", **self.size)
        self.people = [(slug, self.portal.api(token)) for slug, token in self.portal.shell(_PEOPLE)]
        # homes and namespaces exist after this: a storm is about launches, not about first days
        self.first = self.launch(len(self.people))
        poll(lambda: self.running() == len(self.people), within_s=WITHIN_S, every_s=1)

    def launch(self, count: int) -> list[str]:
        def one(number: int) -> str:
            slug, api = self.people[number % len(self.people)]
            return str(
                ok(api.post(f"projects/{slug}/workspaces", json={"preset": self.preset})).json()[
                    "id"
                ]
            )

        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(one, range(count)))

    def running(self) -> int:
        import psycopg

        with psycopg.connect(self.portal.env["BERTH_DATABASE_URL"]) as database:
            found = database.execute(
                "SELECT count(*) FROM work_workload"
                " WHERE kind = 'workspace' AND phase = 'running' AND deleted_at IS NULL"
            ).fetchone()
        return int(found[0]) if found else 0

    def ours(self) -> float:
        begin = time.perf_counter()
        self.launch(LAUNCHES)
        wanted = LAUNCHES + len(self.first)
        poll(lambda: self.running() >= wanted, within_s=WITHIN_S, every_s=0.25)
        return time.perf_counter() - begin

    def cpu(self) -> Cpu:
        """Begin to count; of whatever uses this cluster, nothing else should at that time."""
        known = Processes(Layout.usual()).records.values()
        return Cpu(
            {
                "Berth": [self._portal()],
                "PostgreSQL and Redis": [one.pid for one in self.services.processes],
                "Kubernetes": [record.pid for record in known],
            }
        )

    def own_processes(self) -> list[int]:
        """The portal, its database and Redis, and this benchmark: each with what it started."""
        return [self._portal(), *(one.pid for one in self.services.processes), os.getpid()]

    def _portal(self) -> int:
        assert self.portal.process is not None
        return self.portal.process.pid

    def bare(self) -> float:
        """The same Secret and StatefulSet as often, at the same concurrency."""
        patterns, count = self._patterns(), self.count

        def one(number: int) -> None:
            for item in patterns[number % len(patterns)]:
                self.kube.apply(bare_copy(item, f"ws-bare-{number}"), manager="bare")

        begin = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(one, range(count)))
        poll(lambda: self._bare_ready() >= count, within_s=WITHIN_S, every_s=0.5)
        seconds = time.perf_counter() - begin
        self._bare_delete()
        return seconds

    def delete_pod(self, pod: dict[str, Any]) -> None:
        """At once: kwok 0.8, when it is late, ends the next pod of that name too, without end."""
        meta = pod["metadata"]
        self.kube.delete("v1", "Pod", meta["name"], meta["namespace"], gracePeriodSeconds="0")

    def _patterns(self) -> list[list[dict[str, Any]]]:
        names = {f"ws-{short_id}" for short_id in self.first}
        found: dict[str, list[dict[str, Any]]] = {}
        for version, kind in (("v1", "Secret"), ("apps/v1", "StatefulSet")):
            for item in self.kube.list(version, kind, labelSelector=self.ours_only):
                if item["metadata"]["name"] in names:
                    live = {"apiVersion": version, "kind": kind, **item}
                    found.setdefault(item["metadata"]["namespace"], []).append(live)
        return list(found.values())

    def _bare_ready(self) -> int:
        pods = self.kube.list("v1", "Pod", labelSelector="!berth.dev/managed")
        return sum(
            1
            for pod in pods
            if pod["metadata"]["name"].startswith("ws-bare-")
            and any(
                c["type"] == "Ready" and c["status"] == "True"
                for c in pod.get("status", {}).get("conditions", [])
            )
        )

    def _bare_delete(self) -> None:
        for version, kind in (("apps/v1", "StatefulSet"), ("v1", "Secret")):
            for item in self.kube.list(version, kind):
                meta = item["metadata"]
                if meta["name"].startswith("ws-bare-"):
                    self.kube.delete(version, kind, meta["name"], meta["namespace"])
        poll(lambda: self._bare_ready() == 0, within_s=WITHIN_S, every_s=1)

    def requests(self, since: float, verbs: tuple[str, ...] = WRITES) -> int:
        """Count Berth's requests of these kinds, from the API server's audit log.

        Samples of use are none of them: what measures can't be watched, only asked.
        """
        return sum(
            1
            for seen in audited(Path(self.cluster["audit_log"]))
            if seen.get("stage") == "ResponseComplete"
            and seen.get("userAgent", "").startswith("berth")
            and seen.get("verb") in verbs
            and (seen.get("objectRef") or {}).get("apiGroup") != "metrics.k8s.io"
            and _moment(seen["requestReceivedTimestamp"]) >= since
        )

    def close(self) -> None:
        for _, api in self.people:
            api.close()
        self.portal.close()
        self.kube.close()
        self.services.stop()


def audited(log: Path) -> Iterator[dict[str, Any]]:
    """All entries: a storm fills more than one file, and full ones are put aside by date."""
    for path in sorted(log.parent.glob(f"{log.stem}*{log.suffix}")):
        with path.open() as file:
            yield from map(json.loads, file)


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def run() -> list[Result]:
    cluster = the_cluster()
    storm = Storm(cluster)
    try:
        storm.prepare()
        bare = storm.bare()
        since, cpu = time.time(), storm.cpu()
        ours = storm.ours()
        spent = cpu.spent()
        writes = storm.requests(since) / LAUNCHES
        peer = kubespawner.storm(cluster, storm.kube, LAUNCHES)
    finally:
        storm.close()
    what = f"{LAUNCHES} launches of {PROJECTS} projects on simulated nodes"
    return [
        Result(
            f"{what}, launches/s",
            "launches/s",
            [LAUNCHES / ours],
            [LAUNCHES / bare],
            "bare client, same objects",
            0.8,
            0.5,
            "higher",
        ),
        Result(
            f"{what}, launches/s, against a hub",
            "launches/s",
            [LAUNCHES / ours],
            [LAUNCHES / peer],
            "JupyterHub 6, KubeSpawner",
            5,
            2,
            "higher",
        ),
        Result(f"{what}, API writes per launch", "writes", [writes], goal=6, floor=6),
        *(
            Result(f"{what}, CPU per launch, {side}", "ms", [1000 * seconds / LAUNCHES])
            for side, seconds in spent.items()
        ),
    ]
