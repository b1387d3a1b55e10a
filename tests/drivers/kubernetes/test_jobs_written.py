"""What runs to its end: what a launch, a stop and a removal write."""

import base64
import contextlib
import json

import pytest

from runtime.drivers.kubernetes import names, watch
from runtime.protocol import InvalidSpec, NotYet, Seen
from runtime.reasons import Reason
from tests.drivers.kubernetes.pieces import UID, runs
from tests.drivers.kubernetes.test_jobs import job, load, over, try_of
from tests.drivers.kubernetes.test_watch import Follower
from tests.drivers.local.harness import wait_for

JOBS, PODS, SECRETS = "/apis/batch/v1/jobs", "/api/v1/pods", "/api/v1/secrets"


# --- what is written --------------------------------------------------------------------------------


def small(**options):
    return load(**{"name": "k7", "namespace": "ns", "mounts": (), **options})


def writes(stub):
    return [p.rsplit("/", 2)[-2:] for m, p, _q in stub.seen if m != "GET"]


def at(stub, name="ws-k7", collection=JOBS):
    return stub.objects[collection, f"ns/{name}"]


def put_pod(stub, made=None, *, launch=3, **more):
    made = made or try_of(**more)
    made["metadata"]["annotations"] = {names.LAUNCH: str(launch)}
    made["metadata"]["namespace"] = "ns"
    ours = names.labels("berth-", "", uid=UID, kind="load")
    made["metadata"]["labels"] = {**ours, names.JOB: "ws-k7"}
    made["spec"]["terminationGracePeriodSeconds"] = 10
    return stub.put(PODS, made)


def finish(stub, word="Complete"):
    made = at(stub)
    made["status"] = {"conditions": [{"type": word, "status": "True"}]}
    stub.put(JOBS, made)


def test_a_launch_is_two_writes_and_three_with_files(stub, driver):
    driver.ensure(small(secret_files=dict))
    assert writes(stub) == [["secrets", "ws-k7"], ["jobs", "ws-k7"]]
    driver.ensure(small(secret_files=dict))
    assert len(writes(stub)) == 2
    stub.seen.clear()
    driver.ensure(small(uid="u2", name="k8"))
    assert writes(stub) == [["secrets", "ws-k8"], ["secrets", "ws-k8-files"], ["jobs", "ws-k8"]]


def test_a_launch_that_ended_is_not_made_again(stub, driver):
    driver.ensure(small())
    put_pod(stub, over(3, message="2 bad"))
    finish(stub, "Failed")
    driver.stop(UID, grace_s=1)
    stub.drop(PODS, "ns", "ws-k7mn2p-abcde")
    stub.seen.clear()
    driver.ensure(small())
    assert writes(stub) == []
    found = driver.observe([UID])[UID]
    assert (found.seen, found.exit_code, found.message) == (Seen.EXITED, 3, "2 bad")


def test_a_stop_gives_one_that_runs_a_deadline_that_is_over(stub, driver):
    driver.ensure(small())
    put_pod(stub, main=runs(), ready=True)
    with pytest.raises(NotYet):
        driver.stop(UID, grace_s=30)
    assert at(stub)["spec"]["activeDeadlineSeconds"] == 1
    assert driver.observe([UID])[UID].seen == Seen.STOPPING
    assert ["pods", "ws-k7mn2p-abcde"] not in writes(stub)  # its own grace is shorter
    stub.drop(PODS, "ns", "ws-k7mn2p-abcde")
    with pytest.raises(NotYet):  # until its Job says so, another pod may come
        driver.stop(UID, grace_s=30)
    finish(stub, "Failed")
    stub.seen.clear()
    driver.stop(UID, grace_s=30)
    assert writes(stub) == []
    found = driver.observe([UID])[UID]
    assert (found.seen, found.reason, found.launch) == (Seen.EXITED, "stopped", 3)


def test_a_shorter_grace_is_said_with_the_deletion(stub, driver):
    driver.ensure(small())
    put_pod(stub, main=runs(), ready=True)
    with pytest.raises(NotYet):
        driver.stop(UID, grace_s=2)
    assert ["pods", "ws-k7mn2p-abcde"] in writes(stub)


