"""What a launch, a stop and a removal write, and that each may be repeated (E7, E10, E11)."""

import base64
import gzip

import pytest

from runtime.drivers.kubernetes import names
from runtime.protocol import InvalidSpec, NotYet, Seen
from runtime.reasons import Reason
from runtime.spec import Mount, Sidecar, WorkloadSpec
from tests.drivers.kubernetes.pieces import ended, pod, runs

SETS, PODS, SECRETS = "/apis/apps/v1/statefulsets", "/api/v1/pods", "/api/v1/secrets"
JOBS = "/apis/batch/v1/jobs"
CLAIMS, VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"


def spec(**options) -> WorkloadSpec:
    defaults = {
        "uid": "u1",
        "kind": "workspace",
        "name": "k7",
        "launch": 1,
        "generation": 1,
        "project": "p",
        "owner": "o",
        "environment": "",
        "namespace": "ns",
        "image": "r/i:1",
        "command": ("x",),
    }
    return WorkloadSpec(**{**defaults, **options})


def writes(stub) -> list[str]:
    return [p.rsplit("/", 2)[-2] for m, p, _q in stub.seen if m != "GET"]


def seen_pod(stub, launch=1, **more) -> None:
    made = pod(launch=launch, **more)
    made["metadata"] |= {"name": "ws-k7-0", "namespace": "ns", "labels": {names.UID: "u1"}}
    made["spec"]["terminationGracePeriodSeconds"] = 10
    stub.put(PODS, made)


def stored(stub, collection=SETS, name="ws-k7") -> dict:
    return stub.objects[(collection, f"ns/{name}")]


# --- make -----------------------------------------------------------------------------------------


def test_a_launch_in_a_known_project_is_two_writes(stub, driver):
    driver.ensure(spec(mounts=()))
    assert writes(stub) == ["secrets", "statefulsets"]


def test_a_first_launch_makes_its_home_too(stub, driver):
    driver.ensure(spec(mounts=(Mount("h1", "home"),)))
    assert writes(stub) == [
        "persistentvolumes",
        "persistentvolumeclaims",
        "secrets",
        "statefulsets",
    ]
    stub.seen.clear()
    driver.ensure(spec(uid="u2", name="k8", mounts=(Mount("h1", "home"),)))
    assert writes(stub) == ["secrets", "statefulsets"]


def test_the_same_launch_again_writes_nothing_and_makes_no_secret(stub, driver):
    made = []
    given = spec(secret_env=lambda: made.append(1) or {"A": "b"})
    first = driver.ensure(given)
    stub.seen.clear()
    assert driver.ensure(given) == first
    assert (writes(stub), made) == ([], [1])


def test_e7_a_crash_between_secret_and_statefulset_is_made_good(stub, driver):
    def fault(handler, method, path, _query) -> bool:
        if method == "PATCH" and "statefulsets" in path:
            handler.refuse(500)
            return True
        return False

    stub.fault = fault
    with pytest.raises(Exception, match="error"):
        driver.ensure(spec())
    stub.fault = lambda *_: False
    driver.ensure(spec())
    assert len(stub.objects) == 2


def test_what_is_anothers_is_not_touched(stub, driver):
    driver.ensure(spec())
    with pytest.raises(InvalidSpec):
        driver.ensure(spec(uid="thief"))
    assert stored(stub)["metadata"]["labels"][names.UID] == "u1"
    driver.remove("thief")  # of the same namespace, but not there


def test_a_workload_without_an_image_cannot_run_on_a_cluster(driver):
    with pytest.raises(InvalidSpec):
        driver.ensure(spec(image=""))


def test_a_newer_launch_ends_a_living_older_one_first(stub, driver):
    driver.ensure(spec())
    seen_pod(stub, main=runs(), ready=True)
    with pytest.raises(NotYet):
        driver.ensure(spec(launch=2))
    assert stored(stub)["spec"]["replicas"] == 0
    with pytest.raises(NotYet):
        driver.ensure(spec(launch=2))
    stub.drop(PODS, "ns", "ws-k7-0")
    driver.ensure(spec(launch=2))
    assert stored(stub)["spec"]["replicas"] == 1
    assert stored(stub)["metadata"]["annotations"][names.LAUNCH] == "2"


def test_a_newer_launch_replaces_one_that_ended_by_itself_at_once(stub, driver):
    driver.ensure(spec())
    seen_pod(stub, main=ended(3))
    driver.ensure(spec(launch=2))
    assert driver.observe(["u1"])["u1"].seen == Seen.STARTING


