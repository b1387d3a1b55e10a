"""What runs to its end: the Job word for word, and what it is by what is seen."""

import base64
import json

import pytest

from loaders.runtime_spec import RETRY
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders import workload
from runtime.drivers.kubernetes.observe import Sight
from runtime.drivers.kubernetes.observe_job import judge, newest
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.queued import Queued
from runtime.drivers.kubernetes.shapes import job as shape
from runtime.protocol import InvalidSpec, Seen
from runtime.reasons import REASONS, Reason
from runtime.spec import Mount, Resources
from runtime.workload_state import Phase, status_of
from tests.drivers.kubernetes.goldens import check
from tests.drivers.kubernetes.pieces import LATER, NS, UID, ended, event, pod, runs, waits
from tests.drivers.kubernetes.test_builders import HOME
from tests.drivers.kubernetes.test_builders import spec as described

JOBS, PODS, SECRETS = "/apis/batch/v1/jobs", "/api/v1/pods", "/api/v1/secrets"
OPTIONS = KubernetesOptions()
PLAN = {"plan.json": '{"key": "s3cret"}'}


def load(**options):
    defaults = {
        "kind": "load",
        "once": True,
        "retry": RETRY,
        "command": ("python3", "-I", "-m", "dataplane.copy", "{secrets}/plan.json"),
        "env": {"PLAN": "{secrets}/plan.json"},
        "mounts": (Mount(HOME, "data", name="home", owner="o"), Mount("v2", name="sets")),
        "probe": None,
        "resources": Resources(cpu_milli=1000, memory_mib=512),
        "secret_files": lambda: PLAN,
        "secret_env": lambda: {"BERTH_REPORT_TOKEN": "t0ken"},
    }
    return described(**{**defaults, **options})


def built(spec, **options):
    return shape.build(spec, KubernetesOptions(**options))[-1]


# --- what is asked for ----------------------------------------------------------------------------


def test_a_load():
    given = load()
    secrets = workload.secrets(given, OPTIONS, given.secret_env(), PLAN)
    check("load", *secrets, *shape.build(given, OPTIONS, files=True))


def test_a_load_in_a_queue():
    (made,) = shape.build(load(), KubernetesOptions(queue="default"))
    assert made["metadata"]["labels"][names.QUEUE] == "default"
    assert "suspend" not in made["spec"]  # Kueue's own to set
    assert names.QUEUE not in made["spec"]["template"]["metadata"]["labels"]


def test_exit_codes_that_are_final_end_the_job_and_a_disruption_comes_first():
    rules = built(load())["spec"]["podFailurePolicy"]["rules"]
    assert [rule["action"] for rule in rules] == ["Ignore", "FailJob"]
    assert rules[1]["onExitCodes"]["values"] == list(RETRY.never) == [3, 4]
    # A queue that puts a Job out deletes its pods without a word, and the policy looks at those too.
    assert 5 not in rules[1]["onExitCodes"]["values"]


def test_a2_secret_files_are_no_variables_and_stand_in_no_other_object():
    given = load()
    env, files = workload.secrets(given, OPTIONS, given.secret_env(), PLAN)
    assert set(files["data"]) == {"plan.json"}
    assert "plan.json" not in env["data"]
    assert base64.b64decode(env["data"]["PLAN"]) == b"/var/run/berth/secrets/plan.json"
    told = json.dumps(shape.build(given, OPTIONS, files=True))
    assert "s3cret" not in told
    assert "t0ken" not in told


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "x" * 200])
def test_c8_a_volume_is_mounted_below_its_folder_only(name):
    given = load(mounts=(Mount("v/1" if not name else "v1", name=name),))
    with pytest.raises(InvalidSpec):
        shape.build(given, OPTIONS)


# --- what it is -------------------------------------------------------------------------------------


def job(*, over="", launch=1, suspend=False, note=None, deleted=False, message="", retry=RETRY):
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
        "spec": {
            "suspend": suspend,
            "backoffLimit": retry.attempts - 1,
            "podFailurePolicy": {"rules": shape._rules(retry)},
            "template": {"spec": {"containers": []}},
        },
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
        Reason.DRAINED,
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
    found = seen(
        the_job, the_pod, queued=Queued(text="no room"), node_ready=False if lost else None
    )
    assert (found.seen, found.reason, found.exit_code) == (state, str(reason), code)
    if reason not in {Reason.EVICTED, Reason.DRAINED}:
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


def test_code_that_did_not_come_is_no_end_of_the_program():
    said = "Its code could not be fetched from the portal: HTTP Error 404: Not Found"
    brings = {"name": names.BRINGS, **ended(1, again=False, message=said)}
    held = waits("PodInitializing")
    made = try_of(main=held, phase="Failed", initContainerStatuses=[brings])
    found = seen(job(over="Failed"), made)
    assert (found.seen, found.reason, found.message) == (Seen.EXITED, "code-not-fetched", said)
    assert status_of("running", found, launch=1).phase == Phase.FAILED


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