def test_a_stop_of_one_that_waits_in_a_queue_lets_it_never_start(stub):
    driver = stub.driver(queue="default")
    driver.ensure(small())
    made = at(stub)
    made["spec"]["suspend"] = True
    stub.put(JOBS, made)
    driver.stop(UID, grace_s=1)
    assert at(stub)["metadata"]["labels"][names.QUEUE] == names.OVER
    # should its queue have let it in at the same moment, or once more, it ends by itself
    assert at(stub)["spec"]["activeDeadlineSeconds"] == 1
    assert driver.observe([UID])[UID].seen == Seen.EXITED
    driver.close()


LINE = "/apis/kueue.x-k8s.io/v1beta2/workloads"


@pytest.mark.parametrize("waits", [True, False])
def test_g13_what_is_stopped_leaves_the_line_and_nobody_gives_way_to_it(stub, waits):
    driver = stub.driver(queue="default")
    driver.ensure(small())
    made = at(stub)
    made["spec"]["suspend"] = waits
    stub.put(JOBS, made)
    for name, whose in (("its", made["metadata"]["uid"]), ("of-another", "u0")):
        meta = {"name": name, "namespace": "ns", "ownerReferences": [{"uid": whose}]}
        stub.put(LINE, {"metadata": meta, "spec": {"active": True}})
    with contextlib.nullcontext() if waits else pytest.raises(NotYet):
        driver.stop(UID, grace_s=1)
    assert not at(stub, "its", LINE)["spec"]["active"]
    assert at(stub, "of-another", LINE)["spec"]["active"]
    assert at(stub)["spec"]["activeDeadlineSeconds"] == 1
    at(stub, "its", LINE)["spec"]["active"] = True  # whoever did so: each further stop says it
    with contextlib.nullcontext() if waits else pytest.raises(NotYet):
        driver.stop(UID, grace_s=1)
    assert not at(stub, "its", LINE)["spec"]["active"]
    driver.close()


@pytest.mark.parametrize("status", [403, 404])
def test_a_stop_needs_no_right_to_the_line_and_no_kueue(stub, status):
    driver = stub.driver(queue="default")
    driver.ensure(small())
    made = at(stub)
    made["spec"]["suspend"] = True
    stub.put(JOBS, made)

    def refused(handler, _method, path, _query):
        if path.startswith("/apis/kueue.x-k8s.io/"):
            handler.refuse(status)
            return True
        return False

    stub.fault = refused
    driver.stop(UID, grace_s=1)
    assert at(stub)["metadata"]["labels"][names.QUEUE] == names.OVER
    driver.close()


def test_one_that_ended_by_itself_keeps_its_own_end(stub, driver):
    driver.ensure(small())
    put_pod(stub, over(0, "Succeeded", "all copied"))
    finish(stub)
    driver.stop(UID, grace_s=1)
    assert "activeDeadlineSeconds" not in at(stub)["spec"]
    note = json.loads(at(stub)["metadata"]["annotations"][names.ENDED])
    assert (note["code"], note["message"], note["launch"]) == (0, "all copied", 3)


def test_the_next_launch_is_a_new_job(stub, driver):
    driver.ensure(small())
    put_pod(stub, over(5))
    finish(stub, "Failed")
    with pytest.raises(NotYet):
        driver.ensure(small(launch=4))
    assert (JOBS, "ns/ws-k7") not in stub.objects
    driver.ensure(small(launch=4))
    assert at(stub)["metadata"]["annotations"][names.LAUNCH] == "4"
    found = driver.observe([UID])[UID]  # the pod of the launch before says nothing
    assert (found.seen, found.launch) == (Seen.CREATED, 4)


def test_an_older_one_that_runs_is_ended_first(stub, driver):
    driver.ensure(small())
    put_pod(stub, main=runs(), ready=True)
    for _ in range(2):
        with pytest.raises(NotYet):
            driver.ensure(small(launch=4))
    assert at(stub)["metadata"]["annotations"][names.LAUNCH] == "3"
    assert at(stub)["spec"]["activeDeadlineSeconds"] == 1


def test_somebody_elses_job_of_that_name_is_never_touched(stub, driver):
    foreign = job()
    foreign["metadata"] |= {"name": "ws-k7", "namespace": "ns", "labels": {names.UID: "other"}}
    stub.put(JOBS, foreign)
    with pytest.raises(InvalidSpec):
        driver.ensure(small())
    driver.stop(UID, grace_s=1)
    driver.remove(UID)
    assert at(stub) == foreign