# --- end ------------------------------------------------------------------------------------------


def test_a_stop_keeps_how_it_ended(stub, driver):
    driver.ensure(spec())
    seen_pod(stub, main=ended(137, "OOMKilled"))
    assert driver.observe(["u1"])["u1"].reason == Reason.OOM
    stub.seen.clear()
    with pytest.raises(NotYet):
        driver.stop("u1", grace_s=10)
    assert writes(stub) == ["secrets", "statefulsets"]  # the end of its log, and no pod
    stub.drop(PODS, "ns", "ws-k7-0")
    stored(stub)["status"] = {"observedGeneration": stored(stub)["metadata"]["generation"]}
    driver.stop("u1", grace_s=10)
    found = driver.observe(["u1"])["u1"]
    assert (found.seen, found.exit_code, found.reason) == (Seen.EXITED, 137, Reason.OOM)


def test_the_end_of_the_log_is_kept_for_later(stub, driver):
    driver.ensure(spec())
    seen_pod(stub, main=ended(3))

    def fault(handler, _method, path, query) -> bool:
        if "/log" not in path:
            return False
        assert query["previous"] == "true"  # of the run that failed, not of the node's next
        handler.send_response(200)
        handler.send_header("Content-Length", "9")
        handler.end_headers()
        handler.wfile.write(b"last word")
        return True

    stub.fault = fault
    with pytest.raises(NotYet):
        driver.stop("u1", grace_s=10)
    stub.fault = lambda *_: False
    stub.drop(PODS, "ns", "ws-k7-0")
    assert driver.read_log("u1") == (b"last word", 9)
    assert driver.read_log("u1", offset=5) == (b"word", 9)
    raw = base64.b64decode(stored(stub, SECRETS, "ws-k7-log")["data"]["log.gz"])
    assert gzip.decompress(raw) == b"last word"
    driver.ensure(spec(launch=2))
    assert driver.read_log("u1") == (b"", 0)  # another launch, another log


def test_the_end_of_the_log_is_that_of_the_run_that_ended_though_the_next_one_began(stub, driver):
    driver.ensure(spec())
    seen_pod(stub, main=ended(3, again=False))  # what we read of the pod is a moment old

    def fault(handler, _method, path, query) -> bool:
        if "/log" not in path:
            return False
        said = b"last word" if query.get("previous") == "true" else b""
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(said)))
        handler.end_headers()
        handler.wfile.write(said)
        return True

    stub.fault = fault
    with pytest.raises(NotYet):
        driver.stop("u1", grace_s=10)
    stub.fault = lambda *_: False
    stub.drop(PODS, "ns", "ws-k7-0")
    assert driver.read_log("u1") == (b"last word", 9)


def test_a_container_that_its_node_has_removed_is_read_from_what_was_kept(stub, driver):
    """The node says so with 200, as if the program had printed it."""
    driver.ensure(spec())
    seen_pod(stub, main=runs())
    said = [b"last word"]

    def fault(handler, _method, path, _query) -> bool:
        if "/log" not in path:
            return False
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(said[-1])))
        handler.end_headers()
        handler.wfile.write(said[-1])
        return True

    stub.fault = fault
    with pytest.raises(NotYet):
        driver.stop("u1", grace_s=10)
    said.append(b"unable to retrieve container logs for containerd://" + b"7f5c" * 16)
    stored(stub, PODS, "ws-k7-0")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert driver.read_log("u1") == (b"last word", 9)


def test_a_node_that_does_not_give_its_log_does_not_hold_up_a_stop(stub, driver):
    driver.ensure(spec())
    seen_pod(stub, main=runs())

    def fault(handler, _method, path, _query) -> bool:
        if "/log" in path:
            handler.refuse(500, "dial node")
            return True
        return False

    stub.fault = fault
    with pytest.raises(NotYet):
        driver.stop("u1", grace_s=10)
    assert stored(stub)["spec"]["replicas"] == 0


def test_a_pod_that_may_just_be_made_is_waited_for(stub, driver):
    driver.ensure(spec())
    stored(stub)["status"] = {"observedGeneration": 1}
    with pytest.raises(NotYet):
        driver.stop("u1", grace_s=10)


def test_what_was_just_made_is_no_answer_after_a_stop(stub, driver):
    driver.ensure(spec())
    seen_pod(stub, main=runs())
    with pytest.raises(NotYet):
        driver.stop("u1", grace_s=10)
    assert driver._work.just_made("u1") is None


