"""The whole portal with the real Kueue: what somebody who waits is told, and Kueue that is away."""

from __future__ import annotations

import json
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from devcluster.kube import Kube
from tests.cluster.conftest import KUEUE, managing_queues
from tests.cluster.visitors import until
from tests.jobs.running import Jobs
from tests.support.clustered import KEY, ClusteredPortal, ok

pytestmark = [pytest.mark.cluster, pytest.mark.real, pytest.mark.timeout(900)]
WITHIN_S = 180.0
HOLDS = ["bash", "-c", "trap 'sleep 12; exit 3' TERM; sleep 3600 & wait"]  # takes its time to end
_KIND = """
from clusters.models import Node
found = Node.objects.filter(cluster__key={key!r}, name="node1", flavor__isnull=False).first()
answer = found and found.flavor.name
"""
_GUARANTEE = """
from clusters.models import Cluster
from django.db import transaction
from projects.models import Project
from queues.hooks import tree_changed
from queues.models import Guarantee, Queue
cluster = Cluster.objects.get(key={key!r})
node = cluster.nodes.get(name="node1")
with transaction.atomic():
    project = Project.objects.get(slug={slug!r})
    queue, _made = Queue.objects.get_or_create(project=project, defaults={{"name": {slug!r}}})
    Guarantee.objects.update_or_create(
        queue=queue, cluster=cluster, flavor=node.flavor,
        defaults={{"guaranteed": {count}, "most": {most!r}}},
    )
    tree_changed()
answer = True
"""


_STOP_ALL = """
from jobs.models import Job
from runtime.hints import hint
for row in Job.objects.filter(desired="running"):
    row.desired, row.generation = "stopped", row.generation + 1
    row.save()
    hint(row)
answer = True
"""
_LEFT = """
from jobs.models import Job
answer = Job.objects.filter(deleted_at=None).exclude(phase__in=["stopped", "failed"]).count()
"""


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any], kube: Kube) -> Iterator[ClusteredPortal]:
    with managing_queues(devcluster, kube, "wt") as running:
        yield running


@pytest.fixture(autouse=True)
def _nothing_is_left(portal: ClusteredPortal) -> Iterator[None]:
    yield
    portal.shell(_STOP_ALL)
    until(lambda: not portal.shell(_LEFT), WITHIN_S)


@pytest.fixture(scope="module")
def jobs(portal: ClusteredPortal, devcluster: dict[str, Any]) -> Any:
    tool = devcluster["images"]["tool"]["reference"]
    size = {"cpu_milli": 100, "memory_mib": 64, "cluster_key": KEY, "image": tool}
    return lambda project: Jobs(portal, owner="admin", project=project, gpus=1, **size)


def a_project(api: httpx.Client, word: str) -> str:
    slug = f"{word}-{secrets.token_hex(3)}"
    ok(api.post("projects", json={"name": word.title(), "slug": slug}))
    return slug


def the_wait(api: httpx.Client, slug: str, short_id: str) -> dict[str, Any]:
    return dict(ok(api.get(f"projects/{slug}/jobs/{short_id}")).json()["wait"] or {})


def told(
    api: httpx.Client,
    slug: str,
    short_id: str,
    is_it: Callable[[dict[str, Any]], bool],
    within_s: float = WITHIN_S,
) -> dict[str, Any]:
    """Return what is said of its wait once that is so; the last that was said where it never is."""
    deadline, found = time.monotonic() + within_s, dict[str, Any]()
    while time.monotonic() < deadline:
        found = ok(api.get(f"projects/{slug}/jobs/{short_id}")).json()
        if found["wait"] and is_it(found["wait"]):
            return dict(found["wait"])
        time.sleep(0.3)
    raise AssertionError((found["status"], found["wait"]))


