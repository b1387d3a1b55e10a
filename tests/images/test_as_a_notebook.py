"""Whether jupyterhub is in an image: what a node says of it, for how long that counts."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from clusters.models import Cluster, Pool
from clusters.services import nodes_store
from common.clock import now
from images.models import ImageFacts
from projects.models import ProjectNamespace
from runtime.capabilities.clusters import NodeChanges
from runtime.drivers.kubernetes.oneshot import PROBE
from runtime.protocol import Phase
from tests.clusters.fleet import node
from tests.drivers.kubernetes.stub import Stub
from tests.images.conftest import Registry

pytestmark = pytest.mark.django_db

PODS, JOBS = "/api/v1/pods", "/apis/batch/v1/jobs"
ABSENT = 'exec: "jupyterhub-singleuser": executable file not found in $PATH: unknown'
TROUBLE = "failed to create shim task: open /run/containerd/log.json: no such file or directory"


@pytest.fixture
def stub(tmp_path: Path, project: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """The project has its place on a cluster."""
    made = Stub(tmp_path)
    driver = made.driver()
    monkeypatch.setattr("images.lookup.driver_for", lambda _key: driver)
    Cluster.objects.create(key="gpu", name="GPU", driver="kubernetes")
    ProjectNamespace.objects.create(
        project=project, cluster_key="gpu", namespace="ns", phase=Phase.RUNNING
    )
    yield made
    driver.close()
    made.stop()


@pytest.fixture
def check(stub: Stub, registry: Registry, bob: Any, as_user: Any) -> Callable[[], dict[str, Any]]:
    del stub
    registry.image("1", User="1000", Cmd=["x"])
    body = json.dumps({"image": f"{registry.host}/a/b:1", "cluster": "gpu"})
    client = as_user(bob)

    def ask() -> dict[str, Any]:
        answer = client.post("/api/v1/projects/vision/images/check", body, "application/json")
        assert answer.status_code == 200, answer.content
        found: dict[str, Any] = answer.json()
        return found

    return ask


def say(stub: Stub, text: str) -> None:
    """What became of the pod of the Job that asks the image."""
    name = next(key for where, key in stub.objects if where == JOBS).partition("/")[2]
    meta = {"name": f"{name}-x", "namespace": "ns", "labels": {PROBE: name}}
    ended = {"exitCode": 128, "reason": "StartError", "message": text}
    status = {"containerStatuses": [{"state": {"terminated": ended}}]}
    stub.put(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status})


def is_asked(stub: Stub) -> bool:
    return any(where == JOBS for where, _key in stub.objects)


def test_c16_its_program_runs_on_no_node_that_is_reserved_for_another_project(
    stub: Stub, check: Any
) -> None:
    cluster, labels = Cluster.objects.get(key="gpu"), {"berth.dev/pool": "fabric"}
    Pool.objects.create(cluster=cluster, name="f", node_labels=labels, project_uids=[str(uuid4())])
    assert check()["probing"]
    (job,) = (found for (where, _key), found in stub.objects.items() if where == JOBS)
    affinity = job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    kept_off = {"key": "berth.dev/pool", "operator": "NotIn", "values": ["fabric"]}
    assert term == {"matchExpressions": [kept_off]}


def test_c9_its_program_runs_on_a_machine_that_the_image_is_made_for(
    stub: Stub, check: Any
) -> None:
    seen = tuple(node(kind, labels={"kubernetes.io/arch": kind}) for kind in ("amd64", "arm64"))
    nodes_store(cluster_key="gpu", changes=NodeChanges(seen=seen, full=True))
    assert check()["probing"]
    (job,) = (found for (where, _key), found in stub.objects.items() if where == JOBS)
    affinity = job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    machines = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
    assert term == {"matchExpressions": [machines]}


def test_trouble_of_a_node_does_not_brand_an_image(stub: Stub, check: Any) -> None:
    assert check()["probing"]
    say(stub, TROUBLE)
    found = check()
    assert (found["verdict"], found["problem"], found["probing"]) == ("good", "", False)
    assert "log.json" in found["warnings"][0]
    assert not ImageFacts.objects.exclude(singleuser="").exists()


def test_what_is_not_in_an_image_is_asked_again_the_next_day(stub: Stub, check: Any) -> None:
    check()
    say(stub, ABSENT)
    for _ in range(2):
        found = check()
        assert (found["verdict"], found["problem"]) == ("bad", "no-singleuser")
        assert not is_asked(stub)
    stub.drop(PODS, "ns", next(k for c, k in stub.objects if c == PODS).partition("/")[2])
    ImageFacts.objects.update(singleuser_at=now() - dt.timedelta(hours=25))
    found = check()
    assert (found["verdict"], found["probing"]) == ("good", True)
    assert is_asked(stub)
    say(stub, ABSENT)
    assert check()["problem"] == "no-singleuser"
    assert ImageFacts.objects.get().singleuser_at > now() - dt.timedelta(hours=1)
