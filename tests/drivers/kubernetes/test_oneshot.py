"""Programs that look into images: bounded in number, time and repetition."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.capabilities.programs import Attempt, Program, Tried
from runtime.drivers.kubernetes import oneshot
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import Denied
from runtime.reasons import Reason
from runtime.spec import Placement
from tests.drivers.kubernetes.stub import Stub

JOBS, PODS = "/apis/batch/v1/jobs", "/api/v1/pods"


def step(stub: Stub, program: str = "x", name: str = "probe-1", namespace: str = "ns") -> Tried:
    client = stub.client()
    try:
        asked = Program(
            namespace=namespace,
            name=name,
            image="a/b@sha256:1",
            command=(program, "--version"),
            placement=Placement(avoid={"pool": ("fabric",)}),
        )
        return oneshot.step(client, KubernetesOptions(), asked)
    finally:
        client.close()


def ended(stub: Stub, **terminated: Any) -> None:
    meta = {"name": "probe-1-x", "namespace": "ns", "labels": {oneshot.PROBE: "probe-1"}}
    status = {"containerStatuses": [{"state": {"terminated": terminated}}]}
    stub.put(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status})


def test_one_that_failed_is_not_tried_again_while_it_is_kept(stub: Stub) -> None:
    assert step(stub).state is Attempt.RUNNING
    ended(stub, exitCode=1, message="broken")
    for _ in range(3):
        assert step(stub) == Tried(Attempt.FAILED, "broken")
    assert stub.count("PATCH") == 1
    assert stub.count("DELETE") == 0
    job = stub.objects[(JOBS, "ns/probe-1")]["spec"]
    assert (job["activeDeadlineSeconds"], job["ttlSecondsAfterFinished"]) == (300, 300)


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("registry.example.org/other/private:1", "Always"),
        ("registry.example.org/a@sha256:1", "Always"),
        ("registry.example.org/ours:2", "IfNotPresent"),
    ],
)
def test_c10_what_another_project_pulled_with_its_sign_in_is_asked_for_again(
    image: str, policy: str
) -> None:
    options = KubernetesOptions(default_image="registry.example.org/ours:1")
    asked = Program("ns", "probe-1", image, ("x",), Placement())
    job = oneshot.build(options, asked)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["imagePullPolicy"] == policy


def test_c16_an_image_runs_on_no_node_that_is_reserved_for_others(stub: Stub) -> None:
    step(stub)
    pod = stub.objects[(JOBS, "ns/probe-1")]["spec"]["template"]["spec"]
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    kept_off = {"key": "pool", "operator": "NotIn", "values": ["fabric"]}
    assert required == {"nodeSelectorTerms": [{"matchExpressions": [kept_off]}]}


def test_one_that_took_too_long_is_not_tried_again_while_it_is_kept(stub: Stub) -> None:
    step(stub)
    over = {"type": "Failed", "status": "True", "message": "was active longer than its deadline"}
    stub.objects[(JOBS, "ns/probe-1")]["status"] = {"conditions": [over]}
    for _ in range(2):
        assert step(stub).state is Attempt.FAILED
    assert (stub.count("PATCH"), stub.count("DELETE")) == (1, 0)


def test_one_that_is_answered_makes_room(stub: Stub) -> None:
    step(stub)
    ended(stub, exitCode=127)
    assert step(stub).state is Attempt.ABSENT
    assert (JOBS, "ns/probe-1") not in stub.objects


@pytest.mark.parametrize(
    "said",
    [
        'runc create failed: exec: "jupyterhub-singleuser": executable file not found in $PATH',
        'exec: "/a/jupyterhub-singleuser": stat /a/jupyterhub-singleuser: no such file: unknown',
        "exec /usr/bin/jupyterhub-singleuser: no such file or directory",  # its interpreter
        "executable file `jupyterhub-singleuser` not found in $PATH: No such file or directory",
        'error finding executable "jupyterhub-singleuser" in PATH [/bin]: no such file',
    ],
)
def test_a_runtime_that_names_the_program_says_that_it_is_not_there(said: str) -> None:
    assert oneshot.lacks(said, "jupyterhub-singleuser")


@pytest.mark.parametrize(
    "said",
    [
        "failed to create shim task: open /run/containerd/x/log.json: no such file or directory",
        'error running prestart hook: exec: "nvidia-container-cli": executable file not found',
        'error mounting "/dev/infiniband": stat /dev/infiniband: no such file or directory',
        "cgroup /kubepods/pod-x not found",
        "image hub.example/jupyterhub-singleuser:1 not found",
        'exec: "jupyterhub-singleuser-hook": executable file not found in $PATH',
        'exec: "jupyterhub-singleuser": permission denied',
    ],
)
def test_trouble_of_a_node_says_nothing_of_an_image(stub: Stub, said: str) -> None:
    command = "jupyterhub-singleuser"
    step(stub, command)
    ended(stub, exitCode=128, reason="StartError", message=said)
    for _ in range(2):
        assert step(stub, command) == Tried(Attempt.FAILED, said[:300])
    assert stub.count("DELETE") == 0


def test_five_at_once_are_enough_for_a_project(stub: Stub) -> None:
    for number in range(5):
        assert step(stub, name=f"probe-{number}").state is Attempt.RUNNING
    with pytest.raises(Denied) as caught:
        step(stub, name="probe-5")
    assert caught.value.reason == Reason.QUOTA_DENIED
    assert step(stub, name="probe-5", namespace="another").state is Attempt.RUNNING
    assert step(stub, name="probe-4").state is Attempt.RUNNING  # it is under way: only looked at
    over = {"type": "Complete", "status": "True"}
    stub.objects[(JOBS, "ns/probe-0")]["status"] = {"conditions": [over]}
    assert step(stub, name="probe-5").state is Attempt.RUNNING
    assert (JOBS, "ns/probe-5") in stub.objects


def test_a_full_quota_is_told_as_such(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    from images import lookup

    def full(handler: Any, method: str, *_rest: Any) -> bool:
        if method == "PATCH":
            handler.refuse(403, "jobs.batch is forbidden: exceeded quota: objects")
        return method == "PATCH"

    stub.fault = full
    with pytest.raises(Denied) as caught:
        step(stub)
    assert caught.value.reason == Reason.QUOTA_DENIED
    driver = stub.driver()
    monkeypatch.setattr(lookup, "driver_for", lambda _key: driver)
    facts = lookup.ImageFacts(digest="sha256:" + "1" * 64)
    asked = {"cluster_key": "c", "namespace": "ns", "image": "a/b", "placement": Placement()}
    probing, why = lookup.learn(facts, **asked)
    driver.close()
    assert not probing
    assert why == "too many are under way in this project; try again later."