def test_removal_leaves_nothing(stub, driver):
    driver.ensure(small())
    put_pod(stub, main=runs(), ready=True)
    for _ in range(3):
        try:
            driver.remove(UID)
        except NotYet:
            continue
        break
    assert [key for key in stub.objects if key[0] in (JOBS, PODS, SECRETS)] == []
    assert driver.observe([UID])[UID].seen == Seen.MISSING
    driver.remove(UID)


def test_d13_secrets_are_written_again_while_it_runs(stub, driver):
    driver.ensure(small(secret_files=lambda: {"a": "1", "b": "2"}))
    driver.refresh_secrets(small(secret_files=lambda: {"a": "1"}, secret_env=dict))
    assert set(at(stub, "ws-k7-files", SECRETS)["data"]) == {"a"}
    assert "BERTH_REPORT_TOKEN" not in at(stub, collection=SECRETS)["data"]
    driver.refresh_secrets(small(secret_files=dict))
    assert not at(stub, "ws-k7-files", SECRETS).get("data")
    driver.refresh_secrets(small(launch=9, secret_files=lambda: {"c": "3"}))  # does not run
    assert not at(stub, "ws-k7-files", SECRETS).get("data")
    stub.seen.clear()
    driver.refresh_secrets(small(uid="unknown", name="unknown"))
    assert writes(stub) == []


def test_files_that_ask_for_it_hold_the_folders_of_the_pod(stub, driver):
    files = {"placed": "{secrets}/a {memory}/b", "kept": "{secrets} {memory}"}
    asked = small(secret_files=lambda: files, placed_files=("placed", "not-there"))
    for write in (driver.ensure, driver.refresh_secrets):
        write(asked)
        data = at(stub, "ws-k7-files", SECRETS)["data"]
        found = {name: base64.b64decode(text).decode() for name, text in data.items()}
        assert found == {"placed": "/var/run/berth/secrets/a /dev/shm/b", "kept": files["kept"]}


def test_a_launch_without_files_drops_those_of_the_launch_before(stub, driver):
    workspace = {"once": False, "probe": None, "uid": "w1", "name": "w1"}
    driver.ensure(small(**workspace, launch=1))
    made = stub.objects["/apis/apps/v1/statefulsets", "ns/ws-w1"]
    made["spec"]["replicas"] = 0
    stub.put("/apis/apps/v1/statefulsets", made)
    driver.ensure(small(**workspace, launch=2, secret_files=dict))
    assert (SECRETS, "ns/ws-w1-files") not in stub.objects


def test_both_kinds_are_listed_and_each_has_its_pod(stub, driver):
    driver.ensure(small())
    put_pod(stub, main=runs(), ready=True)
    driver.ensure(small(once=False, uid="w1", name="w1", secret_files=dict))
    found = {o.uid: o for o in driver.list_owned()}
    assert {uid: o.seen for uid, o in found.items()} == {UID: Seen.READY, "w1": Seen.CREATED}
    assert found[UID].detail["pod"] == "ws-k7mn2p-abcde"


def test_the_watch_follows_jobs_and_their_pods(stub, driver, monkeypatch):
    for name, seconds in (("TURN_S", 1), ("SLACK_S", 0.5), ("HEARTBEAT_S", 0.5)):
        monkeypatch.setattr(watch, name, seconds)
    driver.ensure(small())
    following = Follower(driver)

    def until(state, **more):
        def good():
            found = following.known.get(UID)
            fits = found and all(getattr(found, k) == v for k, v in more.items())
            return found if fits and found.seen == state else None

        return wait_for(good)

    until(Seen.CREATED)
    put_pod(stub, main=runs(), ready=True)
    assert until(Seen.READY).detail["pod"] == "ws-k7mn2p-abcde"
    put_pod(stub, over(1))
    until(Seen.STARTING, reason=Reason.TRIED_AGAIN)
    put_pod(stub, main=runs(), ready=True, name="ws-k7mn2p-second")
    assert until(Seen.READY).detail["pod"] == "ws-k7mn2p-second"
    stub.drop(PODS, "ns", "ws-k7mn2p-second")
    until(Seen.STARTING)
    put_pod(stub, over(0, "Succeeded", "done", name="ws-k7mn2p-third"))
    until(Seen.EXITED, exit_code=0, message="done")
    finish(stub)
    stub.drop(JOBS, "ns", "ws-k7")
    until(Seen.MISSING)
    following.close()
