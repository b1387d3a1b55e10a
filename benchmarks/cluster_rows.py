"""Many running workspaces at once, and whether the portal's rows say what a bare watch says.

Thousands of launches through the API would take longer than what is measured with them. So the
rows are copied in the database from workspaces that were launched, and their StatefulSets are
made by a bare client; from there all is as ever: pods come, and the engine follows each row.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import json
import secrets
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import psycopg

from benchmarks.cluster_storm import AT_ONCE, Storm
from devcluster.kube import Kube, KubeError

UID = "berth.dev/uid"
_OWN = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
_COPY = """
WITH made AS (
    INSERT INTO work_workload ({columns})
    SELECT {values} FROM work_workload WHERE uid = %(of)s RETURNING id
)
INSERT INTO notebooks_workspace (workload_ptr_id, {own_columns})
SELECT made.id, {own_columns} FROM made, notebooks_workspace
WHERE workload_ptr_id = (SELECT id FROM work_workload WHERE uid = %(of)s)
"""


@contextlib.contextmanager
def room(kube: Kube, count: int) -> Iterator[None]:
    """Simulated nodes that hold ``count`` pods; until then each holds 110, as kubelets do."""
    nodes = kube.list("v1", "Node", labelSelector="type=kwok")
    usual = {node["metadata"]["name"]: node["status"]["allocatable"]["pods"] for node in nodes}
    spare = 1.2  # the scheduler spreads by more than the number of pods
    each = max(int(spare * count / len(usual)), *(int(pods) for pods in usual.values()))
    try:
        for name in usual:
            _holds(kube, name, str(each))
        yield
    finally:
        for name, pods in usual.items():
            _holds(kube, name, pods)


def _holds(kube: Kube, node: str, pods: str) -> None:
    status = {"capacity": {"pods": pods}, "allocatable": {"pods": pods}}
    kube.patch(f"/api/v1/nodes/{node}/status", {"status": status})


def fill(storm: Storm, count: int) -> None:
    """Bring the portal's running workspaces to ``count``."""
    patterns = storm.kube.list("apps/v1", "StatefulSet", labelSelector=storm.ours_only)
    made = [_copied(patterns[n % len(patterns)]) for n in range(count - len(patterns))]
    _rows(storm, made)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda one: storm.kube.create(one[1]), made))


def _copied(live: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return (uid of the pattern, the StatefulSet of another row like it)."""
    item = {"apiVersion": "apps/v1", "kind": "StatefulSet", **copy.deepcopy(live)}
    item.pop("status", None)
    for name in _OWN:
        item["metadata"].pop(name, None)
    of, old = item["metadata"]["labels"][UID], item["metadata"]["name"]
    text = json.dumps(item).replace(of, str(uuid.uuid4()))
    return of, json.loads(text.replace(old, f"ws-b{secrets.token_hex(4)}c"))


def _rows(storm: Storm, made: list[tuple[str, dict[str, Any]]]) -> None:
    """As after a launch: its place is taken, its pod is to come, nothing is due."""
    ref = "jsonb_build_object('launch', launch, 'devices', '[]'::jsonb,"
    ref += " 'placed_at', extract(epoch FROM now()))"
    own = {
        "uid": "%(uid)s::uuid",
        "short_id": "%(short)s",
        "name": "%(short)s",
        "nonce": "''",
        "phase": "'starting'",
        "reason": "''",
        "external_ref": ref,
        "next_reconcile_at": "NULL",
    }
    with psycopg.connect(storm.portal.env["BERTH_DATABASE_URL"]) as database:
        columns = _columns(database, "work_workload", key="id")
        values = ", ".join(own.get(name, f'"{name}"') for name in columns)
        names = ", ".join(f'"{name}"' for name in columns)
        apart = _columns(database, "notebooks_workspace", key="workload_ptr_id")
        own_names = ", ".join(f'"{name}"' for name in apart)
        with database.cursor() as cursor:
            cursor.executemany(
                _COPY.format(columns=names, values=values, own_columns=own_names),
                [
                    {
                        "of": of,
                        "uid": item["metadata"]["labels"][UID],
                        "short": item["metadata"]["name"].removeprefix("ws-"),
                    }
                    for of, item in made
                ],
            )


@dataclass
class Truth:
    """What a bare client's list and watch say: each workload's pod, and when it was seen to go."""

    kube: Kube
    selector: str
    pods: dict[str, tuple[str, bool]] = field(default_factory=dict)  # uid → (pod's uid, ready)
    went: dict[str, float] = field(default_factory=dict)  # pod's uid → when that was seen
    over: threading.Event = field(default_factory=threading.Event)
    listed_at: float = 0.0  # when the last whole list was there

    def start(self) -> None:
        self.over.clear()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while not self.over.is_set():
            try:
                self._follow()
            except (httpx.HTTPError, KubeError):
                time.sleep(0.05)

    def _follow(self) -> None:
        selected = {"labelSelector": self.selector}
        found = self.kube.request("GET", "/api/v1/pods", params=selected)
        for pod in found["items"]:
            self._take(pod, gone=False)
        there = {_uid(pod) for pod in found["items"]}
        for uid in [uid for uid in self.pods if uid not in there]:
            del self.pods[uid]
        self.listed_at = time.time()
        version = found["metadata"]["resourceVersion"]
        for event in self.kube.watch("/api/v1/pods", version, timeout_s=600, **selected):
            if self.over.is_set():
                return
            if event["type"] in {"ADDED", "MODIFIED", "DELETED"}:
                self._take(event["object"], gone=event["type"] == "DELETED")

    def _take(self, pod: dict[str, Any], *, gone: bool) -> None:
        uid, own = _uid(pod), pod["metadata"]["uid"]
        going = gone or bool(pod["metadata"].get("deletionTimestamp"))
        if going:
            self.went.setdefault(own, time.time())
            if self.pods.get(uid, ("", False))[0] == own:
                self.pods[uid] = (own, False)
        else:
            self.pods[uid] = (own, _is_ready(pod))


def _columns(database: psycopg.Connection[Any], table: str, *, key: str) -> list[str]:
    found = database.execute(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_name = %s AND column_name <> %s",
        [table, key],
    )
    return [str(name) for (name,) in found]


class Rows:
    """What the portal says of each workload, read as it changes."""

    def __init__(self, storm: Storm) -> None:
        self._database = psycopg.connect(storm.portal.env["BERTH_DATABASE_URL"], autocommit=True)
        self._since: Any = None
        self.said: dict[str, tuple[str, str, str]] = {}  # uid → phase, reason, its pod's uid

    def read(self) -> None:
        found = self._database.execute(
            "SELECT uid::text, phase, reason, coalesce(external_ref->'pod'->>'uid', ''),"
            " updated_at FROM work_workload WHERE kind = 'workspace' AND deleted_at IS NULL"
            " AND (%(since)s::timestamptz IS NULL OR updated_at > %(since)s - interval '5 s')",
            {"since": self._since},
        ).fetchall()
        for uid, phase, reason, pod, at in found:
            self.said[uid] = (phase, reason, pod)
            self._since = max(at, self._since or at)

    def agrees(self, uid: str, truth: Truth) -> bool:
        phase, reason, known = self.said[uid]
        pod, ready = truth.pods.get(uid, ("", False))
        if not ready:
            return phase in {"pending", "starting"}
        return (phase, reason, known) == ("running", "", pod)

    def close(self) -> None:
        self._database.close()


def _uid(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"][UID])


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
