"""What runs to its end: the Job word for word, what it is by what is seen, what a launch writes."""

import base64
import json

import pytest

from runtime.drivers.kubernetes import names, watch
from runtime.drivers.kubernetes.builders import workload
from runtime.drivers.kubernetes.observe import Sight
from runtime.drivers.kubernetes.observe_job import judge, newest
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import FINAL_EXITS, InvalidSpec, Mount, NotYet, Resources, Seen
from runtime.reasons import REASONS, Reason
from runtime.status import Phase, status_of
from tests.drivers.kubernetes.goldens import check
from tests.drivers.kubernetes.pieces import LATER, NS, UID, ended, event, pod, runs, waits
from tests.drivers.kubernetes.stub import Stub
from tests.drivers.kubernetes.test_builders import HOME
from tests.drivers.kubernetes.test_builders import spec as described
from tests.drivers.kubernetes.test_watch import Follower
from tests.drivers.local.harness import wait_for

JOBS, PODS, SECRETS = "/apis/batch/v1/jobs", "/api/v1/pods", "/api/v1/secrets"
OPTIONS = KubernetesOptions()
PLAN = {"plan.json": '{"key": "s3cret"}'}


def load(**options):
    defaults = {
        "kind": "load",
        "once": True,
        "command": ("python3", "-I", "-m", "dataplane.copy", "{secrets}/plan.json"),
        "env": {"PLAN": "{secrets}/plan.json"},
        "mounts": (Mount(HOME, "data", name="home", owner="o"), Mount("v2", name="sets")),
        "probe": None,
        "resources": Resources(cpu_milli=1000, memory_mib=512),
        "secret_files": lambda: PLAN,
        "secret_env": lambda: {"BERTH_REPORT_TOKEN": "t0ken"},
    }
    return described(**{**defaults, **options})


# --- what is asked for ----------------------------------------------------------------------------


def test_a_load():
    given = load()
    secrets = workload.secrets(given, OPTIONS, given.secret_env(), PLAN)
    check("load", *secrets, workload.job(given, OPTIONS, files=True))


def test_a_load_in_a_queue():
    made = workload.job(load(), KubernetesOptions(queue="default"))
    assert made["metadata"]["labels"][names.QUEUE] == "default"
    assert "suspend" not in made["spec"]  # Kueue's own to set
    assert names.QUEUE not in made["spec"]["template"]["metadata"]["labels"]


def test_exit_codes_that_are_final_end_the_job_and_a_disruption_comes_first():
    rules = workload.job(load(), OPTIONS)["spec"]["podFailurePolicy"]["rules"]
    assert [rule["action"] for rule in rules] == ["Ignore", "FailJob"]
    assert {0, *rules[1]["onExitCodes"]["values"]} == set(FINAL_EXITS)
    # A queue that puts a Job out deletes its pods without a word, and the policy looks at those too.
    assert 5 not in rules[1]["onExitCodes"]["values"]


def test_a2_secret_files_are_no_variables_and_stand_in_no_other_object():
    given = load()
    env, files = workload.secrets(given, OPTIONS, given.secret_env(), PLAN)
    assert set(files["data"]) == {"plan.json"}
    assert "plan.json" not in env["data"]
    assert base64.b64decode(env["data"]["PLAN"]) == b"/var/run/berth/secrets/plan.json"
    told = json.dumps(workload.job(given, OPTIONS, files=True))
    assert "s3cret" not in told
    assert "t0ken" not in told


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "x" * 200])
def test_c8_a_volume_is_mounted_below_its_folder_only(name):
    given = load(mounts=(Mount("v/1" if not name else "v1", name=name),))
    with pytest.raises(InvalidSpec):
        workload.job(given, OPTIONS)


# --- what it is -------------------------------------------------------------------------------------


