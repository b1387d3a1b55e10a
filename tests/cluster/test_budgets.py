"""The whole portal with the real Kueue: GPU-hours that are spent while work runs, or waits."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from devcluster.kube import Kube
from tests.cluster.conftest import KUEUE, managing_queues
from tests.cluster.visitors import people, until
from tests.jobs.running import Jobs
from tests.support.clustered import KEY, ClusteredPortal, ok

pytestmark = [pytest.mark.cluster, pytest.mark.real, pytest.mark.timeout(900)]
WITHIN_S = 120.0  # a look every 30 s, and what follows
_PROMISE = """
from clusters.models import Cluster
from django.db import transaction
from projects.models import Project
from queues.hooks import tree_changed
from queues.models import Guarantee, Queue
cluster = Cluster.objects.get(key={key!r})
with transaction.atomic():
    project = Project.objects.get(slug={slug!r})
    queue = Queue.objects.create(project=project, name={slug!r})
    kind = cluster.nodes.get(name="node1").flavor
    Guarantee.objects.create(queue=queue, cluster=cluster, flavor=kind, guaranteed=2)
    tree_changed()
answer = True
"""


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any], kube: Kube) -> Iterator[ClusteredPortal]:
    with managing_queues(devcluster, kube, "bu") as running:
        people(running)
        yield running


def classes(kube: Kube, portal: ClusteredPortal) -> dict[str, tuple[str, bool]]:
    """Return of what class the Workload of each job is, and whether it may be let in."""
    found = {}
    for item in kube.list(KUEUE, "Workload"):
        owners = item["metadata"].get("ownerReferences") or [{}]
        if item["metadata"]["namespace"].startswith(portal.prefix):
            name = (item["spec"].get("priorityClassRef") or {}).get("name", "")
            own = name.removeprefix(portal.prefix)
            found[owners[0]["name"].removeprefix("ws-")] = (own, item["spec"].get("active", True))
    return found


@pytest.mark.long(
    "drivers/kubernetes/test_hours_spent.py has the same on the real Kueue, without a portal"
)
def test_whose_hours_are_spent_while_it_runs_gives_back_first_and_what_waits_is_held(
    portal: ClusteredPortal, devcluster: dict[str, Any], kube: Kube, api: httpx.Client
) -> None:
    other = f"other-{secrets.token_hex(3)}"
    ok(api.post("projects", json={"name": "Other", "slug": other}))
    tool = devcluster["images"]["tool"]["reference"]
    size = {"cpu_milli": 100, "memory_mib": 64, "gpus": 1, "cluster_key": KEY, "image": tool}
    anns, bens = (Jobs(portal, owner=name, **size) for name in ("ann", "ben"))
    theirs = Jobs(portal, owner="admin", project=other, **size)
    portal.shell(_PROMISE.format(key=KEY, slug=other))
    a, b = [], []
    for jobs, made in ((anns, a), (bens, b)):  # hers are there first: his would be asked
        made += [jobs.make(f"{jobs.owner}{n}", command=["sleep", "3600"]) for n in range(2)]
        for one in made:
            jobs.until(one, "running")
    assert {classes(kube, portal)[one] for one in [*a, *b]} == {("train", True)}
    asked = {"project": "demo", "user": "ann", "hours": "0", "days": 30, "mode": "soft"}
    budget = ok(api.post("budgets", json=asked)).json()["id"]
    until(lambda: {classes(kube, portal)[one] for one in a} == {("over-budget", True)}, WITHIN_S)
    assert {classes(kube, portal)[one] for one in b} == {("train", True)}
    assert {anns.look(one)["state"] for one in a} == {"running"}  # by that alone nothing ends
    t = [theirs.make(f"t{n}", command=["sleep", "3600"]) for n in range(2)]
    for one in t:
        theirs.until(one, "running")
    assert {bens.look(one)["state"] for one in b} == {"running"}
    until(lambda: not {"running"} & {anns.look(one)["state"] for one in a}, WITHIN_S)
    # what waits in Kueue is held back by a hard one, and takes what is free by none
    ok(api.patch(f"budgets/{budget}", json={"mode": "hard"}))
    until(lambda: not any(classes(kube, portal)[one][1] for one in a), WITHIN_S)
    until(lambda: {anns.look(one)["reason"] for one in a} == {"budget"}, WITHIN_S)
    for one in t:
        theirs.stop(one)
    later = bens.make("later", command=["sleep", "3600"])
    bens.until(later, "running")
    assert "running" not in {anns.look(one)["state"] for one in a}
    ok(api.delete(f"budgets/{budget}"))
    until(lambda: "running" in {anns.look(one)["state"] for one in a}, WITHIN_S)
    assert {classes(kube, portal)[one] for one in a} == {("train", True)}
