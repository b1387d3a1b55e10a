"""The cluster of ``make cluster-up`` is a real one: pods run, policies hold, queues admit."""

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from devcluster import fleet
from devcluster.kube import Kube, path_of
from devcluster.layout import BRIDGE, Layout
from devcluster.status import faults
from tests.cluster.asking import answered
from tests.cluster.pods import is_ready, phase, pod

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def kubectl(devcluster: dict[str, Any]) -> Run:
    program, config = devcluster["programs"]["kubectl"], devcluster["kubeconfig"]

    def call(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [program, f"--kubeconfig={config}", *words]
        return answered(
            lambda: subprocess.run(
                command, capture_output=True, text=True, timeout=120, check=False
            )
        )

    return call


@pytest.fixture
def run_pod(kube: Kube, namespace: str, devcluster: dict[str, Any]) -> Callable[..., Any]:
    def start(name: str, *, image: str = "tool", **more: Any) -> dict[str, Any]:
        kube.create(pod(namespace, name, devcluster["images"][image]["reference"], **more))
        found: dict[str, Any] = kube.until(
            f"{name} is ready",
            lambda: (one := kube.get("v1", "Pod", name, namespace)) and is_ready(one) and one,
            180,
        )
        return found

    return start


def test_all_parts_of_the_cluster_run(devcluster: dict[str, Any], kube: Kube) -> None:
    found = ["nobody could look"]

    def is_well() -> bool:
        found[:] = faults(Layout.usual())
        return not found

    with suppress(TimeoutError):  # a busy machine is late with an answer
        kube.until("no faults", is_well, 60)
    assert found == []
    assert devcluster["version"] == "v1.36.3"


def test_the_host_keeps_its_hardware_address_whatever_pod_comes_and_goes() -> None:
    bridge = Path("/sys/class/net") / BRIDGE
    before = (bridge / "address").read_text()
    words = ["add", "berth-low", "address", "02:00:00:00:00:01", "type", "veth"]
    subprocess.run(["ip", "link", *words, "peer", "name", "berth-low-end"], check=True)
    try:
        subprocess.run(["ip", "link", "set", "berth-low", "master", BRIDGE, "up"], check=True)
        assert (bridge / "address").read_text() == before
    finally:
        subprocess.run(["ip", "link", "del", "berth-low"], check=True)


def test_a_pod_runs_on_the_real_node_and_finds_names(
    run_pod: Any, kube: Kube, kubectl: Run
) -> None:
    found = run_pod("one")
    assert found["spec"]["nodeName"] == "node1"
    namespace = found["metadata"]["namespace"]
    words = ("-n", namespace, "exec", "one", "--", "getent", "hosts", "kubernetes.default.svc")
    kube.until("its name", lambda: kubectl(*words).stdout.startswith("10.96.0.1"))


def test_kubectl_reads_logs_and_runs_commands(run_pod: Any, kube: Kube, kubectl: Run) -> None:
    found = run_pod("talks", args=["sh", "-c", "echo it said this; sleep 600"])
    namespace = found["metadata"]["namespace"]
    said = ("-n", namespace, "logs", "talks")
    kube.until("its words", lambda: kubectl(*said).stdout == "it said this\n")
    done = kubectl("-n", namespace, "exec", "talks", "--", "sh", "-c", "id -u; exit 7")
    assert (done.stdout, done.returncode) == ("1000\n", 7)


def test_a_pod_that_asks_for_gpus_is_placed_on_the_node_that_has_them(run_pod: Any) -> None:
    gpus = {"limits": {"nvidia.com/gpu": "2"}}
    assert run_pod("gpus", resources=gpus)["spec"]["nodeName"] == "node1"


def test_more_gpus_than_the_real_node_has_are_refused_with_a_reason(
    kube: Kube, namespace: str, devcluster: dict[str, Any]
) -> None:
    image = devcluster["images"]["tool"]["reference"]
    kube.create(pod(namespace, "greedy", image, resources={"limits": {"nvidia.com/gpu": "5"}}))

    def reason() -> Any:
        found = kube.get("v1", "Pod", "greedy", namespace) or {}
        conditions = found.get("status", {}).get("conditions", [])
        return next((c["message"] for c in conditions if c.get("reason") == "Unschedulable"), None)

    assert "Insufficient nvidia.com/gpu" in kube.until("a reason", reason)


def test_a_network_policy_keeps_others_out_and_lets_its_own_in(
    run_pod: Any, kube: Kube, kubectl: Run, namespace: str
) -> None:
    server = run_pod("server", image="echo", labels={"app": "server"})
    run_pod("friend", labels={"app": "friend"})
    run_pod("stranger")
    address = f"http://{server['status']['podIP']}:8888/"

    def reaches(name: str) -> bool:
        words = ("-n", namespace, "exec", name, "--", "curl", "-sf", "-m", "10", address)
        return kubectl(*words).returncode == 0

    # A pod is "running" before the program in it listens.
    kube.until("the server answers", lambda: reaches("stranger"))
    policy = {
        "podSelector": {"matchLabels": {"app": "server"}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "friend"}}}]}],
    }
    kube.apply(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "friends", "namespace": namespace},
            "spec": policy,
        }
    )
    kube.until("the policy holds", lambda: not reaches("stranger"))
    kube.until("its own is let in", lambda: reaches("friend"))


