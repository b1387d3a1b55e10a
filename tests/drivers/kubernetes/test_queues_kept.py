"""Queues that Berth writes, with the real Kueue: the story of A6 and A7, and what hands undo."""

import time
from dataclasses import replace
from typing import Any

import pytest
import yaml

from devcluster.kube import KubeError
from runtime.capabilities.queues import QueueKind, QueueShare
from runtime.drivers.kubernetes.builders import queues
from runtime.protocol import Denied, InvalidSpec, Seen
from runtime.reasons import Reason
from runtime.spec import Placement, PodGroup, Resources
from tests.deploy import chart
from tests.drivers.kubernetes.harness import wait_for
from tests.drivers.kubernetes.town import API, EIGHT, FLEET, GPU, MODEL, Town

pytestmark = pytest.mark.cluster

RIGHTS = "deploy/helm/rights.yaml"


def test_over_quota_gives_back_what_is_guaranteed_to_others(town: Town) -> None:
    """A6 and A7: eight GPUs, three projects with two guaranteed each."""
    assert town.ground.driver.ensure_queues(town.tree) == ()  # as it should be, at once
    a = [town.submit("a") for _n in range(8)]
    town.until(a, 8)
    b = [town.submit("b") for _n in range(2)]
    town.until(b, 2)
    assert len(town.until(a, 6)) == 6
    evicted = next(spec for n, spec in enumerate(a) if n not in town.running(a))
    told = {(Seen.STARTING, Reason.PREEMPTED), (Seen.CREATED, Reason.QUEUED)}

    def is_told() -> bool:
        found = town.ground.seen(evicted.uid)
        return (found.seen, found.reason) in told

    wait_for(is_told, seconds=60, every=0.2)
    c = [town.submit("c") for _n in range(2)]
    town.until(c, 2)
    town.until(a, 4)
    assert town.running(b) == [0, 1]  # within its guarantee nobody is ever asked
    town.end([*b, *c])
    town.until(a, 8)  # and all go on by themselves


def test_a_gang_starts_whole_or_not_at_all(town: Town) -> None:
    """C13: two that fit halfway do not hold each other up."""
    size = {"resources": Resources(1000, 512, gpus=2), "groups": (PodGroup("main", 3),)}
    gangs = [town.submit(name, **size) for name in "ab"]
    first = town.until(gangs, 1)[0]
    pods = town.ground.kube.list("v1", "Pod")
    other = gangs[1 - first]
    mine = [
        p for p in pods if (p["metadata"].get("labels") or {}).get("berth.dev/uid") == other.uid
    ]
    assert mine == []
    town.end([gangs[first]])
    town.until([other], 1)


def test_what_hands_changed_is_put_back_and_what_others_made_is_left(town: Town) -> None:
    kube, driver, space = town.ground.kube, town.ground.driver, town.space("a")
    kube.delete(API, "LocalQueue", "default", space)
    kube.delete(API, "ClusterQueue", space)
    found = kube.get(API, "Cohort", town.root)
    found["spec"]["resourceGroups"][0]["flavors"][1]["resources"][0]["nominalQuota"] = "7"
    kube.request("PUT", f"/apis/{API}/cohorts/{town.root}", json=found)
    wait_for(lambda: kube.get(API, "ClusterQueue", space) is None, seconds=30, every=0.2)
    restored = {f"LocalQueue/{space}/default", f"ClusterQueue/{space}", f"Cohort/{town.root}"}
    assert set(driver.ensure_queues(town.tree)) == restored
    assert driver.ensure_queues(town.tree) == ()
    # a field that ours leave out is taken away again
    check = {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "theirs"}]}}}
    kube.patch(f"/apis/{API}/clusterqueues/{space}", check)
    assert driver.ensure_queues(town.tree) == (f"ClusterQueue/{space}",)
    assert driver.ensure_queues(town.tree) == ()
    theirs = f"{town.root}-x-theirs"
    meta = {"name": theirs}
    kube.apply({"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": meta, "value": 5})
    try:
        more = replace(town.tree, priorities={**town.tree.priorities, "x-theirs": 9})
        with pytest.raises(InvalidSpec):
            driver.ensure_queues(more)
        assert kube.get(API, "WorkloadPriorityClass", theirs)["value"] == 5
    finally:
        kube.delete(API, "WorkloadPriorityClass", theirs)