def job(*, over="", launch=1, suspend=False, note=None, deleted=False, message=""):
    notes = {names.LAUNCH: str(launch)}
    if note is not None:
        notes[names.ENDED] = json.dumps(note)
    conditions = [{"type": over, "status": "True", "message": message}] if over else []
    return {
        "kind": "Job",
        "metadata": {
            "name": "ws-k7mn2p",
            "namespace": NS,
            "uid": "job-1",
            "annotations": notes,
            "labels": {names.UID: UID, names.KIND: "load", names.MANAGED: "true"},
            "resourceVersion": "10",
            **({"deletionTimestamp": LATER} if deleted else {}),
        },
        "spec": {"suspend": suspend, "template": {"spec": {"containers": []}}},
        "status": {"conditions": conditions},
    }


def try_of(*, name="ws-k7mn2p-abcde", ports=(), conditions=(), at=LATER, **more):
    made = pod(
        metadata={
            "name": name,
            "creationTimestamp": at,
            "labels": {names.UID: UID, names.JOB: "ws-k7mn2p"},
            **more.pop("metadata", {}),
        },
        **more,
    )
    made["spec"]["containers"] = [{"name": "main", "ports": [{"containerPort": p} for p in ports]}]
    made["status"]["conditions"] += list(conditions)
    return made


def seen(the_job, the_pod=None, *, events=(), **more):
    return judge(Sight(the_job, the_pod, events, **more))


def over(code, phase="Failed", message="", **more):
    return try_of(main=ended(code, message=message, again=False), phase=phase, **more)


DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}

TABLE = [
    # what, job, pod, seen, reason, exit code, message
    ("just made", job(), None, Seen.CREATED, Reason.SCHEDULING, None, ""),
    ("held by a queue", job(suspend=True), None, Seen.CREATED, Reason.QUEUED, None, "no room"),
    (
        "put out of its queue",
        job(suspend=True),
        try_of(main=runs(), ready=True),
        Seen.STARTING,
        Reason.PREEMPTED,
        None,
        "no room",
    ),
    (
        "put out, and its program has ended by SIGTERM",
        job(suspend=True),
        over(5),
        Seen.CREATED,
        Reason.QUEUED,
        None,
        "no room",
    ),
    (
        "image not found",
        job(),
        try_of(main=waits("ErrImagePull", "not found"), phase="Pending"),
        Seen.STARTING,
        Reason.IMAGE_NOT_FOUND,
        None,
        "img:1: not found",
    ),
    ("runs", job(), try_of(main=runs(), ready=True), Seen.READY, "", None, ""),
    ("done", job(over="Complete"), over(0, "Succeeded", "all"), Seen.EXITED, "", 0, "all"),
    ("done, its Job does not know yet", job(), over(0, "Succeeded"), Seen.EXITED, "", 0, ""),
    ("partial", job(), over(3, message="2 bad"), Seen.EXITED, "", 3, "2 bad"),
    ("failed for good", job(over="Failed"), over(1), Seen.EXITED, "", 1, ""),
    ("failed once", job(), over(1), Seen.STARTING, Reason.TRIED_AGAIN, None, "exit code 1"),
    (
        "told to stop by a deletion that nobody explains",
        job(),
        over(5),
        Seen.STARTING,
        Reason.TRIED_AGAIN,
        None,
        "exit code 5",
    ),
    ("told to stop time after time", job(over="Failed"), over(5), Seen.EXITED, "", 5, ""),
    (
        "evicted",
        job(),
        over(5, conditions=[DISRUPTED]),
        Seen.STARTING,
        Reason.EVICTED,
        None,
        "",
    ),
    (
        "thrown out by its node",
        job(),
        over(137, reason="Evicted", message="low on memory"),
        Seen.STARTING,
        Reason.EVICTED,
        None,
        "low on memory",
    ),
    (
        "on a lost node",
        job(),
        try_of(main=runs(), ready=False),
        Seen.STARTING,
        Reason.NODE_LOST,
        None,
        "",
    ),
    ("complete, its pod removed", job(over="Complete"), None, Seen.EXITED, "", 0, ""),
    (
        "failed, its pod removed",
        job(over="Failed", message="Job has reached the specified backoff limit"),
        None,
        Seen.EXITED,
        "",
        None,
        "Job has reached the specified backoff limit",
    ),
    (
        "asked to end, not gone",
        job(note={"launch": 1, "reason": "stopped"}),
        try_of(main=runs(), ready=True),
        Seen.STOPPING,
        "",
        None,
        "",
    ),
    (
        "asked to end, gone",
        job(note={"launch": 1, "reason": "stopped", "at": 5.0}),
        None,
        Seen.EXITED,
        "stopped",
        None,
        "",
    ),
    (
        "how it ended stays when the pod goes",
        job(over="Complete", note={"launch": 1, "code": 3, "message": "2 bad", "at": 5.0}),
        None,
        Seen.EXITED,
        "",
        3,
        "2 bad",
    ),
    (
        "the note of an older launch says nothing",
        job(launch=2, note={"launch": 1, "code": 3}),
        None,
        Seen.CREATED,
        Reason.SCHEDULING,
        None,
        "",
    ),
    ("being removed", job(deleted=True), try_of(main=runs()), Seen.STOPPING, "", None, ""),
]


