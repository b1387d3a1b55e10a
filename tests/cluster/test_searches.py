"""Searches on a cluster whose values Katib chooses: its own controller, and pods that Kueue lets in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from benchmarks.lib import poll
from clusters.registry import REVISION_EVERY_S
from devcluster import katib
from devcluster.kube import Kube
from tests.cluster.conftest import KUEUE, managing_queues
from tests.support.cluster_state import lacking
from tests.support.clustered import KEY, ClusteredPortal

pytestmark = [pytest.mark.cluster, pytest.mark.real, pytest.mark.timeout(300)]

KATIB = "kubeflow.org/v1beta1"
LEFT = ("Experiment", "Suggestion", "Trial")
MANAGER = "/apis/apps/v1/namespaces/kubeflow/deployments/katib-db-manager"
PROGRAM = """
import sys
x = float(sys.argv[1])
for step in range(1, 4):
    print(f"score={-(x - 3) ** 2 - 1 / step}", flush=True)
"""
_KNOWS = f"""
from clusters.models import Cluster
answer = "katib" in Cluster.objects.get(key={KEY!r}).operators
"""


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any], kube: Kube) -> Iterator[ClusteredPortal]:
    if not kube.get("apps/v1", "Deployment", "katib-controller", "kubeflow"):
        lacking("Katib (python -m devcluster katib)", is_built=katib.has())
    poll(lambda: katib.ready(kube), within_s=60, every_s=0.5)
    with managing_queues(devcluster, kube, "se") as running:
        poll(lambda: running.shell(_KNOWS), within_s=60, every_s=0.5)
        time.sleep(REVISION_EVERY_S)  # its processes learn of it within this time
        yield running


@pytest.fixture(scope="module")
def api(portal: ClusteredPortal) -> Iterator[Any]:
    with portal.api(portal.token("admin")) as client:
        yield client


@pytest.fixture
def begin(api: Any, devcluster: dict[str, Any]) -> Callable[..., str]:
    def make(name: str, program: str = PROGRAM, **said: Any) -> str:
        own, here = said.pop("job", {}), HERE.replace("demo", said.pop("project", "demo"))
        job = {
            "image": devcluster["images"]["tool"]["reference"],
            "command": ["python3", "-c", program, "${trialParameters.x}"],
            "cpu_milli": 100,
            "memory_mib": 256,
            **own,
        }
        parameters = [{"name": "x", "type": "double", "min": -10, "max": 10}]
        least = {"name": name, "metric": "score", "parameters": parameters, "job": job}
        made = api.post(here, json={**least, "trials_max": 8, "parallel": 2, "seed": 1, **said})
        assert made.status_code == 202, made.text
        return f"{here}/{made.json()['id']}"

    return make


HERE = "projects/demo/experiments"


def until(api: Any, one: str, enough: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def look() -> bool:
        found.update(api.get(one).json())
        return bool(enough(found))

    poll(look, within_s=150, every_s=0.5)
    return found


def is_over(found: dict[str, Any]) -> bool:
    return found["state"] not in {"running", "stopping"}


def its(kube: Kube, kind: str, found: dict[str, Any]) -> list[dict[str, Any]]:
    label = f"berth.dev/experiment={found['id']}"
    return list(kube.list(KATIB, kind, labelSelector=label))


def _is_gone(kube: Kube, found: dict[str, Any]) -> bool:
    return not any(its(kube, kind, found) for kind in LEFT)


@pytest.mark.parametrize(
    "count",
    [2, pytest.param(8, marks=pytest.mark.long("two of them go through the same doors"))],
)
def test_trials_of_katib_two_at_a_time_and_the_best_becomes_a_job(
    api: Any, begin: Callable[..., str], kube: Kube, count: int
) -> None:
    one, together = begin(f"{count} two at a time", trials_max=count), 0

    def look(found: dict[str, Any]) -> bool:
        nonlocal together
        together = max(together, sum(t["state"] == "running" for t in found["trials"]))
        return is_over(found)

    begun = api.get(one).json()
    assert begun["engine"] == "katib"
    poll(lambda: bool(its(kube, "Trial", begun)), within_s=60, every_s=0.3)
    standing = [trial["spec"]["runSpec"]["spec"] for trial in its(kube, "Trial", begun)]
    assert all(job["suspend"] for job in standing)  # what Katib makes itself holds nothing
    found = until(api, one, look)
    assert (found["state"], found["reason"]) == ("succeeded", "max-trials"), found
    assert [t["state"] for t in found["trials"]] == ["succeeded"] * count
    assert together == 2
    for trial in found["trials"]:
        assert trial["value"] == pytest.approx(-((trial["parameters"]["x"] - 3) ** 2) - 1 / 3)
    job = api.get(f"projects/demo/jobs/{found['trials'][0]['job']}").json()
    (owner,) = kube.list("batch/v1", "Job", labelSelector=f"berth.dev/uid={job['uid']}")
    admitted = [
        w
        for w in kube.list(KUEUE, "Workload", owner["metadata"]["namespace"])
        if w["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    ]
    assert admitted[0]["status"]["admission"]["clusterQueue"]
    best = max(found["trials"], key=lambda trial: trial["value"])
    assert found["best"]["number"] == best["number"]
    made = api.post(f"{one}/promote", json={}).json()
    kept = api.get(f"projects/demo/jobs/{made['id']}").json()
    assert kept["spec"]["command"][-1] == str(best["parameters"]["x"])
    poll(lambda: _is_gone(kube, found), within_s=60, every_s=0.5)


def test_trials_of_two_replicas_are_gangs_and_rank_0_is_heard(
    api: Any, begin: Callable[..., str], kube: Kube
) -> None:
    program = """
