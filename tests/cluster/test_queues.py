"""The whole portal with the real Kueue: guarantees kept on a real node, queues put back."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from benchmarks.lib import poll
from devcluster.kube import Kube
from tests.cluster.conftest import KUEUE, managing_queues
from tests.cluster.test_jobs import poll_log
from tests.cluster.visitors import until
from tests.jobs.running import Jobs
from tests.support.clustered import KEY, ClusteredPortal, ok

pytestmark = [pytest.mark.cluster, pytest.mark.real, pytest.mark.timeout(900)]
WITHIN_S = 120.0

_PROMISE = """
from clusters.models import Cluster
from django.db import transaction
from projects.models import Project
from queues.hooks import tree_changed
from queues.models import Guarantee, Queue
cluster = Cluster.objects.get(key={key!r})
with transaction.atomic():
    for node in cluster.nodes.exclude(offers={{}}).filter(name="node1"):
        for slug, count in {promised!r}.items():
            project = Project.objects.get(slug=slug)
            queue = Queue.objects.create(project=project, name=slug)
            Guarantee.objects.create(
                queue=queue, cluster=cluster, flavor=node.flavor, guaranteed=count
            )
    tree_changed()
answer = True
"""
_ROW = """
from queues.models import ClusterQueues
row = ClusterQueues.objects.get(cluster_key={key!r}, deleted_at=None)
answer = [row.phase, row.message, row.generation == row.observed_generation,
          len(row.external_ref.get("projects", ()))]