@pytest.mark.long(
    "minutes; words and places: queues/test_kueue.py, drivers/kubernetes/test_queued.py"
)
def test_f13_who_waits_is_told_place_and_why_and_one_press_starts_something_else(
    portal: ClusteredPortal, api: httpx.Client, jobs: Any
) -> None:
    kind = until(lambda: portal.shell(_KIND.format(key=KEY)), WITHIN_S)
    mine = jobs("demo")
    holders = [mine.make(f"h{n}", command=HOLDS) for n in range(3)]
    for one in holders:
        mine.until(one, "running")
    large = mine.make("large", command=["sleep", "3"], gpus=3)
    first = told(api, "demo", large, lambda w: w["position"] == 1 and "GPU" in w["sentence"])
    time.sleep(1.1)  # Kueue goes by whole seconds
    second = mine.make("second", command=["sleep", "3"], gpus=2)
    after = told(api, "demo", second, lambda w: w["position"] == 2 and "GPU" in w["sentence"])
    assert first["sentence"] == (
        f"What it asks for is in use, or kept for others: 2 GPUs ({kind}) must get free."
    ), first
    assert after["when"]
    assert [one["said"] for one in after["changes"]] == [{"gpus": 1}], after
    # what its queue holds back was made there, and is another one by the press
    ok(api.patch(f"projects/demo/jobs/{second}", json=after["changes"][0]["said"]))
    assert mine.until(second, "succeeded", within_s=WITHIN_S)["exit_code"] == 0
    never = mine.make("never", command=["sleep", "3"], gpus=9)
    told(api, "demo", never, lambda w: "may hold 4 of it there at most" in w["sentence"])


@pytest.mark.long(
    "minutes; words and places: queues/test_kueue.py, drivers/kubernetes/test_queued.py"
)
def test_who_is_owed_is_told_that_others_end_for_it(
    portal: ClusteredPortal, api: httpx.Client, jobs: Any
) -> None:
    owed = a_project(api, "owed")
    portal.shell(_GUARANTEE.format(key=KEY, slug=owed, count=2, most=None))
    mine, theirs = jobs("demo"), jobs(owed)
    holders = [mine.make(f"g{n}", command=HOLDS) for n in range(4)]
    for one in holders:
        mine.until(one, "running")
    wants = theirs.make("wants", command=["sleep", "3"])
    said = told(api, owed, wants, lambda w: "told to end" in w["sentence"])
    assert said["sentence"] == (
        "1 that holds what it needs was told to end for it: it starts as soon as that is gone."
    )
    theirs.until(wants, "succeeded")


@pytest.mark.long("one change: drivers/kubernetes/test_queues_kept.py")
def test_a_tree_that_changes_under_load_ends_nothing_and_gives_no_more_than_it_says(
    portal: ClusteredPortal, kube: Kube, api: httpx.Client, jobs: Any
) -> None:
    """Its organisation is made, moved below and renamed; its ceiling lowered below what it holds."""
    slug = a_project(api, "moved")
    mine = jobs(slug)
    holders = [mine.make(f"m{n}", command=HOLDS) for n in range(2)]
    for one in holders:
        mine.until(one, "running")

    def spec() -> dict[str, Any]:
        (place,) = api.get(f"projects/{slug}/places").json()
        found = kube.get(KUEUE, "ClusterQueue", place["namespace"])
        return dict(found["spec"]) if found else {}

    before = spec()["cohortName"]
    move = (
        "from projects.models import Project\n"
        "from queues.hooks import tree_changed\n"
        "from queues.models import Queue\n"
        f"org, _made = Queue.objects.get_or_create(name={'Org'!r}, project=None)\n"
        f"own, _made = Queue.objects.get_or_create(\n"
        f"    project=Project.objects.get(slug={slug!r}), defaults={{'name': {slug!r}}})\n"
        "own.parent = org\nown.save()\ntree_changed()\nanswer = str(org.uid)"
    )
    uid = portal.shell(move)
    until(lambda: spec()["cohortName"] not in {before, ""}, 60)
    below = spec()["cohortName"]
    assert uid in below
    rename = (
        "from queues.hooks import tree_changed\nfrom queues.models import Queue\n"
        f"answer = Queue.objects.filter(uid={uid!r}).update(name='Renamed')\ntree_changed()"
    )
    portal.shell(rename)
    portal.shell(_GUARANTEE.format(key=KEY, slug=slug, count=1, most=1))
    until(lambda: "1" in json.dumps(spec()["resourceGroups"]) and _ceiling(spec()) == "0", 60)
    waits = mine.make("waits", command=["sleep", "3"])
    told(api, slug, waits, lambda w: w["position"] == 1)
    assert spec()["cohortName"] == below  # a new name moves nothing
    assert {mine.look(one)["state"] for one in holders} == {"running"}
    mine.stop(holders[0])
    mine.until(holders[0], "cancelled")
    told(api, slug, waits, lambda w: w["position"] == 1)  # it still holds all that it may
    assert mine.look(waits)["state"] not in {"running", "succeeded"}
    mine.stop(holders[1])
    mine.until(waits, "succeeded")