def test_a_shorter_grace_than_its_own_is_said_to_the_pod(stub, driver):
    driver.ensure(spec())
    seen_pod(stub, main=runs())
    with pytest.raises(NotYet):
        driver.stop("u1", grace_s=2)
    assert (PODS, "ns/ws-k7-0") not in stub.objects


# --- remove ---------------------------------------------------------------------------------------


def test_e11_a_removal_leaves_nothing_but_the_volume(stub, driver):
    sidecar = Sidecar("port-7860", "r/s:1", ("p",), 8889, secret_env=lambda: {"T": "t"})
    driver.ensure(spec(mounts=(Mount("h1", "home"),), sidecars=(sidecar,)))
    seen_pod(stub, main=runs())
    for _ in range(5):
        try:
            driver.remove("u1")
        except NotYet:
            continue
        break
    assert sorted(c for c, _k in stub.objects) == [CLAIMS, VOLUMES]
    driver.remove("u1")


def test_e11_secrets_alone_are_removed_too(stub, driver):
    """Keys in files among them: somebody removed by hand what named them."""
    driver.ensure(spec(secret_files=lambda: {"key.json": "{}"}))
    assert (SECRETS, "ns/ws-k7-files") in stub.objects
    stub.drop(SETS, "ns", "ws-k7")
    driver.remove("u1")
    assert stub.objects == {}


def test_d13_files_of_an_earlier_run_of_a_job_go_with_it(stub, driver):
    """The next run of a Job is a Job of its own, which knows nothing of the first one's files."""
    job = {"once": True, "uid": "l1", "name": "l1", "probe": None}
    driver.ensure(spec(**job, secret_files=lambda: {"key.json": "{}"}))
    stub.drop(JOBS, "ns", "ws-l1")
    driver.ensure(spec(**job, launch=2))
    for _ in range(3):
        try:
            driver.remove("l1")
        except NotYet:
            continue
        break
    assert stub.objects == {}


def test_e10_somebody_scaled_it_down_by_hand(stub, driver):
    driver.ensure(spec())
    stored(stub)["spec"]["replicas"] = 0
    found = driver.observe(["u1"])["u1"]
    assert (found.seen, found.exit_code, found.reason) == (Seen.EXITED, None, "")


def test_e10_somebody_deleted_it_by_hand(stub, driver):
    driver.ensure(spec())
    stub.drop(SETS, "ns", "ws-k7")
    assert driver.observe(["u1"])["u1"].seen == Seen.MISSING


# --- volumes --------------------------------------------------------------------------------------


def test_c9_a_volume_of_another_project_is_not_given(stub, driver):
    driver.ensure_volume("h1", project="p", owner="o", namespace="other")
    with pytest.raises(InvalidSpec):
        driver.ensure_volume("h1", project="p", owner="o", namespace="ns")


def test_e10_a_claim_that_was_deleted_by_hand_is_made_again(stub, driver):
    driver.ensure_volume("h1", project="p", owner="o")
    volume = stub.objects[(VOLUMES, "/berth-h1")]
    volume["spec"]["claimRef"]["uid"] = "ghost"
    stub.drop(CLAIMS, "ns", "vol-h1")
    later = stub.driver()  # what was seen is believed for a minute
    later.ensure_volume("h1", project="p", owner="o")
    later.close()
    assert "uid" not in stub.objects[(VOLUMES, "/berth-h1")]["spec"]["claimRef"]
    assert (CLAIMS, "ns/vol-h1") in stub.objects


def test_removing_a_volume_waits_until_its_contents_are_gone(stub, driver):
    driver.ensure_volume("h1", project="p", owner="o")
    for left in (2, 1):
        with pytest.raises(NotYet):
            driver.remove_volume("h1")
        assert len(stub.objects) >= left - 1
    driver.remove_volume("h1")
    assert stub.objects == {}
    driver.remove_volume("h1")


def test_what_earlier_roles_may_not_look_for_keeps_nothing_from_being_removed(stub):
    """After an upgrade a cluster has the roles with which it was attached."""
    driver = stub.driver(operators=("pytorchjob", "tfjob"))
    driver.ensure(spec(mounts=()))

    def denied(handler, _method, path, _query):
        if "/kubeflow.org/" not in path:
            return False
        handler.refuse(403, "pytorchjobs.kubeflow.org is forbidden")
        return True

    stub.fault = denied
    with pytest.raises(NotYet):
        driver.remove("u1")
    driver.remove("u1")
    assert (SETS, "ns/ws-k7") not in stub.objects
