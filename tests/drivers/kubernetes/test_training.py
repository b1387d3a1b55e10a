"""The objects of operators of training: what each role asks for, who they are, how they are judged."""

import json
import re
from dataclasses import replace

import pytest

from runtime import training
from runtime.drivers.kubernetes import names, observe_job, shapes
from runtime.drivers.kubernetes.builders import workload
from runtime.drivers.kubernetes.observe import Sight
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.shapes.operated import as_job
from runtime.protocol import Seen
from runtime.spec import Mount, Network, Placement, Resources, RetryPolicy, Together
from tests.drivers.kubernetes.test_groups import work

OPTIONS = KubernetesOptions(queue="berth")
FRAMEWORKS = [("pytorch", "trainer"), ("tensorflow", "jobset"), ("mpi", "mpi")]
_ASKED = ("requests", "limits")
FRAMEWORKS += [("pytorch", "pytorchjob"), ("tensorflow", "tfjob")]


def asked(framework, operator, replicas=3, **more):
    servers = 1 if framework == "tensorflow" else 0
    roles = training.groups(framework, replicas, servers)
    defaults = {"queue": "team-a", "priority": "urgent", "retry": RetryPolicy(2)}
    return work(groups=roles, framework=framework, operator=operator, **{**defaults, **more})


def pods_of(objects):
    """Every pod template in it, wherever its operator wants it."""
    if isinstance(objects, dict):
        if "containers" in objects.get("spec", {}):
            yield objects
        for value in objects.values():
            yield from pods_of(value)
    elif isinstance(objects, list):
        for value in objects:
            yield from pods_of(value)


@pytest.mark.parametrize(("framework", "operator"), FRAMEWORKS)
def test_queue_and_priority_are_on_what_is_queued_and_every_role_asks(framework, operator):
    """A launcher without requests runs past every quota (trap 1.6)."""
    spec = asked(framework, operator)
    *beside, made = shapes.of_spec(spec).build(spec, OPTIONS)
    assert made["metadata"]["labels"][names.QUEUE] == "team-a"
    assert made["metadata"]["labels"][names.PRIORITY] == "urgent"
    assert not any(names.QUEUE in one["metadata"]["labels"] for one in beside)
    found = list(pods_of([*beside, made]))
    assert found
    for pod in found:
        (container,) = pod["spec"]["containers"]
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        labels = pod["metadata"]["labels"]
        assert (labels[names.UID], names.QUEUE in labels) == (spec.uid, False)
        assert labels[names.WORKLOAD] == made["metadata"]["name"]
    policy = next(one for one in beside if one["kind"] == "NetworkPolicy")
    assert policy["spec"]["podSelector"]["matchLabels"] == {names.UID: spec.uid}


@pytest.mark.parametrize(("framework", "operator"), FRAMEWORKS)
def test_l6_every_role_has_the_cards_of_its_network_and_is_told_of_them(framework, operator):
    cards = Network(
        ("fabric/rail-0", "fabric/rail-1"), {"example.com/rdma_vf": 2}, {"NCCL_IB": "1"}
    )
    spec = asked(framework, operator, network=cards)
    for pod in pods_of(shapes.of_spec(spec).build(spec, OPTIONS)):
        (container,) = pod["spec"]["containers"]
        held = [container["resources"][what]["example.com/rdma_vf"] for what in _ASKED]
        notes = pod["metadata"]["annotations"]
        assert (held, notes["k8s.v1.cni.cncf.io/networks"]) == (
            ["2", "2"],
            "fabric/rail-0,fabric/rail-1",
        )
    assert workload.environment(spec, {})["NCCL_IB"] == "1"


@pytest.mark.parametrize(("framework", "operator"), [*FRAMEWORKS, ("", "")])
def test_g13_no_pod_of_one_launch_has_its_checkpoints_in_itself(framework, operator):
    """One that the cluster makes anew finds what those before it wrote, and is led to it."""
    volume = {"mounts": (Mount("data-1", name="shared"),), "checkpoints": "shared/runs/k7"}
    spec = asked(framework, operator, **volume)
    options = replace(OPTIONS, data_image="registry.example/data")
    objects = shapes.of_spec(spec).build(spec, options)
    folder = workload.environment(spec, {})["BERTH_CHECKPOINTS"]
    found = list(pods_of(objects))
    assert found
    for pod in found:
        (first,), (container,) = pod["spec"]["initContainers"], pod["spec"]["containers"]
        assert folder in first["command"]
        for one in (first, container):
            mount = next(m for m in one["volumeMounts"] if folder.startswith(m["mountPath"]))
            lies = next(v for v in pod["spec"]["volumes"] if v["name"] == mount["name"])
            assert lies["persistentVolumeClaim"]["claimName"] == names.claim("data-1")
    policies = set(re.findall(r'"restartPolicy": "(\w+)"', json.dumps(objects)))
    # Only the training operator's begin again in their pods, where nothing leads them: the plan
    # of the job says so (jobs/kind.py).
    in_place = operator in {training.PYTORCHJOB, training.TFJOB}
    assert policies == ({"OnFailure"} if in_place else {"Never"})


