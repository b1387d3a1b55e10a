"""What one pod does to the node hits that pod alone: processes, disk, log (C11)."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from devcluster.kube import Kube
from tests.cluster.asking import answered
from tests.cluster.pods import is_ready, phase, pod

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.long("floods that slow the node for all others"),
]
Start = Callable[..., str]
MIB = 1024 * 1024
ANSWERS_S = 15  # an exec on a machine that does much else
TRIES, PATIENCE_S = 5, 120  # which may stand still for one of them

# Forks until it is refused, says how far it came, and goes on trying.
BOMB = """
import os, time
made, said = 0, False
while True:
    try:
        child = os.fork()
    except OSError as problem:
        if not said:
            print("refused after", made, problem.strerror, flush=True)
        said = True
        time.sleep(0.01)
        continue
    if child == 0:
        try:
            os.execv("/bin/sleep", ["sleep", "600"])
        except OSError:
            os._exit(1)
    made += 1
"""
FILL = """
import time
with open("/tmp/filled", "wb") as file:
    for _ in range(256):
        file.write(bytes(2**20))
        file.flush()
print("filled", flush=True)
time.sleep(600)
"""
# 100 MB of lines, twice what a node keeps of one container, in steps that let it rotate; then
# slowly more: the newest of the files that it turned away is compressed at the next turn only.
FLOOD = """
import sys, time
def write(lines, last):
    sys.stdout.write(("x" * 199 + "\\n") * lines + last + "\\n")
    sys.stdout.flush()
    time.sleep(1)
for _ in range(20):
    write(25_000, "more")
while True:
    write(2_500, "done")
"""


@pytest.fixture(scope="module")
def kubelet(kube: Kube, devcluster: dict[str, Any]) -> dict[str, Any]:
    """The configuration that the node's kubelet runs with."""
    path = f"/api/v1/nodes/{devcluster['node']}/proxy/configz"
    found: dict[str, Any] = kube.request("GET", path)["kubeletconfig"]
    return found


@pytest.fixture
def start(kube: Kube, namespace: str, devcluster: dict[str, Any]) -> Start:
    """Start a pod of the tool image and return its name when it is ready, or was."""

    def make(name: str, *command: str, memory: str = "64Mi", **limits: str) -> str:
        limits = {"cpu": "300m", "memory": memory} | {
            key.replace("_", "-"): value for key, value in limits.items()
        }
        size = {"limits": limits, "requests": {"cpu": "10m", "memory": "32Mi"}}
        image = devcluster["images"]["tool"]["reference"]
        kube.create(pod(namespace, name, image, command=list(command), resources=size))
        kube.until(
            f"{name} is ready",
            lambda: (
                (one := kube.get("v1", "Pod", name, namespace))
                and (is_ready(one) or phase(one) == "Failed")  # ended before somebody looked
            ),
            180,
        )
        return name

    return make


@pytest.fixture
def neighbour(start: Start, namespace: str, devcluster: dict[str, Any]) -> Callable[[], float]:
    """Another pod; a call runs a command in it some times and returns how long the best took."""
    name = start("neighbour", "sleep", "600")
    program, config = devcluster["programs"]["kubectl"], devcluster["kubeconfig"]
    into = [program, f"--kubeconfig={config}", "-n", namespace, "exec", name, "--"]

    def once() -> float:
        begun = time.monotonic()
        done = answered(
            lambda: subprocess.run(
                [*into, "sh", "-c", "echo $(echo here)"],  # it forks
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
        )
        assert done.stdout == "here\n", done.stderr
        return time.monotonic() - begun

    def ask() -> float:
        return min(once() for _ in range(TRIES))

    once()
    return ask


def log_of(kube: Kube, namespace: str, name: str, **options: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/log"
    return str(kube.request("GET", path, params=options))


def test_c11_a_fork_bomb_is_refused_at_the_limit_and_its_neighbour_goes_on(
    kube: Kube,
    kubelet: dict[str, Any],
    namespace: str,
    start: Start,
    neighbour: Callable[[], float],
) -> None:
    limit = int(kubelet.get("podPidsLimit", -1))
    if limit <= 0:
        pytest.skip("this node's kubelet sets no podPidsLimit (docs/runbook/clusters.md)")
    bomb = start("bomb", "python3", "-c", BOMB, memory="2Gi")
    said = kube.until("refused", lambda: log_of(kube, namespace, bomb), 300)
    assert said.startswith("refused after ")
    assert limit * 0.9 < int(said.split()[2]) < limit
    assert neighbour() < ANSWERS_S
    found = kube.get("v1", "Pod", "neighbour", namespace)
    assert found is not None
    assert is_ready(found)


def test_c11_a_pod_that_fills_the_disk_is_evicted_and_its_neighbour_is_not(
    kube: Kube, namespace: str, start: Start, neighbour: Callable[[], float]
) -> None:
    filler = start("filler", "python3", "-c", FILL, ephemeral_storage="32Mi")

    def status() -> dict[str, Any] | None:
        found = kube.get("v1", "Pod", filler, namespace) or {}
        now: dict[str, Any] = found.get("status", {})
        return now if now.get("phase") == "Failed" else None

    ended = kube.until("evicted", status, 300)
    assert ended["reason"] == "Evicted"
    assert "ephemeral" in ended["message"]
    assert neighbour() < ANSWERS_S


def test_c11_a_flood_of_lines_takes_no_more_disk_than_the_node_allows(
    kube: Kube,
    kubelet: dict[str, Any],
    namespace: str,
    start: Start,
    neighbour: Callable[[], float],
) -> None:
    assert kubelet["containerLogMaxSize"] == "10Mi"
    most = 10 * MIB * int(kubelet["containerLogMaxFiles"])
    name = start("flood", "python3", "-c", FLOOD)
    found = kube.get("v1", "Pod", name, namespace)
    assert found is not None
    uid = found["metadata"]["uid"]
    folder = Path(kubelet.get("podLogsDir") or "/var/log/pods") / f"{namespace}_{name}_{uid}"
    if not folder.exists():
        pytest.skip("the node's logs are not on this machine")

    def size_of(path: Path) -> int:
        with suppress(FileNotFoundError):  # it was turned away just now
            return path.stat().st_size if path.is_file() else 0
        return 0

    def kept() -> int:
        return sum(map(size_of, folder.rglob("*")))

    def ended() -> bool:
        return log_of(kube, namespace, name, tailLines="1").strip() == "done"

    kube.until("the flood is over", ended, 300)
    # the node turns away what is full every 10 s, or as late as a busy machine comes to it
    kube.until(f"at most {most} bytes are kept", lambda: 0 < kept() <= most, 180)
    assert neighbour() < ANSWERS_S
    assert len(log_of(kube, namespace, name, limitBytes="65536")) <= 65536