@pytest.mark.parametrize(
    ("the_job", "the_pod", "state", "reason", "code", "message"),
    [row[1:] for row in TABLE],
    ids=[row[0] for row in TABLE],
)
def test_every_state_has_one_reason(the_job, the_pod, state, reason, code, message):
    if the_pod is not None and "message" in the_pod["status"]:
        del the_pod["status"]["message"]
    lost = the_pod is not None and reason == Reason.NODE_LOST
    found = seen(the_job, the_pod, queued="no room", node_ready=False if lost else None)
    assert (found.seen, found.reason, found.exit_code) == (state, str(reason), code)
    if reason != Reason.EVICTED:
        assert found.message == message
    assert found.address == ""


def test_a_port_is_told_when_it_has_one():
    found = seen(job(), try_of(main=runs(), ready=True, ports=(8888,)))
    assert found.address == "10.244.0.7:8888"


def test_quota_that_is_full_is_said():
    events = [event("FailedCreate", 'pods "x" is forbidden: exceeded quota: objects', kind="Job")]
    assert seen(job(), events=events).reason == Reason.QUOTA_DENIED


def test_memory_that_ran_out_is_said():
    made = try_of(main=ended(137, "OOMKilled", again=False), phase="Failed")
    assert seen(job(over="Failed"), made).reason == Reason.OOM


def test_the_last_words_are_bounded():
    found = seen(job(), over(4, message="é" * 4000))
    assert len(found.message.encode()) <= 4096


def test_what_waits_for_another_try_is_starting():
    info = REASONS[Reason.TRIED_AGAIN]
    assert (info.phase, info.retry) == (Phase.STARTING, True)
    assert status_of("running", seen(job(), over(1)), launch=1).phase == Phase.STARTING


def test_the_newest_try_counts_and_none_of_an_older_launch():
    first = over(1, name="a", at="2026-11-21T06:00:00Z")
    second = try_of(name="b", main=runs(), at="2026-11-21T06:00:00Z")
    old = try_of(name="c", main=runs(), launch=0, at="2026-11-21T07:00:00Z")
    assert newest(job(), [first, second, old])["metadata"]["name"] == "b"
    second = over(0, "Succeeded", name="b", at="2026-11-21T06:00:00Z")
    second["metadata"]["resourceVersion"] = "12"  # made within the same second
    for pods in ([first, second], [second, first]):
        assert newest(job(), pods)["metadata"]["name"] == "b"
    assert newest(job(), [old]) is None


# --- what is written --------------------------------------------------------------------------------


@pytest.fixture
def stub(tmp_path):
    made = Stub(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def driver(stub):
    made = stub.driver()
    yield made
    made.close()


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
    ours = names.labels("berth-", uid=UID, kind="load")
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
    assert "activeDeadlineSeconds" not in at(stub)["spec"]
    assert driver.observe([UID])[UID].seen == Seen.EXITED
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

        return wait_for(good, seconds=30)

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