def test_a_new_value_of_a_priority_counts_for_what_is_there(town: Town) -> None:
    job = town.submit("a")
    notebook = town.submit("a", once=False, kind="workspace", priority=f"{town.root}-build")
    town.until([job, notebook], 2)
    assert town.workload(job)["spec"]["priority"] == 100
    assert town.workload(notebook)["spec"]["priority"] == 1000
    changed = replace(town.tree, priorities={"train": 70, "build": 2000})
    town.ground.driver.ensure_queues(changed)
    assert town.workload(job)["spec"]["priority"] == 70
    assert town.workload(notebook)["spec"]["priority"] == 2000
    # started anew with another one: Kueue itself keeps what a StatefulSet said first
    town.ground.stopped(notebook.uid)
    again = replace(notebook, launch=2, priority=f"{town.root}-train")
    town.ground.driver.ensure(again)
    town.until([again], 1)
    assert town.workload(again)["spec"]["priority"] == 70


def test_without_devices_it_stays_off_what_is_guaranteed(town: Town) -> None:
    plain = town.submit("a", resources=Resources(1000, 64), placement=Placement())
    found = wait_for(
        lambda: (town.workload(plain).get("status") or {}).get("admission"), seconds=30, every=0.2
    )
    assert set(found["podSetAssignments"][0]["flavors"].values()) == {f"{town.root}-plain"}


def test_a_guarantee_beyond_what_exists_lets_in_no_more_than_that(town: Town) -> None:
    parts = tuple(
        replace(part, shares={"a2": QueueShare(20)} if part.namespace else {})
        for part in town.tree.parts
    )
    town.ground.driver.ensure_queues(replace(town.tree, parts=parts))
    jobs = [town.submit(name) for name in "aaabbbccc"]
    town.until(jobs, 8)
    assert len(town.running(jobs)) == 8


def test_what_is_taken_away_under_load_ends_nothing_and_lets_nothing_more_in(town: Town) -> None:
    a = [town.submit("a") for _n in range(8)]
    town.until(a, 8)
    less = replace(EIGHT, devices=4, beside={"cpu": 32_000, "memory": 32_768})
    moved = tuple(replace(p, parent="") if p.name == "a" else p for p in town.tree.parts)
    town.ground.driver.ensure_queues(replace(town.tree, kinds=(less,), parts=moved))
    more = town.submit("a")
    time.sleep(3)
    assert len(town.running([*a, more])) == 8
    town.end(a[:5])
    town.until([*a[5:], more], 4)
    # back below its organisation, with all there was
    town.ground.driver.ensure_queues(town.tree)
    town.until([*a[5:], more, *(town.submit("a") for _n in range(4))], 8)


def test_what_is_its_own_is_taken_before_it_borrows_of_a_kind_it_likes_more(town: Town) -> None:
    t4 = {"nvidia.com/gpu.product": "Tesla-T4"}
    kinds = (EIGHT, QueueKind("t4", GPU, t4, 4, beside={"cpu": 64_000, "memory": 65_536}))
    parts = tuple(
        replace(part, shares={"t4": QueueShare(2)} if part.namespace else {})
        for part in town.tree.parts
    )
    tree = replace(town.tree, kinds=kinds, parts=parts)
    town.ground.driver.ensure_queues(tree)
    assert town.ground.driver.ensure_queues(tree) == ()
    any_of = replace(FLEET, any_of=(MODEL, t4))
    jobs = [town.submit("a", placement=any_of) for _n in range(2)]
    town.until(jobs, 2)
    found = [
        set(town.workload(job)["status"]["admission"]["podSetAssignments"][0]["flavors"].values())
        for job in jobs
    ]
    assert found == [{f"{town.root}-t4"}] * 2


