"""Sizes of volumes: what is asked of the cluster, and whose word counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.capabilities.volumes import Measured
from runtime.drivers.kubernetes import measuring
from runtime.drivers.kubernetes.driver import KubernetesDriver
from runtime.drivers.kubernetes.measuring import parsed
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import DriverError, NotYet
from runtime.spec import Backing, Placement
from tests.drivers.kubernetes.goldens import check
from tests.drivers.kubernetes.stub import Stub

CLAIMS, JOBS, PODS = "/api/v1/persistentvolumeclaims", "/apis/batch/v1/jobs", "/api/v1/pods"
JOB = "ns/measure-vol-v1"
RWO = Backing("storage-class", {"storage_class": "fast", "access_mode": "ReadWriteOnce"}, 1024)
TOLERATED = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
ONE_POD = Backing("storage-class", {"storage_class": "f", "access_mode": "ReadWriteOncePod"}, 1024)


@pytest.fixture
def driver(stub: Stub) -> Iterator[KubernetesDriver]:
    made = stub.driver(data_image="data:1")
    yield made
    made.close()


def have(stub: Stub, driver: KubernetesDriver, on: Backing | None = None, **status: Any) -> None:
    driver.ensure_volume("v1", project="p", owner="", backing=on)
    stub.objects[(CLAIMS, "ns/vol-v1")]["status"] = {"phase": "Bound", **status}


def begin(driver: KubernetesDriver) -> None:
    with pytest.raises(NotYet):
        driver.measure_volume("v1", Placement())


def end(stub: Stub, said: str, *, word: str = "Complete", owner: str = "") -> None:
    job = stub.objects[(JOBS, JOB)]
    job["metadata"]["uid"] = "job-1"
    job["status"] = {"conditions": [{"type": word, "status": "True"}]}
    meta = {
        "name": "measure-vol-v1-x",
        "namespace": "ns",
        "labels": {"batch.kubernetes.io/job-name": "measure-vol-v1"},
        "ownerReferences": [{"uid": owner or "job-1"}],
    }
    status = {"containerStatuses": [{"state": {"terminated": {"message": said}}}]}
    stub.put(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status})


def test_what_measures_a_volume() -> None:
    options = KubernetesOptions(data_image="registry.example/berth/data:1", queue="shared")
    beside = measuring.Beside("n1", ({"key": "nvidia.com/gpu", "operator": "Exists"},))
    check(
        "measure",
        measuring.job("v1", "ns", options, Placement()),
        measuring.job("v1", "ns", options, beside),
    )


def test_it_is_asked_once_and_told_once(stub: Stub, driver: KubernetesDriver) -> None:
    have(stub, driver)
    begin(driver)
    begin(driver)
    assert sum(1 for _m, path, *_ in stub.seen if "measure-vol-v1" in path) >= 1
    end(stub, json.dumps({"bytes": 4096, "whole": True, "seconds": 0.5, "entries": 1}))
    assert driver.measure_volume("v1", Placement()) == Measured(4096, whole=True, seconds=0.5)
    assert (JOBS, JOB) not in stub.objects  # the next one asks anew
    begin(driver)


def test_only_the_pod_of_the_job_is_believed(stub: Stub, driver: KubernetesDriver) -> None:
    have(stub, driver)
    begin(driver)
    end(stub, json.dumps({"bytes": 0, "whole": True, "seconds": 0.1}), owner="somebody-else")
    with pytest.raises(DriverError, match="nobody says why"):
        driver.measure_volume("v1", Placement())


@pytest.mark.parametrize(
    "said",
    [
        "",
        "none",
        "[]",
        "{}",
        '{"bytes": -1, "seconds": 1}',
        '{"bytes": "9", "seconds": 1}',
        '{"bytes": true, "seconds": 1}',
        '{"bytes": NaN, "seconds": 1}',
        '{"bytes": 1, "seconds": -Infinity}',
        '{"bytes": 1}',
    ],
)
def test_what_is_no_answer_is_none(said: str) -> None:
    assert parsed(said) is None


def test_an_answer_stays_within_what_a_row_can_hold() -> None:
    assert parsed('{"bytes": 1e300, "seconds": 1, "whole": 1}') == Measured(
        2**60, whole=False, seconds=1
    )


def test_a_measurement_that_failed_is_said(stub: Stub, driver: KubernetesDriver) -> None:
    have(stub, driver)
    begin(driver)
    end(stub, "", word="Failed")
    stub.objects[(PODS, "ns/measure-vol-v1-x")]["status"] = {
        "containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled"}}}]
    }
    with pytest.raises(DriverError, match="OOMKilled"):
        driver.measure_volume("v1", Placement())
    assert (JOBS, JOB) not in stub.objects


def test_without_an_image_or_a_claim_nothing_is_known(stub: Stub, driver: KubernetesDriver) -> None:
    assert driver.measure_volume("v1", Placement()) is None
    bare = stub.driver()
    have(stub, bare)
    assert bare.measure_volume("v1", Placement()) is None
    bare.close()
    assert (JOBS, JOB) not in stub.objects


def test_what_nobody_had_yet_is_empty_and_stays_unbound(
    stub: Stub, driver: KubernetesDriver
) -> None:
    have(stub, driver, RWO)
    stub.objects[(CLAIMS, "ns/vol-v1")]["status"] = {"phase": "Pending"}
    assert driver.measure_volume("v1", Placement()) == Measured(0)
    assert (JOBS, JOB) not in stub.objects


@pytest.mark.parametrize(
    ("phase", "more"),
    [
        ("Pending", {"dataSource": {"kind": "VolumeSnapshot", "name": "snap-1"}}),
        ("Pending", {"dataSourceRef": {"kind": "VolumeSnapshot", "name": "snap-1"}}),
        ("Pending", {"volumeName": "berth-vol-v1"}),
        ("Lost", {}),
        ("", {}),
    ],
)
def test_what_has_contents_from_elsewhere_is_not_known_to_be_empty(
    stub: Stub, driver: KubernetesDriver, phase: str, more: dict[str, Any]
) -> None:
    have(stub, driver, RWO)
    claim = stub.objects[(CLAIMS, "ns/vol-v1")]
    claim["spec"] |= more
    claim["status"] = {"phase": phase} if phase else {}
    assert driver.measure_volume("v1", Placement()) is None
    assert (JOBS, JOB) not in stub.objects


def test_c16_it_is_kept_off_nodes_that_are_reserved_for_others(
    stub: Stub, driver: KubernetesDriver
) -> None:
    have(stub, driver)
    near = ({"pool": "east"},)
    with pytest.raises(NotYet):
        driver.measure_volume("v1", Placement(avoid={"pool": ("fabric",)}, near=near))
    pod = stub.objects[(JOBS, JOB)]["spec"]["template"]["spec"]
    affinity = pod["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    kept_off = {"key": "pool", "operator": "NotIn", "values": ["fabric"]}
    assert term == {"matchExpressions": [kept_off]}
    (liked,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert liked["preference"]["matchExpressions"][0]["values"] == ["east"]
    assert "tolerations" not in pod


class TestOneNodeAtATime:
    def uses(self, stub: Stub, phase: str = "Running") -> None:
        claim = {"persistentVolumeClaim": {"claimName": "vol-v1"}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "lab", "namespace": "ns"},
            "spec": {
                "nodeName": "n7",
                "tolerations": [TOLERATED],
                "volumes": [{"name": "x", "emptyDir": {}}, claim],
            },
            "status": {"phase": phase},
        }
        stub.put(PODS, pod)

    def test_it_is_measured_beside_what_uses_it(self, stub: Stub, driver: KubernetesDriver) -> None:
        have(stub, driver, RWO)
        self.uses(stub)
        begin(driver)
        pod = stub.objects[(JOBS, JOB)]["spec"]["template"]["spec"]
        assert "n7" in json.dumps(pod["affinity"])
        assert pod["tolerations"] == [TOLERATED]  # nodes with GPUs are tainted

    @pytest.mark.parametrize("phase", ["", "Succeeded", "Failed"])
    def test_nobody_waits_for_a_measurement(
        self, stub: Stub, driver: KubernetesDriver, phase: str
    ) -> None:
        have(stub, driver, RWO)
        if phase:
            self.uses(stub, phase)
        assert driver.measure_volume("v1", Placement()) is None
        assert (JOBS, JOB) not in stub.objects

    def test_what_one_pod_may_have_is_left_to_it(
        self, stub: Stub, driver: KubernetesDriver
    ) -> None:
        have(stub, driver, ONE_POD)
        self.uses(stub)
        assert driver.measure_volume("v1", Placement()) is None


def test_it_lets_go_of_what_is_to_be_removed(stub: Stub, driver: KubernetesDriver) -> None:
    have(stub, driver)
    begin(driver)
    for _ in range(2):
        driver.end_measuring("v1")
    assert (JOBS, JOB) not in stub.objects
