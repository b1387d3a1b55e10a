"""What copies data on the real cluster: runs that end, secret files, shared volumes, openings."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.kube import Kube
from loaders.runtime_spec import RETRY
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders import volume
from runtime.protocol import InvalidSpec, NotYet, Seen
from runtime.reasons import Reason
from runtime.spec import Backing, Mount, WorkloadSpec
from tests.cluster import dials
from tests.cluster.pods import phase
from tests.cluster.tenants import world
from tests.drivers.kubernetes.harness import Ground, ground_of, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.pods, pytest.mark.beside, pytest.mark.timeout(900)]
CANARY = "canary-7c1d-secret"
LATE_S = 180.0


@pytest.fixture
def ground() -> Iterator[Ground]:
    made = ground_of()
    yield made
    made.close()


def once(ground: Ground, script: str, *args: str, **options: Any) -> WorkloadSpec:
    command = ("bash", "-c", script, "-", *args)
    return ground.spec(
        **{
            "kind": "load",
            "once": True,
            "retry": RETRY,
            "command": command,
            "probe": None,
            **options,
        }
    )


def ended(ground: Ground, spec: WorkloadSpec) -> Any:
    ground.driver.ensure(spec)
    return ground.until(spec.uid, lambda o: o.seen == Seen.EXITED, seconds=LATE_S)


def log_of(ground: Ground, spec: WorkloadSpec) -> str:
    return wait_for(lambda: ground.driver.read_log(spec.uid)[0]).decode()


def removed(ground: Ground, uid: str) -> None:
    def done() -> bool:
        try:
            ground.driver.remove(uid)
        except NotYet:
            return False
        return ground.seen(uid).seen == Seen.MISSING

    wait_for(done, seconds=LATE_S, every=0.2)


def folder_of(ground: Ground, uid: str) -> Path:
    """The volume as the node has it, which is this machine."""
    found = ground.kube.get("v1", "PersistentVolume", names.volume(uid))
    assert found is not None
    return Path(found["spec"]["hostPath"]["path"])


# --- runs that end ----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 3, 4])
def test_it_runs_to_its_end_and_says_how(ground: Ground, code: int) -> None:
    script = f"echo copying; printf 'the last words' > /dev/termination-log; exit {code}"
    spec = once(ground, script)
    found = ended(ground, spec)
    assert (found.exit_code, found.message, found.launch) == (code, "the last words", 1)
    assert found.started_at <= found.ended_at
    assert log_of(ground, spec) == "copying\n"
    ground.stopped(spec.uid)  # as the engine does when it sees the end
    ground.driver.ensure(spec)  # and an end is an end
    again = ground.seen(spec.uid)
    assert (again.seen, again.exit_code, again.message) == (Seen.EXITED, code, "the last words")
    job = ground.kube.get("batch/v1", "Job", names.workload(spec.name, spec.uid), ground.namespace)
    assert int(job["status"].get("failed", 0)) == (1 if code else 0)  # no try more than one
    removed(ground, spec.uid)


@pytest.mark.long("what a pod that went costs: drivers/kubernetes/test_jobs.py")
def test_another_error_is_tried_again(ground: Ground) -> None:
    claim = f"v{ground.namespace}"
    script = "cd /volumes/data; echo x >> tries; [ $(wc -l < tries) = 3 ] && exit 0; exit 1"
    spec = once(ground, script, mounts=(Mount(claim, name="data"),))
    ground.driver.ensure(spec)
    told = ground.until(spec.uid, lambda o: o.reason == Reason.TRIED_AGAIN, seconds=LATE_S)
    assert told.seen == Seen.STARTING
    found = ground.until(spec.uid, lambda o: o.seen == Seen.EXITED, seconds=2 * LATE_S)
    assert found.exit_code == 0
    removed(ground, spec.uid)
    wiped(ground, claim)


def test_a_stop_reaches_the_program_and_the_next_launch_goes_on(ground: Ground) -> None:
    claim = f"v{ground.namespace}"
    script = (
        # until it was seen while it stops
        "cd /volumes/data; ls; trap 'until [ -e seen ]; do sleep 0.1; done; echo stopped > state;"
        " exit 5' TERM; echo ready; while :; do sleep 0.1; done"
    )
    options: dict[str, Any] = {"mounts": (Mount(claim, name="data"),), "stop_grace_s": 50.0}
    spec = once(ground, script, **options)
    ground.driver.ensure(spec)
    ground.until(spec.uid, lambda o: o.seen == Seen.READY, seconds=LATE_S)
    wait_for(lambda: b"ready" in ground.driver.read_log(spec.uid)[0], seconds=LATE_S, every=0.2)
    with pytest.raises(NotYet):
        ground.driver.stop(spec.uid, grace_s=50)
    assert ground.seen(spec.uid).seen == Seen.STOPPING
    folder_of(ground, claim).joinpath("seen").touch()
    found = ground.stopped(spec.uid, grace_s=50)
    assert (found.seen, found.reason) == (Seen.EXITED, "stopped")
    again = once(
        ground, "cat /volumes/data/state", uid=spec.uid, name=spec.name, launch=2, **options
    )

    def made() -> bool:
        try:
            ground.driver.ensure(again)
        except NotYet:
            return False
        return True

    wait_for(made, seconds=LATE_S, every=0.2)
    found = ground.until(spec.uid, lambda o: o.seen == Seen.EXITED, seconds=LATE_S)
    assert (found.launch, found.exit_code) == (2, 0)
    assert log_of(ground, again) == "stopped\n"
    removed(ground, spec.uid)
    wiped(ground, claim)


@pytest.mark.long("what a pod that went costs: drivers/kubernetes/test_jobs.py")
def test_an_evicted_one_comes_again_and_loses_no_try(ground: Ground) -> None:
    script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.1; done"
    spec = once(ground, script, stop_grace_s=5.0)
    ground.driver.ensure(spec)
    first = ground.until(spec.uid, lambda o: o.seen == Seen.READY, seconds=LATE_S)
    wait_for(lambda: b"ready" in ground.driver.read_log(spec.uid)[0], seconds=LATE_S, every=0.2)
    name = first.detail["pod"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": ground.namespace},
    }
    path = f"/api/v1/namespaces/{ground.namespace}/pods/{name}/eviction"
    ground.kube.request("POST", path, json=eviction)

    def another(seen: Any) -> bool:
        return seen.seen == Seen.READY and seen.detail["pod"] != name

    assert ground.until(spec.uid, another, seconds=LATE_S).launch == 1
    job = ground.kube.get("batch/v1", "Job", names.workload(spec.name, spec.uid), ground.namespace)
    assert not job["status"].get("failed")
    removed(ground, spec.uid)


@pytest.mark.long("what a pod that went costs: drivers/kubernetes/test_jobs.py")
def test_one_whose_pod_is_deleted_comes_again(ground: Ground) -> None:
    spec = once(ground, "trap 'exit 5' TERM; echo ready; while :; do sleep 0.1; done")
    ground.driver.ensure(spec)
    first = ground.until(spec.uid, lambda o: o.seen == Seen.READY, seconds=LATE_S)
    wait_for(lambda: b"ready" in ground.driver.read_log(spec.uid)[0], seconds=LATE_S, every=0.2)
    name = first.detail["pod"]
    ground.kube.delete("v1", "Pod", name, ground.namespace)

    def another(seen: Any) -> bool:
        return seen.seen == Seen.READY and seen.detail["pod"] != name

    assert ground.until(spec.uid, another, seconds=LATE_S).launch == 1
    removed(ground, spec.uid)


def wiped(ground: Ground, volume: str) -> None:
    def done() -> bool:
        try:
            ground.driver.remove_volume(volume)
        except NotYet:
            return False
        return True

    wait_for(done, seconds=LATE_S, every=0.2)


# --- secret files -------------------------------------------------------------------------------------


def test_a2_secret_files_are_read_inside_and_nowhere_else(ground: Ground) -> None:
    script = (
        'exec 2>&1; cd "$0"; ls; cat plan.json; stat -Lc %a plan.json; echo x > new; env | grep -c plan;'
        ' read -r key state < boto; [[ $(<"$key") == $(<plan.json) ]] && mkdir "$state" && echo "made $state"'
    )
    spec = once(
        ground,
        script,
        command=("bash", "-c", script, "{secrets}"),
        env={"WHERE": "{secrets}/plan.json"},
        secret_files=lambda: {
            "plan.json": json.dumps({"key": CANARY}) + "\n",
            "boto": "{secrets}/plan.json {memory}/state\n",
        },
        placed_files=("boto",),
    )
    ended(ground, spec)
    said = log_of(ground, spec).splitlines()
    assert said[:2] == ["boto", "plan.json"]
    assert json.loads(said[2]) == {"key": CANARY}
    assert said[3] == "440"
    assert "Read-only file system" in said[4]
    assert said[5] == "1"  # WHERE, and no variable of the file's name
    assert said[6] == "made /dev/shm/state"
    for kind in ("Pod", "Job", "Event"):
        version = "batch/v1" if kind == "Job" else "v1"
        assert CANARY not in json.dumps(ground.kube.list(version, kind, ground.namespace))
    removed(ground, spec.uid)
    assert CANARY not in json.dumps(ground.kube.list("v1", "Secret", ground.namespace))
    assert not [
        s["metadata"]["name"]
        for s in ground.kube.list("v1", "Secret", ground.namespace)
        if s["metadata"]["name"].startswith("ws-")
    ]


# --- volumes ------------------------------------------------------------------------------------------


def test_two_pods_share_a_volume_and_a_reader_can_not_write(ground: Ground) -> None:
    claim = f"v{ground.namespace}"
    writer = once(
        ground,
        "cd $BERTH_VOLUMES/data; echo hi > file; until [ -s answer ]; do sleep 0.1; done; cat answer",
        mounts=(Mount(claim, name="data"),),
    )
    other = once(
        ground,
        "cd $BERTH_VOLUMES/data; until [ -s file ]; do sleep 0.1; done; cat file; echo yes > answer",
        mounts=(Mount(claim, name="data"),),
        owner="another",
    )
    ground.driver.ensure(writer)
    ended(ground, other)
    assert log_of(ground, other) == "hi\n"
    ground.until(writer.uid, lambda o: o.seen == Seen.EXITED, seconds=LATE_S)
    assert log_of(ground, writer) == "yes\n"
    reader = once(
        ground,
        "cd $BERTH_VOLUMES/data; cat file; echo no > file; rm -f file; mkdir new; ls",
        mounts=(Mount(claim, name="data", read_only=True),),
    )
    ended(ground, reader)
    said = log_of(ground, reader)
    refused = [line for line in said.splitlines() if "Read-only file system" in line]
    assert len(refused) == 3
    # two streams: which line of the other one stands between them is the runtime's affair
    assert [line for line in said.splitlines() if line not in refused] == ["hi", "answer", "file"]
    for spec in (writer, other, reader):
        removed(ground, spec.uid)
    wiped(ground, claim)


# --- openings -----------------------------------------------------------------------------------------


@pytest.fixture
def listeners(devcluster: dict[str, Any]) -> Iterator[list[int]]:
    """Two ports of this machine: one stands for a store of the operator's own."""
    made = [socket.create_server((devcluster["host"], 0)) for _ in range(2)]

    def serve(one: socket.socket) -> None:
        while True:
            try:
                one.accept()[0].close()
            except OSError:
                return

    for one in made:
        threading.Thread(target=serve, args=(one,), daemon=True).start()
    yield [one.getsockname()[1] for one in made]
    for one in made:
        one.shutdown(socket.SHUT_RDWR)
        one.close()


