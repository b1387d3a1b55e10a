"""The test of extra networks that is shipped (L3): what its manifests ask for, and what its Job says.

Traffic between cards needs cards; here both programs speak over loopback.
"""

import socket
import string
import subprocess
import sys
import time
from typing import Any

import pytest
import yaml

from tests.support.portal import ROOT
from tests.support.ports import free_port

FOLDER = ROOT / "deploy/isolation"
NETWORKS = "k8s.v1.cni.cncf.io/networks"
VALUES = {
    "IMAGE": "registry.example/lab:1",
    "NETWORK_A": "fabric/tenant-a",
    "NETWORK_B": "fabric/tenant-b",
    "RESOURCE_A": "nvidia.com/pf0_vf",
    "RESOURCE_B": "nvidia.com/pf1_vf",
    "ADDRESS_A": "127.0.0.1",
    "ADDRESS_B": "127.0.0.2",
}


def rendered(name: str) -> list[dict[str, Any]]:
    """As envsubst fills it in; a place without a value is an error."""
    text = string.Template((FOLDER / name).read_text()).substitute(VALUES)
    return list(yaml.safe_load_all(text))


def listeners() -> dict[str, dict[str, Any]]:
    return {o["metadata"]["namespace"]: o for o in rendered("listeners.yaml") if o["kind"] == "Pod"}


def job() -> dict[str, Any]:
    (made,) = rendered("job.yaml")
    return made


def asked(pod: dict[str, Any]) -> tuple[str, set[str]]:
    (container,) = pod["spec"]["containers"]
    limits = container["resources"]["limits"]
    assert {k: v for k, v in container["resources"]["requests"].items() if "/" in k} == {
        k: v for k, v in limits.items() if "/" in k
    }
    return pod["metadata"]["annotations"][NETWORKS], {k for k in limits if "/" in k}


def test_l3_each_pod_has_one_card_of_its_own_tenant_and_the_job_that_of_a() -> None:
    pods = listeners()
    assert asked(pods["berth-isolation-a"]) == ("fabric/tenant-a", {"nvidia.com/pf0_vf"})
    assert asked(pods["berth-isolation-b"]) == ("fabric/tenant-b", {"nvidia.com/pf1_vf"})
    made = job()
    assert asked(made["spec"]["template"]) == ("fabric/tenant-a", {"nvidia.com/pf0_vf"})
    assert (made["kind"], made["spec"]["backoffLimit"]) == ("Job", 0)  # one answer, not a lucky one
    assert made["metadata"]["namespace"] == "berth-isolation-a"


def test_l3_its_pods_are_restricted_as_those_of_projects_are() -> None:
    spaces = [o for o in rendered("listeners.yaml") if o["kind"] == "Namespace"]
    assert {o["metadata"]["name"] for o in spaces} == set(listeners())
    for space in spaces:
        assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for pod in [*listeners().values(), job()["spec"]["template"]]:
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        inside = spec["containers"][0]["securityContext"]
        assert inside == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def program(container: dict[str, Any], port: str) -> str:
    text = container["command"][2]
    return str(text).replace("8080", port).replace("sleep(1)", "sleep(0)")


@pytest.mark.parametrize(
    ("whose", "card", "code", "said"),
    [
        (("tenant-a", ""), "lo", 0, "ISOLATED"),
        (("tenant-a", "tenant-a"), "lo", 0, "ISOLATED"),  # the same address in a network of A
        (("tenant-a", "tenant-b"), "lo", 1, "OPEN"),
        (("", "tenant-b"), "lo", 1, "OPEN"),
        (("", ""), "lo", 1, "NOTHING PROVED"),
        (("tenant-a", ""), "none0", 1, "NOTHING PROVED"),
    ],
)
def test_l3_the_job_is_well_only_where_it_reached_its_own_network_and_no_other(
    whose: tuple[str, str], card: str, code: int, said: str
) -> None:
    port = str(free_port())
    listener = listeners()["berth-isolation-a"]["spec"]["containers"][0]
    client = job()["spec"]["template"]["spec"]["containers"][0]
    running = []
    try:
        for address, name in zip((VALUES["ADDRESS_A"], VALUES["ADDRESS_B"]), whose, strict=True):
            if not name:
                continue
            text = program(listener, port).replace('("", ', f'("{address}", ')
            running.append(subprocess.Popen([sys.executable, "-c", text], env={"WHOSE": name}))
            _until_heard(address, int(port))
        env = {entry["name"]: entry["value"] for entry in client["env"]} | {"CARD": card}
        words = [sys.executable, "-c", program(client, port)]
        done = subprocess.run(
            words, env=env, capture_output=True, text=True, check=False, timeout=60
        )
    finally:
        for one in running:
            one.kill()
            one.wait()
    assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done


def _until_heard(address: str, port: int) -> None:
    until = time.monotonic() + 30
    while True:
        try:
            socket.create_connection((address, port), timeout=1).close()
        except OSError:
            assert time.monotonic() < until, address
            time.sleep(0.05)
        else:
            return