@pytest.mark.parametrize("operator", ["jobset", "tfjob"])
def test_servers_of_a_size_of_their_own_see_no_gpu_and_stand_anywhere(operator):
    size = Resources(cpu_milli=500, memory_mib=256)
    roles = training.groups("tensorflow", 3, 2, size)
    spec = work(
        groups=roles,
        framework="tensorflow",
        operator=operator,
        queue="team-a",
        resources=Resources(cpu_milli=8000, memory_mib=4096, gpus=4),
        network=Network(resources={"example.com/rdma_vf": 1}),
        placement=Placement(any_of=({"nvidia.com/gpu.product": "H100"},), ranks=(0,)),
    )
    found = {}
    for pod in pods_of(shapes.of_spec(spec).build(spec, OPTIONS)):
        container, role = pod["spec"]["containers"][0], pod["metadata"]["labels"][names.ROLE]
        limits = container["resources"]["limits"]
        seen = {one["name"]: one.get("value") for one in container["env"]}
        found[role] = (
            *(limits["cpu"], limits["memory"], limits.get("nvidia.com/gpu")),
            *(limits.get("example.com/rdma_vf"), "affinity" in pod["spec"]),
            seen.get("NVIDIA_VISIBLE_DEVICES"),
        )
    works = ("8", "4096Mi", "4", "1", True, None)
    servers = ("500m", "256Mi", None, None, False, "void")
    assert found == {"chief": works, "worker": works, "ps": servers}


@pytest.mark.parametrize(("framework", "operator"), FRAMEWORKS)
@pytest.mark.parametrize("name", ["学習の一", "A" * 63, "-x-", "train.v1", "ws"])
def test_any_name_gives_a_valid_and_distinct_one_with_room_for_its_pods(framework, operator, name):
    made = []
    for uid in ("1" * 32, "2" * 32):
        spec = asked(framework, operator, replicas=64, name=name, uid=uid)
        made.append(shapes.of_spec(spec).build(spec, OPTIONS)[-1]["metadata"]["name"])
    first = made[0]
    assert names._DNS.match(first)
    assert max(len(f"{first}-worker-0-63"), len(f"{first}-launcher-abcde")) <= 63
    assert first[0].isalpha()
    if name == "学習の一":
        assert made[0] != made[1]


def whole(framework, operator, conditions, codes, *, noted=False):
    spec = asked(framework, operator, retry=RetryPolicy(1))
    owner = shapes.of_spec(spec).build(spec, OPTIONS)[-1]
    owner["metadata"]["uid"] = "o"
    if noted:  # its end was written down before all its pods were seen
        note = json.dumps({"launch": spec.launch, "code": 0})
        owner["metadata"]["annotations"][names.ENDED] = note
    owner["status"] = {"conditions": [{"type": c, "status": "True"} for c in conditions]}
    shape = shapes.of_owner(owner)
    pods = []
    for number, (role, code) in enumerate(zip(training.roles(spec.groups), codes, strict=True)):
        if code is None:
            continue
        ended = {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:00:10Z"}}
        state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}} if code == "runs" else ended
        before = training.roles(spec.groups)[:number].count(role)
        index = number if operator == "trainer" else before
        labels = {names.WORKLOAD: owner["metadata"]["name"], names.ROLE: role}
        labels |= {} if operator == "mpi" else {names.INDEX: str(index)}
        labels[names.ROLE] = spec.groups[0].role if operator == "trainer" else role
        pods.append(
            {
                "metadata": {
                    "name": f"{owner['metadata']['name']}-{role}-{before}",
                    "annotations": {names.LAUNCH: str(spec.launch)},
                    "labels": labels,
                },
                "spec": {"nodeName": "n", "containers": [{"name": "main"}]},
                "status": {
                    "phase": "Running" if code == "runs" else "Failed" if code else "Succeeded",
                    "containerStatuses": [{"name": "main", "state": state}],
                },
            }
        )
    found = shape.pods(owner, pods)
    return shape.observe([Sight(owner, pod) for pod in found])


def test_one_of_eight_that_is_dead_is_named_and_its_end_is_the_wholes():
    codes = ["runs", "runs", 137]
    seen = whole("pytorch", "trainer", ["Failed"], codes)
    assert (seen.seen, seen.exit_code) == (Seen.EXITED, 137)
    assert [(one.role, one.exit_code) for one in seen.replicas][2] == ("worker", 137)


@pytest.mark.parametrize("conditions", [["Complete"], []], ids=["told", "stopped before"])
def test_a_pod_that_the_watch_has_not_told_of_ended_well_where_the_whole_did(conditions):
    seen = whole("pytorch", "trainer", conditions, [0, 0, None], noted=True)
    assert [(one.exit_code, one.reason) for one in seen.replicas] == [(0, "")] * 3