def _ceiling(spec: dict[str, Any]) -> str:
    """Return how many GPUs it may borrow of the kind that has a ceiling."""
    for flavor in spec["resourceGroups"][0]["flavors"]:
        for has in flavor["resources"]:
            if has["name"] == "nvidia.com/gpu" and "borrowingLimit" in has:
                return str(has["borrowingLimit"])
    return ""


def test_a_project_that_is_deleted_while_its_work_waits_leaves_nothing(
    portal: ClusteredPortal, kube: Kube, api: httpx.Client, jobs: Any
) -> None:
    slug = a_project(api, "gone")
    mine = jobs(slug)
    waits = mine.make("waits", command=["sleep", "3"], gpus=9)
    told(api, slug, waits, lambda w: "at most" in w["sentence"])
    (place,) = api.get(f"projects/{slug}/places").json()
    where = place["namespace"]
    assert kube.get(KUEUE, "ClusterQueue", where)
    ok(api.post(f"projects/{slug}/archive", json={"confirm_stop": True}))
    mine.until(waits, "cancelled", "failed")
    ok(api.delete(f"projects/{slug}", params={"confirm": slug}))

    def all_gone() -> bool:
        left = kube.get("v1", "Namespace", where), kube.get(KUEUE, "ClusterQueue", where)
        return left == (None, None)

    until(all_gone, WITHIN_S)


@contextmanager
def away(state: dict[str, Any]) -> Iterator[None]:
    """Kueue stands still: its process answers nobody."""
    running = json.loads((Path(state["kubeconfig"]).parent / "processes.json").read_text())
    pid = int(running["kueue"]["pid"])
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.long(
    "minutes; words and places: queues/test_kueue.py, drivers/kubernetes/test_queued.py"
)
def test_while_kueue_is_away_nothing_gets_past_it_nothing_is_lost_and_it_goes_on_by_itself(
    portal: ClusteredPortal, devcluster: dict[str, Any], api: httpx.Client, jobs: Any
) -> None:
    mine = jobs("demo")
    runs = mine.make("runs", command=HOLDS)
    mine.until(runs, "running")
    waits = mine.make("waits", command=["sleep", "3"], gpus=4)
    told(api, "demo", waits, lambda w: w["position"] == 1)

    def row() -> list[str]:
        code = (
            "from queues.models import ClusterQueues\n"
            f"row = ClusterQueues.objects.get(cluster_key={KEY!r}, deleted_at=None)\n"
            "answer = [row.phase, row.message]"
        )
        return list(portal.shell(code))

    with away(devcluster):
        until(lambda: row()[0] == "pending", WITHIN_S)
        said = row()[1]
        assert "webhook of the cluster does not answer" in said
        late = mine.make("late", command=["sleep", "3"])

        def refused() -> bool:
            found = mine.look(late)
            return (found["reason"], found["message"]) == ("no-queue", said)

        until(refused, WITHIN_S)
        assert the_wait(api, "demo", waits).get("position") is None  # said as unknown
        assert mine.look(runs)["state"] == "running"
        ok(api.post(f"clusters/{KEY}/checks"))

        def checked() -> bool:
            found = {one["name"]: one for one in api.get(f"clusters/{KEY}/checks").json()}
            return "not as they should be" in json.dumps(found.get("queue", ""))

        until(checked, WITHIN_S)
    mine.until(late, "succeeded")
    until(lambda: row()[0] == "running", WITHIN_S)
    mine.stop(runs)
    mine.until(waits, "succeeded")