def test_allowed_cidrs_opens_exactly_that(
    devcluster: dict[str, Any], kube: Kube, listeners: list[int]
) -> None:
    host, image = devcluster["host"], devcluster["images"]["tool"]["reference"]
    store, other = listeners
    for allowed in ((), (f"{host}:{store}",)):
        made = world(devcluster, kube, allowed_cidrs=allowed)
        try:
            spec = made.ensure(made.tenant("data"))
            wanted = {f"{host}:{store}": bool(allowed), f"{host}:{other}": False}
            assert dials.tcp(kube, spec.namespace, "try", image, wanted) == wanted
        finally:
            made.close()


# --- what volumes lie on --------------------------------------------------------------------------------


def test_c9_a_volume_moves_to_another_project_with_its_files(ground: Ground) -> None:
    """By the cluster's own controllers: claim, binding and protection are real."""
    claim, backing = f"v{ground.namespace}", Backing("directory", {"path": ground.state["volumes"]})
    mounts = (Mount(claim, name="data", backing=backing),)
    ended(ground, once(ground, "echo kept > $BERTH_VOLUMES/data/file", mounts=mounts))
    for spec in list(ground.driver.list_owned()):
        removed(ground, spec.uid)
    other = f"{ground.namespace}2"
    ground.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})

    def moved() -> bool:
        try:
            ground.driver.move_volume(
                claim, project="q", owner="", backing=backing, namespace=other
            )
        except NotYet:
            return False
        return True

    try:
        wait_for(moved, seconds=LATE_S, every=0.2)
        name = names.claim(claim)
        assert ground.kube.get("v1", "PersistentVolumeClaim", name, ground.namespace) is None
        bound = lambda: phase(ground.kube.get("v1", "PersistentVolumeClaim", name, other))  # noqa: E731
        wait_for(lambda: bound() == "Bound", seconds=LATE_S, every=0.2)
        spec = once(ground, "cat $BERTH_VOLUMES/data/file", mounts=mounts, namespace=other)
        ended(ground, spec)
        assert log_of(ground, spec) == "kept\n"
        with pytest.raises(InvalidSpec):
            ground.driver.ensure(once(ground, "true", mounts=mounts))
        removed(ground, spec.uid)
        wiped(ground, claim)
    finally:
        ground.kube.delete("v1", "Namespace", other)


@pytest.mark.parametrize("kind", ["nfs", "nfs-csi"])
def test_the_api_server_takes_and_binds_volumes_on_nfs(ground: Ground, kind: str) -> None:
    """The node's kernel has no NFS client, so nothing is mounted: what is asked for is accepted."""
    uid, backing = f"n{ground.namespace}", Backing(kind, {"server": "nfs.test", "export": "/vols"})
    options = ground.driver.options
    for made in (
        volume.volume(uid, ground.namespace, options, project="p", owner="", backing=backing),
        volume.claim(uid, ground.namespace, options, project="p", owner="", backing=backing),
    ):
        ground.driver.client.apply(made)
    name = names.claim(uid)

    def bound() -> bool:
        found = ground.kube.get("v1", "PersistentVolumeClaim", name, ground.namespace)
        return phase(found) == "Bound"

    wait_for(bound, seconds=LATE_S, every=0.2)
    ground.kube.delete("v1", "PersistentVolumeClaim", name, ground.namespace)
    ground.kube.delete("v1", "PersistentVolume", names.volume(uid))
