"""What serves on a cluster: what is asked for word for word, and what its pods are together."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime import training
from runtime.capabilities.workloads import Held
from runtime.drivers.kubernetes import names, observe_served, shapes
from runtime.drivers.kubernetes.builders import tenant_policies, workload
from runtime.drivers.kubernetes.builders.pod_fields import is_way
from runtime.drivers.kubernetes.cluster_cache import World
from runtime.drivers.kubernetes.driver import KubernetesDriver
from runtime.drivers.kubernetes.observe import Sight
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.pruning import small_pod, small_served
from runtime.drivers.kubernetes.shapes import inferenceservice as shape
from runtime.protocol import InvalidSpec, NotYet, Observation, Seen
from runtime.reasons import Reason
from runtime.spec import Probe, Resources, RetryPolicy, Serve, WorkloadSpec
from tests.drivers.kubernetes.goldens import check
from tests.drivers.kubernetes.pieces import LATER, NS, UID, ended, event, pod, runs, waits
from tests.drivers.kubernetes.stub import Stub
from tests.drivers.kubernetes.test_builders import spec as described

OPTIONS = KubernetesOptions(operators=(training.KSERVE,))
NAME = "ws-k7mn2p"
Object = dict[str, Any]


def endpoint(replicas: int = 2, **options: Any) -> WorkloadSpec:
    defaults: dict[str, Any] = {
        "kind": "endpoint",
        "command": ("serve", "--port={port}"),
        "serve": Serve(replicas),
        "probe": Probe("/v2/health/ready"),
        "resources": Resources(cpu_milli=1000, memory_mib=512),
        "mounts": (),
    }
    return described(**{**defaults, **options})


def service(replicas: int = 2, *, notes: Object | None = None, **meta: Any) -> Object:
    head = {"name": NAME, "namespace": NS, "uid": "isvc-1", "resourceVersion": "10"}
    labels = {names.UID: UID, names.KIND: "endpoint", names.MANAGED: "true"}
    told = {names.LAUNCH: "1", observe_served.STOP: "false", **(notes or {})}
    return {
        "kind": names.SERVED,
        "metadata": {**head, "labels": labels, "annotations": told, **meta},
        "spec": {"predictor": {"minReplicas": replicas, "containers": [{"name": names.KSERVE}]}},
    }


def replica(number: int, *, main: Object | None = None, **more: Any) -> Object:
    meta = {
        "name": f"{NAME}-predictor-abc-{number}",
        "uid": f"pod-{number}",
        "labels": {names.UID: UID, names.WORKLOAD: NAME},
        "creationTimestamp": f"2026-11-21T06:00:0{number}Z",
        **more.pop("metadata", {}),
    }
    made = pod(main=main, metadata=meta, **more)
    made["spec"]["containers"][0]["name"] = names.KSERVE
    for status in made["status"]["containerStatuses"]:
        status["name"] = names.KSERVE
    if made["status"]["podIP"]:
        made["status"]["podIP"] = f"10.244.0.{number}"
    return made


def seen(owner: Object, *pods: Object) -> Observation:
    """Both as the API server shows them and as the watch keeps them: they tell the same."""
    its = [Sight(owner, one) for one in shape.pods(owner, pods)]
    found = shape.observe(its)
    kept = small_served(owner)
    small = [Sight(kept, one) for one in shape.pods(kept, [small_pod(one) for one in pods])]
    assert shape.observe(small) == found
    return found


# --- what is asked for ----------------------------------------------------------------------------


def test_an_endpoint() -> None:
    given = endpoint(queue="team-a", priority="serving")
    assert shapes.of_spec(given) is shape
    check("endpoint", *workload.secrets(given, OPTIONS, {}), *shape.build(given, OPTIONS))


def test_c5_what_is_sealed_writes_to_its_own_folder_only() -> None:
    made = shape.build(endpoint(sealed=True, retry=RetryPolicy(never=(65, 66))), OPTIONS)[-1]
    assert made["metadata"]["annotations"][names.FINAL] == "65,66"
    predictor = made["spec"]["predictor"]
    (container,) = predictor["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert {"emptyDir": {}, "name": "tmp"} in predictor["volumes"]
    written = [m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")]
    assert written == ["/tmp"]


def test_without_kserve_or_a_replica_it_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="KServe"):
        shape.build(endpoint(), KubernetesOptions())
    with pytest.raises(InvalidSpec, match="one replica"):
        shape.build(endpoint(0), OPTIONS)


def test_only_who_carries_requests_reaches_it_and_at_its_ports_only() -> None:
    options = replace(OPTIONS, proxy_peers=("10.1.0.0/16", "berth/gate"))
    way, made = shape.build(endpoint(port=8000, ports=(8002,)), options)
    assert shape.beside(made) == [("networking.k8s.io/v1", "networkpolicies", NAME)]
    network = tenant_policies.Network()
    policies = tenant_policies.build(NS, {}, options, network)
    (proxy,) = (one for one in policies if one["metadata"]["name"] == tenant_policies.PROXY)
    assert is_way(way, proxy)
    assert [one["port"] for one in way["spec"]["ingress"][0]["ports"]] == [8000, 8002]
    assert not is_way(way, None)
    for change in (
        {"podSelector": {}},
        {"egress": [{}]},
        {"ingress": [{**way["spec"]["ingress"][0], "from": [{"podSelector": {}}]}]},
        {"ingress": [*way["spec"]["ingress"], {}]},
        {"ingress": [{"from": way["spec"]["ingress"][0]["from"]}]},
    ):
        assert not is_way({**way, "spec": {**way["spec"], **change}}, proxy)


# --- what is there --------------------------------------------------------------------------------


def test_each_that_answers_tells_its_address_and_one_is_enough() -> None:
    found = seen(service(3), replica(1, main=runs()), replica(2, main=runs(), ready=True))
    assert (found.seen, found.address) == (Seen.READY, "10.244.0.2:8888")
    assert [(one.seen, one.address, one.pod) for one in found.replicas] == [
        (Seen.STARTING, "", f"{NAME}-predictor-abc-1"),
        (Seen.READY, "10.244.0.2:8888", f"{NAME}-predictor-abc-2"),
        (Seen.CREATED, "", ""),
    ]


def test_one_that_goes_is_no_replica_any_more() -> None:
    goes = {"deletionTimestamp": LATER, "deletionGracePeriodSeconds": 1}
    two = (replica(1, main=runs(), ready=True), replica(2, main=runs(), ready=True, metadata=goes))
    found = seen(service(1), *two)
    assert [one.address for one in found.replicas] == ["10.244.0.1:8888"]


def test_asleep_it_is_as_it_should_be_and_stopped_it_has_ended() -> None:
    asleep = {observe_served.STOP: "true"}
    found = seen(service(2, notes=asleep), replica(1, main=runs(), ready=True))
    assert (found.seen, found.address, found.replicas) == (Seen.READY, "", ())
    end = {names.ENDED: json.dumps({"launch": 1, "code": 7, "reason": "", "at": 5.0})}
    found = seen(service(2, notes=asleep | end))
    assert (found.seen, found.exit_code, found.ended_at) == (Seen.EXITED, 7, 5.0)
    assert seen(service(notes=asleep | end), replica(1, main=runs())).seen == Seen.STOPPING
    older = seen(service(notes=end | {names.LAUNCH: "2"}))
    assert (older.seen, older.launch) == (Seen.CREATED, 2)  # the end was another launch's


def dies(code: int, times: int, **more: Any) -> Object:
    """Its program ended so often, and waits for its next start."""
    over = ended(code, again=False, **more)["state"]
    return {**waits("CrashLoopBackOff"), "lastState": over, "restartCount": times}


def fails(
    main: Object, *, quiet: str = "2026-11-21T05:00:01Z", probe: bool = True, number: int = 1
) -> Object:
    """A pod that its node took up at five, and that is not ready since ``quiet``."""
    says = {"type": "Ready", "status": "False", "lastTransitionTime": quiet}
    made = replica(number, main=main, conditions=[says], startTime="2026-11-21T05:00:00Z")
    made["spec"]["containers"][0]["startupProbe"] = {"httpGet": {}} if probe else None
    return made


def test_what_ends_again_and_again_and_never_answered_has_ended() -> None:
    once = seen(service(1), fails(dies(3, 1)))
    assert (once.seen, once.reason, once.message) == (
        Seen.STARTING,
        Reason.TRIED_AGAIN,
        "exit code 3",
    )
    often = seen(service(1), fails(dies(3, 2)))
    assert (often.seen, often.exit_code) == (Seen.EXITED, 3)
    slowly = dies(137, 2, reason="OOMKilled", finishedAt="2026-11-21T06:01:30Z")
    memory = seen(service(1), fails(slowly))  # after 90 seconds of loading
    assert (memory.seen, memory.reason) == (Seen.EXITED, Reason.OOM)
    beside = seen(service(2), fails(dies(3, 9)), replica(2, main=runs(), ready=True))
    assert beside.seen == Seen.READY
    assert [one.restarts for one in beside.replicas] == [9, 0]


def test_what_says_that_it_is_no_use_has_ended_at_once() -> None:
    notes = {names.FINAL: "65,66"}
    found = seen(service(1, notes=notes), fails(dies(65, 1)))
    assert (found.seen, found.exit_code) == (Seen.EXITED, 65)
    assert seen(service(1, notes=notes), fails(dies(64, 1))).seen == Seen.STARTING
    one_of_two = (fails(dies(65, 1)), replica(2, main=runs()))
    assert seen(service(2, notes=notes), *one_of_two).seen == Seen.STARTING


def test_one_that_answered_is_begun_again_however_often_that_was() -> None:
    """Its node says since when it does not; the last run was from 06:00:00 to 06:00:09."""
    crashed = fails(dies(3, 9), quiet="2026-11-21T06:00:09Z")
    assert seen(service(1), crashed).seen == Seen.STARTING
    since = fails(dies(3, 10), quiet="2026-11-21T05:59:00Z")
    assert seen(service(1), since).seen == Seen.STARTING
    for_long = fails(dies(3, 14), quiet="2026-11-21T05:49:59Z")
    assert seen(service(1), for_long).seen == Seen.EXITED


def test_one_without_a_probe_is_judged_by_how_long_it_ran() -> None:
    ready = {"quiet": "2026-11-21T06:00:09Z", "probe": False}
    assert seen(service(1), fails(dies(3, 2), **ready)).seen == Seen.EXITED
    hours = dies(3, 9, startedAt="2026-11-21T01:00:00Z")
    assert seen(service(1), fails(hours, **ready)).seen == Seen.STARTING


# --- how it is told to -----------------------------------------------------------------------------
COLLECTION = "/apis/serving.kserve.io/v1beta1/inferenceservices"


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[Stub]:
    made = Stub(tmp_path)
    yield made
    made.stop()


def served(stub: Stub) -> tuple[KubernetesDriver, WorkloadSpec]:
    """Two replicas on an API server, and nobody who makes pods of them."""
    driver, spec = stub.driver(operators=(training.KSERVE,)), endpoint(2, namespace="ns")
    driver.ensure(spec)
    return driver, spec


def told(stub: Stub) -> Object:
    ((_key, found),) = [one for one in stub.objects.items() if one[0][0] == COLLECTION]
    return found


def test_a_number_that_comes_after_a_stop_starts_nothing(stub: Stub) -> None:
    driver, spec = served(stub)
    found = driver._work.find(spec.uid)  # whoever scales has read it
    assert found is not None
    with pytest.raises(NotYet):
        driver.stop(spec.uid, grace_s=1.0)
    with pytest.raises(NotYet, match="modified"):
        shape.scale(driver._work._hands, found, 3)
    assert told(stub)["metadata"]["annotations"][observe_served.STOP] == "true"


def test_a_stop_is_said_again_when_somebody_let_it_run(stub: Stub) -> None:
    driver, spec = served(stub)
    with pytest.raises(NotYet):
        driver.stop(spec.uid, grace_s=1.0)
    notes = told(stub)["metadata"]["annotations"]
    before = notes[names.ENDED]
    notes[observe_served.STOP] = "false"
    with pytest.raises(NotYet):
        driver.stop(spec.uid, grace_s=1.0)
    notes = told(stub)["metadata"]["annotations"]
    assert (notes[observe_served.STOP], notes[names.ENDED]) == ("true", before)


def test_c14_kserve_that_does_not_take_it_down_is_named(stub: Stub) -> None:
    driver, spec = served(stub)
    pod_of_it = replica(1, main=runs(), ready=True)
    pod_of_it["metadata"] |= {"namespace": "ns", "labels": told(stub)["metadata"]["labels"]}
    stub.put("/api/v1/pods", pod_of_it)
    with pytest.raises(NotYet) as first:
        driver.stop(spec.uid, grace_s=1.0)
    assert not isinstance(first.value, Held)
    notes = told(stub)["metadata"]["annotations"]
    notes[names.ENDED] = json.dumps({"launch": 1, "at": time.time() - 21, "reason": "stopped"})
    with pytest.raises(Held, match=r"older than 0\.16"):
        driver.stop(spec.uid, grace_s=1.0)
    stub.drop("/api/v1/pods", "ns", pod_of_it["metadata"]["name"])
    told(stub)["status"] = {"conditions": [{"type": "Stopped", "status": "True"}]}
    driver.stop(spec.uid, grace_s=1.0)


# --- what the watch knows -------------------------------------------------------------------------
def test_the_watch_knows_of_each_pod_why_it_waits_in_line() -> None:
    world = World()
    gated = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
    world.put(names.SERVED, service(2))
    world.put("Pod", replica(1, main=runs(), ready=True))
    world.put("Pod", replica(2, node=None, phase="Pending", conditions=gated))
    quota = {"type": "QuotaReserved", "status": "False", "reason": "ExceedsMaxQuota"}
    world.put(
        "Workload",
        {
            "metadata": {
                "name": "pod-x",
                "namespace": NS,
                "resourceVersion": "20",
                "ownerReferences": [{"kind": "Pod", "name": f"{NAME}-predictor-abc-2"}],
            },
            "status": {"conditions": [{**quota, "message": "too much"}]},
        },
    )
    (found,) = world.take()
    assert [one.reason for one in found.replicas] == ["", Reason.DOES_NOT_FIT]
    assert found.seen == Seen.READY


def test_why_no_pod_could_be_made_is_told_by_its_replica_set() -> None:
    world = World()
    world.put(names.SERVED, service(1))
    said = event("FailedCreate", "pods is forbidden: exceeded quota: gpus", kind="ReplicaSet")
    said["involvedObject"]["name"] = f"{NAME}-predictor-abc"
    world.put("Event", said)
    (found,) = world.take()
    assert (found.seen, found.reason) == (Seen.CREATED, Reason.QUOTA_DENIED)
    assert found.replicas[0].reason == Reason.QUOTA_DENIED
