"""The engine over the Kubernetes driver: what rows say when a cluster misbehaves (E7, C14)."""

import time
from dataclasses import replace

import pytest

from clusters import registry
from common.clock import now
from runtime import ports, workload_state
from runtime.drivers.kubernetes import names
from runtime.protocol import Phase
from runtime.reasons import Reason
from tests.drivers.kubernetes.pieces import ended, pod, runs, unschedulable, waits
from tests.drivers.kubernetes.stub import Stub
from tests.engineapp.models import Note, Thing
from tests.engineapp.reconciler import ThingReconciler
from tests.support.driving import run_due

SETS, PODS = "/apis/apps/v1/statefulsets", "/api/v1/pods"


class World:
    """A row, the engine and an API server."""

    def __init__(self, stub: Stub) -> None:
        self.stub = stub
        self.row: Thing | None = None

    def launch(self) -> Thing:
        self.row = Thing.objects.create(next_reconcile_at=now(), cluster_key="local")
        return self.turn()

    def turn(self) -> Thing:
        """Look at the row until nothing changes at once."""
        Thing.objects.filter(pk=self.row.pk).update(next_reconcile_at=now())
        run_due()
        self.row.refresh_from_db()
        return self.row

    @property
    def set(self) -> dict:
        return self.stub.objects[(SETS, "ns/ws-k7")]

    def pod(self, made: dict) -> Thing:
        made["metadata"] |= {
            "name": "ws-k7-0",
            "namespace": "ns",
            "labels": self.set["metadata"]["labels"],
        }
        made["metadata"]["annotations"] = {names.LAUNCH: str(self.row.launch)}
        made["spec"]["terminationGracePeriodSeconds"] = 10
        self.stub.put(PODS, made)
        return self.turn()

    def gone(self) -> Thing:
        """Its pod is gone, and the controller has seen that none is wanted."""
        self.stub.drop(PODS, "ns", "ws-k7-0")
        self.set["status"] = {"observedGeneration": self.set["metadata"]["generation"]}
        return self.turn()

    def words(self) -> list[str]:
        return list(Note.objects.order_by("id").values_list("word", flat=True))


@pytest.fixture
def world(db, tmp_path, monkeypatch):
    plain = ThingReconciler.spec_of

    def spec_of(self, row):
        return replace(plain(self, row), namespace="ns", image="r/i:1", name="k7")

    monkeypatch.setattr(ThingReconciler, "spec_of", spec_of)
    monkeypatch.setattr(ports, "_tenants", [])
    registry.reset()
    stub = Stub(tmp_path)
    driver = stub.driver()
    local = registry.driver_for("local")
    monkeypatch.setattr(registry, "driver_for", lambda _key: driver)
    assert local is not driver
    yield World(stub)
    driver.close()
    stub.stop()
    registry.reset()


def running(world: World) -> Thing:
    world.launch()
    row = world.pod(pod(main=runs(), ready=True))
    assert row.phase == Phase.RUNNING
    return row


def test_it_says_how_far_it_is(world):
    row = world.launch()
    assert (row.phase, row.reason) == (Phase.PENDING, Reason.SCHEDULING)
    row = world.pod(pod(main=waits("ContainerCreating")))
    assert row.phase == Phase.STARTING
    row = world.pod(pod(main=runs()))
    assert (row.phase, row.reason) == (Phase.STARTING, Reason.PROGRAM)
    row = world.pod(pod(main=runs(), ready=True))
    assert (row.phase, row.reason) == (Phase.RUNNING, "")
    assert world.words() == [
        "accepted",
        "placed",
        "scheduled",
        "starting",
        "image",
        "ready",
        "running",
    ]


def test_it_waits_for_its_projects_place(world, monkeypatch):
    monkeypatch.setattr(ports, "_tenants", [lambda _key, _project: "The namespace is being made."])
    row = world.launch()
    assert (row.phase, row.reason) == (Phase.PENDING, Reason.PREPARING)
    assert row.message == "The namespace is being made."
    assert world.stub.objects == {}
    monkeypatch.setattr(ports, "_tenants", [lambda _key, _project: None])
    assert world.turn().reason == Reason.SCHEDULING


def test_c14_what_ended_by_itself_is_stopped_and_its_reason_survives(world):
    running(world)
    row = world.pod(pod(main=ended(137, "OOMKilled")))
    assert (row.phase, row.reason) == (Phase.STOPPING, Reason.OOM)  # its pod is not gone yet
    assert world.set["spec"]["replicas"] == 0
    row = world.turn()
    assert (row.phase, row.reason) == (Phase.STOPPING, Reason.OOM)
    row = world.gone()
    assert (row.phase, row.reason) == (Phase.FAILED, Reason.OOM)
    assert row.external_ref["exit"]["code"] == 137
    assert world.turn().phase == Phase.FAILED


def test_a_program_that_ended_well_is_stopped_not_failed(world):
    running(world)
    world.pod(pod(main=ended(0, "Completed")))
    row = world.gone()
    assert (row.phase, row.reason) == (Phase.STOPPED, Reason.FINISHED)