"""


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any], kube: Kube) -> Iterator[ClusteredPortal]:
    with managing_queues(devcluster, kube, "qu") as running:
        yield running


@pytest.fixture(scope="module")
def other(portal: ClusteredPortal, api: httpx.Client) -> str:
    slug = f"other-{secrets.token_hex(3)}"
    ok(api.post("projects", json={"name": "Other", "slug": slug}))
    portal.shell(_PROMISE.format(key=KEY, promised={"demo": 1, slug: 3}))
    return slug


# Told to end it writes why as a checkpoint, and half of another; it says what it begins with.
_KEEPS = """
told() {
  cd "$BERTH_CHECKPOINTS" && mkdir .new half.tmp && cp "$BERTH_NOTICE_FILE" .new/notice
  mv .new "at-$(date +%s)"; exit 3
}
trap told TERM
echo "begins with $(cat "$BERTH_CHECKPOINT_LATEST/notice" 2>&1)"
sleep 3600 & wait
"""


def test_a7_g13_guarantees_are_kept_and_who_gave_back_goes_on_from_its_checkpoint(
    portal: ClusteredPortal, devcluster: dict[str, Any], other: str, api: httpx.Client
) -> None:
    tool = devcluster["images"]["tool"]["reference"]
    size = {"cpu_milli": 500, "memory_mib": 128, "gpus": 1, "cluster_key": KEY, "image": tool}
    mine, theirs = (Jobs(portal, owner="admin", project=slug, **size) for slug in ("demo", other))
    said = {"command": ["bash", "-c", _KEEPS], "checkpoints": "shared/runs", "cluster": KEY}
    said |= {"image": tool, "cpu_milli": 500, "memory_mib": 256, "gpus": 1}
    made = [ok(api.post("projects/demo/jobs", json={**said, "name": f"a{n}"})) for n in range(4)]
    a = [one.json()["id"] for one in made]
    for one in a:
        mine.until(one, "running")
    b = [theirs.make(f"b{n}", command=["sleep", "15"]) for n in range(2)]
    for one in b:
        theirs.until(one, "running")

    def running() -> int:
        return [mine.look(one)["state"] for one in a].count("running")

    poll(lambda: running() == 2, within_s=WITHIN_S, every_s=0.3)
    for one in b:
        theirs.until(one, "succeeded")
    began = []
    for one in a:
        found = mine.until(one, "running")
        assert found["exit_code"] is None
        began.append(poll_log(mine, found))  # a pod runs before its program speaks
    assert sum("No such file" in log for log in began) == 2, began
    assert sum('begins with {"why": "ending", "until": "20' in log for log in began) == 2, began
    phase, message, seen, projects = portal.shell(_ROW.format(key=KEY))
    assert (phase, message, seen) == ("running", "", True)
    assert projects >= 2
    for one in a:
        mine.stop(one)
    for one in a:
        mine.until(one, "cancelled")


_COUNTS = 'trap "exit 3" TERM; echo "one of $WORLD_SIZE"; sleep 3600 & wait'


def test_g13_after_a_preemption_one_goes_on_with_fewer_and_one_waits_for_a_person(
    portal: ClusteredPortal, devcluster: dict[str, Any], other: str, api: httpx.Client
) -> None:
    """Four GPUs: one is guaranteed to who has all, three to who asks for them then."""
    size = {"image": devcluster["images"]["tool"]["reference"], "cpu_milli": 100}
    size |= {"memory_mib": 256, "gpus": 1}
    own: dict[str, Any] = {"owner": "admin", "cluster_key": KEY, **size}
    said = {**size, "cluster": KEY, "command": ["bash", "-c", _COUNTS], "replicas": 2}
    mine, theirs = Jobs(portal, **own), Jobs(portal, project=other, **own)
    fewer, waits = (
        ok(api.post("projects/demo/jobs", json={**said, "name": word, "after_loss": word}))
        .json()["id"]
        for word in ("fewer", "wait")
    )  # fmt: skip
    for one in (fewer, waits):
        mine.until(one, "running", within_s=WITHIN_S)
    owed = theirs.make("owed", command=["sleep", "3600"], replicas=3)
    theirs.until(owed, "running", within_s=WITHIN_S)

    def place(one: str) -> tuple[Any, ...]:
        row = mine.look(one)
        return row["state"], len(row["replicas"])

    def says(one: str) -> str:
        return mine.logs(mine.look(one), 1)[0]

    poll(lambda: place(fewer) == ("running", 1), within_s=WITHIN_S, every_s=0.3)
    poll(lambda: says(fewer).endswith("one of 1\n"), within_s=WITHIN_S, every_s=0.3)
    latest = ok(api.get(f"projects/demo/jobs/{fewer}/runs")).json()["results"][0]
    assert [one["replicas"] for one in latest["places"]] == [2, 1]
    poll(lambda: mine.look(waits)["state"] == "failed", within_s=WITHIN_S, every_s=0.3)
    found = mine.look(waits)
    assert (found["reason"], found["exit_code"]) == ("place-lost", None)
    theirs.stop(owed)
    poll(lambda: theirs.look(owed)["state"] == "cancelled", within_s=WITHIN_S, every_s=0.3)
    assert mine.look(waits)["state"] == "failed"  # there is room, and nobody has pressed
    ok(api.post(f"projects/demo/jobs/{waits}/start"))
    found = mine.until(waits, "running", within_s=WITHIN_S)
    assert len(found["replicas"]) == 2
    assert place(fewer) == ("running", 1)
    goodput = ok(api.get(f"projects/demo/jobs/{fewer}/goodput")).json()
    assert {part["launch"]: part["gpus"] for part in goodput["parts"]} == {1: 2, 2: 1}


def test_what_hands_took_away_is_back_within_a_minute_and_told(
    portal: ClusteredPortal, kube: Kube, api: httpx.Client, other: str
) -> None:
    def space() -> str:
        (place,) = api.get(f"projects/{other}/places").json()
        return str(place["namespace"])

    where = space()
    kube.delete(KUEUE, "LocalQueue", "default", where)
    kube.patch(f"/apis/{KUEUE}/clusterqueues/{where}", {"spec": {"stopPolicy": "HoldAndDrain"}})

    def is_back() -> bool:
        found = kube.get(KUEUE, "ClusterQueue", where)
        local = kube.get(KUEUE, "LocalQueue", "default", where)
        return bool(local and found and found["spec"]["stopPolicy"] == "None")

    until(is_back, 60.0)
    told = (
        "from events.models import Event\n"
        f"answer = Event.objects.filter(verb='queues.restored', message__contains={where!r}).exists()"
    )
    until(lambda: portal.shell(told), 60.0)  # written down after it was put back


def test_the_self_check_sees_the_queues_and_wants_the_policy_of_the_chart(
    kube: Kube, api: httpx.Client
) -> None:
    def told(words: str) -> bool:
        found = {check["name"]: check for check in api.get(f"clusters/{KEY}/checks").json()}
        return words in json.dumps(found.get("queue", ""), ensure_ascii=False)

    ok(api.post(f"clusters/{KEY}/checks"))
    until(lambda: told("scaled past Kueue"), WITHIN_S)
    # what matters is its name: that it works is seen by tests/drivers/kubernetes
    scale = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "resources": ["statefulsets/scale"],
        "operations": ["UPDATE"],
    }
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "berth-statefulset-scale"},
        "spec": {
            "matchConstraints": {"resourceRules": [scale]},
            "validations": [{"expression": "true"}],
        },
    }
    kube.apply(policy)
    try:
        ok(api.post(f"clusters/{KEY}/checks"))
        until(lambda: told("holds all work of projects"), WITHIN_S)
    finally:
        kube.delete(policy["apiVersion"], policy["kind"], "berth-statefulset-scale")