def test_a_default_deny_closes_the_way_to_the_host_but_not_to_dns(
    run_pod: Any, kube: Kube, kubectl: Run, namespace: str, devcluster: dict[str, Any]
) -> None:
    run_pod("closed")
    dns = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    dns["podSelector"] = {"matchLabels": {"k8s-app": "kube-dns"}}
    ports = [{"protocol": p, "port": 53} for p in ("UDP", "TCP")]
    kube.apply(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "closed", "namespace": namespace},
            "spec": {
                "podSelector": {},
                "policyTypes": ["Ingress", "Egress"],
                "egress": [{"to": [dns], "ports": ports}],
            },
        }
    )

    def reaches(address: str) -> bool:
        words = ("-n", namespace, "exec", "closed", "--", "curl", "-sk", "-m", "10", address)
        return kubectl(*words).returncode == 0

    host = devcluster["host"]
    for way in (f"https://{host}:6443/", "https://10.96.0.1/", f"https://{host}:10250/"):
        kube.until(f"{way} is out of reach", lambda there=way: not reaches(there))
    words = ("-n", namespace, "exec", "closed", "--", "getent", "hosts", "kubernetes.default")
    kube.until("DNS", lambda: kubectl(*words).stdout.startswith("10.96.0.1"))


def test_the_simulated_fleet_has_the_gpus_that_it_should(kube: Kube) -> None:
    def ready() -> Any:
        found = kube.list("v1", "Node", labelSelector="type=kwok")
        return found if all(fleet.is_ready(node) for node in found) else None

    counts: dict[str, int] = {}
    for node in kube.until("all are ready", ready):
        product = node["metadata"]["labels"]["nvidia.com/gpu.product"]
        counts[product] = counts.get(product, 0) + int(
            node["status"]["allocatable"]["nvidia.com/gpu"]
        )
    assert counts == {
        "NVIDIA-H100-80GB-HBM3": 80,
        "NVIDIA-A100-SXM4-80GB": 48,
        "NVIDIA-A100-SXM4-40GB": 16,
        "NVIDIA-A2": 16,
        "Tesla-T4": 11,
    }


def simulated(namespace: str, name: str, **more: Any) -> dict[str, Any]:
    """A pod for the simulated nodes; nothing is started for it."""
    tolerations = [{"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}]
    more.setdefault("nodeSelector", {"type": "kwok"})
    return pod(namespace, name, "nothing", tolerations=tolerations, **more)


def test_ten_one_gpu_pods_fill_two_nodes_of_eight_with_the_packing_profile(
    kube: Kube, namespace: str
) -> None:
    only = {"type": "kwok", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    one = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "1"}}

    def placed() -> Any:
        found = kube.list("v1", "Pod", namespace)
        return found if all(phase(one) == "Running" for one in found) else None

    try:
        for number in range(10):
            more = {"nodeSelector": only, "schedulerName": "gpu-binpack", "resources": one}
            kube.create(simulated(namespace, f"packed-{number}", **more))
        used = {one["spec"]["nodeName"] for one in kube.until("all run", placed)}
        assert len(used) == 2
    finally:  # half of them, going, would have the next ones placed elsewhere
        kube.request("DELETE", path_of("v1", "Pod", namespace))
        kube.until("their end", lambda: not kube.list("v1", "Pod", namespace))


def queue(kube: Kube, namespace: str) -> Callable[[], None]:
    """A flavor, a queue for one namespace, and what removes them."""
    api = "kueue.x-k8s.io/v1beta2"
    flavor = {"metadata": {"name": namespace}, "spec": {"nodeLabels": {"type": "kwok"}}}
    flavor["spec"]["tolerations"] = [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]
    quotas = [{"name": n, "nominalQuota": q} for n, q in (("cpu", "2"), ("memory", "4Gi"))]
    group = {
        "coveredResources": ["cpu", "memory"],
        "flavors": [{"name": namespace, "resources": quotas}],
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    spec = {"resourceGroups": [group], "namespaceSelector": selector}
    kube.apply({"apiVersion": api, "kind": "ResourceFlavor", **flavor})
    kube.apply(
        {"apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": namespace}, "spec": spec}
    )
    local = {"name": "default", "namespace": namespace}
    kube.apply(
        {
            "apiVersion": api,
            "kind": "LocalQueue",
            "metadata": local,
            "spec": {"clusterQueue": namespace},
        }
    )

    def remove() -> None:
        for kind in ("ClusterQueue", "ResourceFlavor"):
            kube.delete(api, kind, namespace)

    return remove


def test_kueue_admits_a_job_of_a_managed_namespace_and_holds_the_next_one(
    kube: Kube, namespace: str
) -> None:
    kube.patch(
        f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"berth.dev/queue": "kueue"}}}
    )
    remove = queue(kube, namespace)
    try:
        for name in ("first", "second"):
            template = pod(
                "", name, "nothing", resources={"requests": {"cpu": "2", "memory": "1Gi"}}
            )
            template["metadata"] = {"annotations": {fleet.RUN_TIME: "2s"}}
            job = {"spec": {"template": {k: template[k] for k in ("metadata", "spec")}}}
            meta = {
                "name": name,
                "namespace": namespace,
                "labels": {"kueue.x-k8s.io/queue-name": "default"},
            }
            kube.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, **job})

        def done(name: str) -> Any:
            status = (kube.get("batch/v1", "Job", name, namespace) or {}).get("status", {})
            return status if "completionTime" in status else None

        ran = [kube.until(f"{name} ends", lambda n=name: done(n)) for name in ("first", "second")]
        before, after = sorted(ran, key=lambda status: status["startTime"])
        assert after["startTime"] >= before["completionTime"], "both ran at once, past the quota"
    finally:
        remove()