def test_c14_an_eviction_is_a_new_start_of_the_same_launch(world):
    running(world)
    row = world.pod(pod(main=runs(), phase="Failed", reason="Evicted", message="disk"))
    assert (row.phase, row.reason, row.message) == (Phase.STARTING, Reason.EVICTED, "disk")
    world.stub.drop(PODS, "ns", "ws-k7-0")
    row = world.pod(pod(main=runs(), ready=True))
    assert (row.phase, row.reason, row.launch) == (Phase.RUNNING, "", 1)


def test_each_pod_that_replaced_another_is_told_also_when_nobody_saw_it_go(world):
    running(world)
    for uid in ("pod-2", "pod-2", "pod-3"):
        row = world.pod(pod(main=runs(), ready=True, metadata={"uid": uid}))
        assert row.phase == Phase.RUNNING
    world.pod(pod(main=runs(), phase="Failed", reason="Evicted", metadata={"uid": "pod-3"}))
    world.stub.drop(PODS, "ns", "ws-k7-0")
    row = world.pod(pod(main=runs(), ready=True, metadata={"uid": "pod-4"}))
    told = Note.objects.filter(word="restarted").order_by("id").values_list("message", flat=True)
    assert list(told) == ["", "", Reason.EVICTED]
    assert row.external_ref["pod"] == {"launch": 1, "uid": "pod-4", "times": 3}


def test_one_that_is_replaced_for_ever_stops_telling_of_it(world, monkeypatch):
    monkeypatch.setattr(workload_state, "_RESTARTS_TOLD", 2)
    running(world)
    for number in range(2, 6):
        row = world.pod(pod(main=runs(), ready=True, metadata={"uid": f"pod-{number}"}))
    assert Note.objects.filter(word="restarted").count() == 2
    assert row.external_ref["pod"]["times"] == 4


def test_an_image_that_does_not_exist_is_given_up_before_it_holds_a_gpu_for_long(
    world, monkeypatch
):
    world.launch()
    missing = pod(main=waits("ImagePullBackOff", "Back-off: ErrImagePull: r/i:1: not found"))
    row = world.pod(missing)
    assert (row.phase, row.reason) == (Phase.STARTING, Reason.IMAGE_NOT_FOUND)
    monkeypatch.setattr(workload_state, "HOPELESS_S", -1.0)
    world.turn()
    row = world.gone()
    assert (row.phase, row.reason) == (Phase.FAILED, Reason.IMAGE_NOT_FOUND)
    assert "r/i:1" in row.message


def test_waiting_for_a_free_node_is_not_starting_slowly(world, monkeypatch):
    world.launch()
    full = "0/9 nodes are available: 9 Insufficient nvidia.com/gpu."
    row = world.pod(unschedulable(full))
    monkeypatch.setattr(ThingReconciler, "start_timeout_s", 0.05)
    time.sleep(0.1)
    row = world.turn()
    assert (row.phase, row.reason) == (Phase.PENDING, Reason.NODES_FULL)
    assert "nvidia.com/gpu (9)" in row.message
    world.pod(pod(main=runs()))
    time.sleep(0.1)
    world.turn()
    row = world.gone()
    assert (row.phase, row.reason) == (Phase.FAILED, Reason.START_TIMEOUT)


def test_e7_an_api_server_that_is_away_changes_nothing_and_comes_back(world):
    running(world)
    world.stub.stop()
    row = world.turn()
    assert row.phase == Phase.RUNNING
    assert row.reason == Reason.UNREACHABLE
    world.stub.start()
    row = world.turn()
    assert (row.phase, row.reason) == (Phase.RUNNING, "")
    assert len([k for k in world.stub.objects if k[0] == SETS]) == 1


def test_e7_one_that_fails_in_the_middle_of_a_launch_makes_one_workload(world):
    def fault(handler, method, path, _query) -> bool:
        if method != "PATCH" or "statefulsets" not in path:
            return False
        handler.refuse(503)
        return True

    world.stub.fault = fault
    row = world.launch()
    assert row.reason == Reason.UNREACHABLE
    world.stub.fault = lambda *_: False
    assert world.turn().reason == Reason.SCHEDULING
    assert len([k for k in world.stub.objects if k[0] == SETS]) == 1


def test_a_quota_of_the_cluster_is_said_and_tried_again(world):
    def fault(handler, method, path, _query) -> bool:
        if method != "PATCH" or "statefulsets" not in path:
            return False
        handler.refuse(403, "forbidden: exceeded quota: berth, requested: count/statefulsets=1")
        return True

    world.stub.fault = fault
    row = world.launch()
    assert (row.phase, row.reason) == (Phase.PENDING, Reason.QUOTA_DENIED)
    assert "exceeded quota" in row.message
    world.stub.fault = lambda *_: False
    assert world.turn().reason == Reason.SCHEDULING


def test_e10_somebody_deleted_it_with_kubectl(world):
    running(world)
    world.stub.drop(PODS, "ns", "ws-k7-0")
    world.stub.drop(SETS, "ns", "ws-k7")
    row = world.turn()
    assert (row.phase, row.reason) == (Phase.FAILED, Reason.VANISHED)
    assert world.turn().phase == Phase.FAILED  # and is not made again by itself


def test_a_stop_waits_until_the_pod_is_gone(world):
    row = running(world)
    Thing.objects.filter(pk=row.pk).update(desired="stopped", generation=2)
    assert world.turn().phase == Phase.STOPPING
    assert world.gone().phase == Phase.STOPPED