def test_a_cluster_without_kueue_is_told_so(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(queues, "VERSION", "kueue.x-k8s.io/v0")
        with pytest.raises(Denied) as refusal:
            town.ground.driver.ensure_queues(town.tree)
    assert refusal.value.reason == Reason.NO_QUEUE


def test_while_kueue_does_not_answer_nothing_gets_past_it(town: Town) -> None:
    kube, kept = town.ground.kube, {}
    for word in ("mutating", "validating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{word}webhookconfigurations"
        path += f"/kueue-{word}-webhook-configuration"
        kept[path] = kube.request("GET", path)["webhooks"]

    def point(path: str, hooks: list[dict[str, Any]]) -> None:
        kube.patch(path, {"webhooks": hooks})

    def is_refused() -> bool:
        try:
            town.ground.driver.ensure_queues(town.tree)
        except Denied as refusal:
            return "webhook of the cluster does not answer" in str(refusal)
        return False

    try:
        for path, hooks in kept.items():
            nobody = {"url": "https://127.0.0.1:1/"}
            point(path, [{**h, "clientConfig": {**h["clientConfig"], **nobody}} for h in hooks])
        wait_for(is_refused, seconds=30, every=1)
        with pytest.raises(Denied):
            town.submit("a")
    finally:
        for path, hooks in kept.items():
            point(path, hooks)
    wait_for(lambda: not is_refused(), seconds=30, every=1)
    town.until([town.submit("a")], 1)


def test_what_stands_in_a_queue_is_not_scaled_past_it(town: Town) -> None:
    """By the policy of the chart: Kueue's webhook does not see that way."""
    kube, space = town.ground.kube, town.space("a")
    meta = {"name": space, "labels": {"berth.dev/instance": town.root}}
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta}, manager="marks")
    told = {
        "cluster.options.manages_queues": "true",
        "cluster.namespacePrefix": f"{town.root}-",
    }
    try:
        chart.helm()
    except Exception as error:  # noqa: BLE001 - whatever keeps it from being built
        pytest.skip(f"helm can't be built here: {error}")
    words = ["template", town.root, chart.CHART, "-n", "berth", "-f", chart.ROOT / RIGHTS]
    words += [word for key, value in told.items() for word in ("--set", f"{key}={value}")]
    words += ["--kube-version", "1.36.0", "--show-only", "templates/admission.yaml"]
    done = chart.run_helm(None, *words)
    assert done.returncode == 0, done.stderr
    shown = [one for one in yaml.safe_load_all(done.stdout) if one]
    made = [one for one in shown if one["metadata"]["name"].endswith("statefulset-scale")]
    assert len(made) == 2
    notebook = town.submit("a", once=False, kind="workspace", priority=f"{town.root}-build")
    town.until([notebook], 1)
    path = f"/apis/apps/v1/namespaces/{space}/statefulsets/ws-{notebook.name}/scale"

    def refusal(replicas: int) -> str:
        try:
            kube.patch(path, {"spec": {"replicas": replicas}})
        except KubeError as error:
            return error.message
        return ""

    for one in made:
        kube.apply(one)
    try:
        # it counts a moment after it was made: until then nothing is really scaled
        wait_for(lambda: not _dry(kube, path, {"dryRun": "All"}), seconds=30, every=0.5)
        assert "stopped or started" in refusal(2)
        assert refusal(0) == ""
        # as the engine does: it starts again once nothing of it is left, Kueue loses what is faster
        town.ground.stopped(notebook.uid)
        assert refusal(1) == ""
        town.until([notebook], 1)
    finally:
        for one in made:
            kube.delete(one["apiVersion"], one["kind"], one["metadata"]["name"])


def _dry(kube: Any, path: str, params: dict[str, str]) -> bool:
    """Whether it would be scaled to two."""
    try:
        kube.request(
            "PATCH",
            path,
            params=params,
            content='{"spec": {"replicas": 2}}',
            headers={"content-type": "application/merge-patch+json"},
        )
    except KubeError:
        return False
    return True