import os, sys
print(f"score={float(sys.argv[1]) + 1000 * int(os.environ['WORLD_SIZE']) + 9e6 * int(os.environ['RANK'])}")
"""
    job = {"framework": "pytorch", "replicas": 2}
    one = begin("gangs", program, trials_max=2, job=job)
    found = until(api, one, is_over)
    assert (found["state"], found["engine"]) == ("succeeded", "katib"), found
    for trial in found["trials"]:
        assert trial["value"] == pytest.approx(trial["parameters"]["x"] + 2000)
        kept = api.get(f"projects/demo/jobs/{trial['job']}").json()
        assert [replica["exit_code"] for replica in kept["replicas"]] == [0, 0], kept


_LOST = """
from experiments.models import Experiment, Trial
from runtime import orphans
from runtime.models import Installation
orphans.GRACE_S = 0
Trial.objects.filter(experiment__uid={uid!r}).delete()
Experiment.objects.filter(uid={uid!r}).delete()
answer = [orphans.collect_orphans() for _pass in range(6)]
"""


def test_e11_nothing_stays_at_katib_of_a_lost_search_and_of_a_deleted_project(
    portal: ClusteredPortal, api: Any, begin: Callable[..., str], kube: Kube
) -> None:
    begun = api.get(begin("lost", f"{PROGRAM}\nimport time; time.sleep(600)", trials_max=2)).json()
    made = api.post("projects", json={"name": "Gone", "slug": "gone"})
    assert made.status_code == 201, made.text
    of_project = begin("goes", trials_max=2, project="gone")
    goes = api.get(of_project).json()
    poll(lambda: all(its(kube, "Trial", one) for one in (begun, goes)), within_s=60, every_s=0.3)
    assert api.delete("projects/gone?confirm=gone").status_code in {202, 204}
    portal.shell(_LOST.format(uid=begun["id"]))
    for one in (begun, goes):
        poll(partial(_is_gone, kube, one), within_s=60, every_s=0.3)
    where = f"{portal.prefix}searches"
    poll(lambda: not kube.list("batch/v1", "Job", where), within_s=60, every_s=0.3)


@pytest.mark.long("waits that are said; scripted in experiments/test_katib.py")
def test_its_database_is_away_one_trial_is_stopped_then_all_and_nothing_is_lost(
    api: Any, begin: Callable[..., str], kube: Kube
) -> None:
    kube.patch(MANAGER, {"spec": {"replicas": 0}})
    try:
        slow = begin("stopped", f"{PROGRAM}\nimport time; time.sleep(600)")
        until(api, slow, lambda f: sum(t["value"] is not None for t in f["trials"]) == 2)
        assert api.post(f"{slow}/trials/1/stop", json={}).status_code == 202
        found = until(api, slow, lambda f: len(f["trials"]) == 3)
        assert [t["state"] for t in found["trials"]] == ["stopped", "running", "running"]
        assert api.post(f"{slow}/stop", json={}).status_code == 202
        found = until(api, slow, is_over)
        assert {t["state"] for t in found["trials"]} == {"stopped"}
        assert found["trials"][1]["value"] is not None
        until(api, slow, lambda f: "database" in f["message"])
    finally:
        kube.patch(MANAGER, {"spec": {"replicas": 1}})
    found = until(api, slow, lambda f: not f["message"])
    assert _is_gone(kube, found)