@pytest.mark.long("a guard of the cluster's own metrics; no other test of make test asks them")
def test_the_metrics_of_a_running_pod_come_within_half_a_minute(run_pod: Any, kube: Kube) -> None:
    found = run_pod("busy")
    namespace = found["metadata"]["namespace"]
    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods/busy"
    usage = kube.until("metrics", lambda: kube.request("GET", path)["containers"], 60)
    assert "memory" in usage[0]["usage"]


def volume(name: str, folder: str, namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {"berth.dev/directory": folder, "berth.dev/owner-uid": "1000"},
            "finalizers": ["berth.dev/directory"],
        },
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "claimRef": {"name": "home", "namespace": namespace},
            "hostPath": {"path": folder, "type": "Directory"},
        },
    }


def test_a_directory_is_made_for_a_volume_and_wiped_with_it(
    run_pod: Any, kube: Kube, kubectl: Run, namespace: str, devcluster: dict[str, Any]
) -> None:
    folder = f"{devcluster['volumes']}/{namespace}"
    kube.create(volume(namespace, folder, namespace))
    claim = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "",
        "volumeName": namespace,
        "resources": {"requests": {"storage": "1Gi"}},
    }
    meta = {"name": "home", "namespace": namespace}
    kube.create(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim}
    )
    volumes = [{"name": "home", "persistentVolumeClaim": {"claimName": "home"}}]
    script = "cd /tmp; stat -c '%u %a' /home/berth; sleep 600"
    spec = pod(
        namespace, "writer", devcluster["images"]["tool"]["reference"], args=["sh", "-c", script]
    )
    spec["spec"]["volumes"] = volumes
    spec["spec"]["containers"][0]["volumeMounts"] = [{"name": "home", "mountPath": "/home/berth"}]
    kube.create(spec)
    kube.until("it runs", lambda: is_ready(kube.get("v1", "Pod", "writer", namespace)))
    said = ("-n", namespace, "logs", "writer")
    kube.until("its folder is its own", lambda: kubectl(*said).stdout == "1000 700\n")
    words = (
        "-n",
        namespace,
        "exec",
        "writer",
        "--",
        "sh",
        "-c",
        "ln -s /etc /home/berth/x; echo hi >/home/berth/y",
    )
    assert kubectl(*words).returncode == 0
    kube.delete("v1", "Pod", "writer", namespace)
    kube.delete("v1", "PersistentVolumeClaim", "home", namespace)
    kube.delete("v1", "PersistentVolume", namespace)
    kube.until("the volume is gone", lambda: kube.get("v1", "PersistentVolume", namespace) is None)
    assert not Path(folder).exists()
    assert Path("/etc/passwd").exists()


def test_no_volume_reaches_out_of_the_base_folder(
    kube: Kube, namespace: str, devcluster: dict[str, Any]
) -> None:
    outside = f"{devcluster['volumes']}-other/{namespace}"
    kube.create(volume(namespace, outside, namespace))
    try:
        time.sleep(1)
        assert not Path(outside).exists()
    finally:
        kube.patch(f"/api/v1/persistentvolumes/{namespace}", {"metadata": {"finalizers": None}})
        kube.delete("v1", "PersistentVolume", namespace)
