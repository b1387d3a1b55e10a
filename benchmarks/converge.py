"""What the worker itself needs when a watch begins anew over 10,000 workloads, 100 of them changed.

The two long lists are parsed, taken in, judged, numbered, compared with PostgreSQL and the changed
rows marked, as after an outage; what an API server needs to send the lists is not in it, nor the
steps of the changed rows. All rows were told when the watch gave up that nothing answers, and that
is taken back. ``cluster-outage`` measures the whole with fewer rows.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import uuid
from typing import Any

from benchmarks.lib import Result, sized
from tools.provision_tests import Services

ROWS, CHANGED, NODES, ROUNDS, PAGE = sized((10_000, 100, 33, 5, 500), (200, 10, 3, 1, 50))
_AT = "2026-11-21T06:00:00Z"
Object = dict[str, Any]


def setup(database: str) -> None:
    os.environ["BERTH_VAR"] = tempfile.mkdtemp(prefix="berth-converge-")
    os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings.test"
    os.environ["BERTH_TEST_DATABASE_URL"] = database
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", run_syncdb=True, verbosity=0)


def fill(uids: list[str]) -> None:
    from accounts.models import User
    from notebooks.models import Workspace
    from projects.models import Project
    from tests.support.workloads import insert
    from volumes.models import Volume

    user = User.objects.create(username="u", email="u@example.org")
    project = Project.objects.create(slug="p", name="P")
    home = Volume.objects.create(project=project, owner=user, name="Home")
    insert(
        Workspace(
            uid=uid,
            project=project,
            owner=user,
            home=home,
            name=f"w{number}",
            cluster_key="dev",
            phase="running",
            launch=1,
            observed_generation=1,
            external_ref={"launch": 1, "pod": {"launch": 1, "uid": f"0-{uid}", "times": 0}},
        )
        for number, uid in enumerate(uids)
    )


def meta(number: int, uid: str, name: str, version: int) -> Object:
    from runtime.drivers.kubernetes import names

    return {
        "name": name,
        "namespace": f"ns{number % 100}",
        "uid": f"{version}-{uid}",
        "resourceVersion": str(10 + version),
        "generation": 1,
        "annotations": {names.LAUNCH: "1"},
        "labels": names.labels("berth-", "", uid=uid, kind="workspace"),
    }


def statefulset(number: int, uid: str) -> Object:
    container = {"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {
        "metadata": meta(number, uid, f"ws-{number}", 0),
        "spec": {"replicas": 1, "template": {"spec": {"containers": [container]}}},
        "status": {"observedGeneration": 1},
    }


def pod(number: int, uid: str, version: int) -> Object:
    words = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    main = {"name": "main", "image": "i:1", "imageID": "i@sha256:1", "containerID": "c"}
    probe = {"httpGet": {"path": "/api", "port": 8888}}
    container = {"name": "main", "ports": [{"containerPort": 8888}], "startupProbe": probe}
    return {
        "metadata": meta(number, uid, f"ws-{number}-0", version),
        "spec": {"nodeName": f"n{number % NODES}", "containers": [container]},
        "status": {
            "phase": "Running",
            "podIP": "10.250.0.9",
            "conditions": [
                {"type": word, "status": "True", "lastTransitionTime": _AT} for word in words
            ],
            "containerStatuses": [{**main, "state": {"running": {"startedAt": _AT}}}],
        },
    }


def node(number: int) -> Object:
    room = {"cpu": "64", "memory": "256Gi", "pods": "500"}
    return {
        "metadata": {"name": f"n{number}", "resourceVersion": "3", "labels": {}},
        "spec": {},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def turn(sets: list[bytes], pods: list[bytes]) -> int:
    """Begin a watch anew; return how many rows are woken."""
    from runtime import observe
    from runtime.drivers.kubernetes import cluster_cache
    from runtime.drivers.kubernetes.pace import Versions

    seen, versions = cluster_cache.World(), Versions()
    nodes = [json.dumps({"items": [node(number) for number in range(NODES)]}).encode()]
    listed(seen, cluster_cache.NODES, "nodes", nodes)
    listed(seen, cluster_cache.SETS, "statefulsets", sets)
    listed(seen, cluster_cache.PODS, "pods", pods)
    batch = [versions.stamp(found) for found in seen.everything()]
    return len(set(observe.store("dev", batch, full=True)))


def listed(seen: Any, kind: str, plural: str, pages: list[bytes]) -> None:
    """Take in a list, as the watch does."""
    from runtime.drivers.kubernetes.answers import page_of
    from runtime.drivers.kubernetes.names import key_of

    keys = set()
    for body in pages:
        for obj in page_of(body, plural)["items"]:
            keys.add(key_of(obj))
            seen.put(kind, obj)
    seen.keep(kind, keys)


def paged(objects: list[Object]) -> list[bytes]:
    """Return the bodies of a list in pages."""
    starts = range(0, len(objects), PAGE)
    return [json.dumps({"items": objects[n : n + PAGE]}).encode() for n in starts]


def stepped(uids: list[str]) -> None:
    """Leave the changed rows as their steps do: they follow the second pod, and run."""
    from notebooks.models import Workspace

    for uid in uids:
        ref = {"launch": 1, "pod": {"launch": 1, "uid": f"1-{uid}", "times": 1}}
        Workspace.objects.filter(uid=uid).update(external_ref=ref, reason="")


def measure() -> tuple[list[float], list[float]]:
    """CPU seconds of each new beginning, and of each telling of the silence before it."""
    from notebooks.models import Workspace
    from runtime import reachability

    uids = [str(uuid.uuid4()) for _ in range(ROWS)]
    fill(uids)
    sets = paged([statefulset(number, uid) for number, uid in enumerate(uids)])
    version = [0] * ROWS
    seconds: list[float] = []
    tellings: list[float] = []
    for round_ in range(ROUNDS + 1):
        pods = paged([pod(n, uid, version[n]) for n, uid in enumerate(uids)])
        begin = time.process_time()
        woken = turn(sets, pods)
        if round_:  # the first one fills the table
            seconds.append(time.process_time() - begin)
            if woken != CHANGED:
                message = f"{woken} rows were woken, {CHANGED} changed"
                raise RuntimeError(message)
            stepped(uids[(round_ - 1) * CHANGED : round_ * CHANGED])
        for number in range(round_ * CHANGED, (round_ + 1) * CHANGED):
            version[number] += 1
        begin = time.process_time()
        reachability.tell_silence("dev", "The cluster does not answer.")
        tellings.append(time.process_time() - begin)
        told = Workspace.objects.filter(reason="unreachable").count()
        if told < ROWS - CHANGED:
            message = f"{told} rows were told of the silence"
            raise RuntimeError(message)
    return seconds, tellings


def run() -> list[Result]:
    services = Services()
    try:
        setup(services.start({})["BERTH_TEST_POSTGRES"])
        seconds, tellings = measure()
        from django.db import connections

        connections.close_all()
    finally:
        services.stop()
    return [
        Result(
            f"a watch begins anew over {ROWS:,} workloads, {CHANGED} changed: the worker's part",
            "CPU s",
            seconds,
            goal=5,
            floor=10,
        ),
        Result(f"{ROWS:,} rows that run are told that their cluster is silent", "CPU s", tellings),
    ]