def test_mpi_has_succeeded_with_its_launcher_whatever_becomes_of_the_workers():
    seen = whole("mpi", "mpi", ["Succeeded"], [0, None, None])
    assert (seen.seen, seen.exit_code) == (Seen.EXITED, 0)
    assert [(one.role, one.exit_code, one.reason) for one in seen.replicas] == [
        ("launcher", 0, ""),
        ("worker", None, "stopped"),
        ("worker", None, "stopped"),
    ]


def test_tensorflows_workers_decide_and_not_its_servers():
    seen = whole("tensorflow", "jobset", ["Completed"], [0, 0, None, None])
    ends = [(one.role, one.exit_code) for one in seen.replicas]
    assert (seen.exit_code, ends) == (
        0,
        [("chief", 0), ("worker", 0), ("worker", 0), ("ps", None)],
    )


def test_each_slot_is_a_gpu_and_a_replica_without_any_is_one():
    for gpus, slots in ((0, 1), (4, 4)):
        size = Resources(cpu_milli=1000, memory_mib=64, gpus=gpus)
        spec = asked("mpi", "mpi", resources=size)
        made = shapes.of_spec(spec).build(spec, OPTIONS)[-1]["spec"]
        assert made["slotsPerWorker"] == slots
        assert made["mpiReplicaSpecs"]["Worker"]["replicas"] == 2


@pytest.mark.parametrize(
    ("framework", "operator", "servers", "group"),
    [
        ("pytorch", "trainer", 0, None),  # all are of one set
        ("tensorflow", "jobset", 0, "all"),
        ("tensorflow", "jobset", 1, None),  # Kueue keeps two sets together, not three
        ("mpi", "mpi", 0, "all"),
    ],
)
def test_l6_roles_that_must_stand_together_are_placed_together(framework, operator, servers, group):
    together = Placement(together=Together("berth.dev/unit", required=True))
    roles = training.groups(framework, 4, servers)
    spec = work(groups=roles, framework=framework, operator=operator, queue="a", placement=together)
    for pod in pods_of(shapes.of_spec(spec).build(spec, OPTIONS)):
        notes = pod["metadata"]["annotations"]
        assert notes["kueue.x-k8s.io/podset-required-topology"] == "berth.dev/unit"
        assert notes.get("kueue.x-k8s.io/podset-group-name") == group


@pytest.mark.parametrize(
    ("operator", "role", "notes", "started_again", "status", "found"),
    [
        ("trainer", "worker", {names.FAILURES: "1", names.IGNORED: "2"}, 0, {}, 3),
        ("pytorchjob", "worker", {}, 2, {}, 2),
        ("mpi", "launcher", {}, 0, {"replicaStatuses": {"Launcher": {"failed": 1}}}, 1),
        ("mpi", "worker", {}, 0, {"replicaStatuses": {"Launcher": {"failed": 1}}}, 0),
    ],
)
def test_how_often_a_replica_began_anew_is_what_its_cluster_counts(
    operator, role, notes, started_again, status, found
):
    framework = "mpi" if operator == "mpi" else "pytorch"
    spec = asked(framework, operator)
    owner = shapes.of_spec(spec).build(spec, OPTIONS)[-1] | {"status": status}
    main = {"name": "main", "restartCount": started_again}
    pod = {"metadata": {"annotations": notes}, "status": {"containerStatuses": [main]}}
    assert observe_job.restarts_of(as_job(owner), pod, role) == found


@pytest.mark.parametrize(("framework", "operator"), FRAMEWORKS[3:])
@pytest.mark.parametrize(("attempts", "limit"), [(1, None), (2, 5), (4, 13)])
def test_the_training_operator_allows_what_all_replicas_may_begin_anew(
    framework, operator, attempts, limit
):
    """It adds the starts of all pods, servers too: a failure that all share ends each of them."""
    replicas = 3 if framework == "tensorflow" else 4
    spec = asked(framework, operator, replicas=replicas, retry=RetryPolicy(attempts))
    *_beside, made = shapes.of_spec(spec).build(spec, OPTIONS)
    assert made["spec"]["runPolicy"].get("backoffLimit") == limit


def test_a_replica_that_its_node_starts_again_is_over_when_its_attempts_are_used_up():
    spec = asked("pytorch", "pytorchjob", retry=RetryPolicy(2))
    owner = as_job(shapes.of_spec(spec).build(spec, OPTIONS)[-1])
    waits = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    ended = {"lastState": {"terminated": {"exitCode": 7, "finishedAt": "2026-01-01T00:00:10Z"}}}
    seen = []
    for again in (0, 1):
        main = {"name": "pytorch", "restartCount": again, **waits, **ended}
        pod = {
            "metadata": {"name": "p", "annotations": {names.LAUNCH: str(spec.launch)}},
            "spec": {"nodeName": "n", "containers": [{"name": "pytorch"}]},
            "status": {"phase": "Running", "containerStatuses": [main]},
        }
        told = observe_job.judge_group([Sight(owner, pod) for _ in range(3)])
        seen.append((told.seen, told.exit_code, told.reason))
    assert seen == [(Seen.STARTING, None, "tried-again"), (Seen.EXITED, 7, "")]
