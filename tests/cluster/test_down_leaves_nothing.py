"""A whole life of a cluster, in a network and mount namespace beside the one that is in use.

Its own folder, control group, bridge and packet filters: whatever ``down`` forgets is seen, and
nothing of another cluster is touched.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster import checks
from devcluster.layout import ROOT
from devcluster.programs import unbuilt

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.root,
    pytest.mark.timeout(1200),
    pytest.mark.long("the whole life of a second cluster"),
]
# Folders that programs have hard-coded; here each is an empty one of this namespace's own.
FIXED = ("/var/lib/cni", "/etc/kueue", "/visibility")
ANSWERS_S = 60
WARM_S = 180  # the goal is 30 on a machine of its own; tests share theirs


class Beside:
    """Runs commands in namespaces that live as long as one sleeping process."""

    def __init__(self, folder: Path) -> None:
        self.env = {
            **os.environ,
            "BERTH_CLUSTER_DIR": str(folder / "cluster"),
            "BERTH_CLUSTER_VOLUMES": str(folder / "volumes"),
            "PYTHONPATH": str(ROOT),
        }
        hide = "; ".join(f"mkdir -p {place}; mount -t tmpfs none {place}" for place in FIXED)
        script = f"{hide}; ip link set lo up; echo ready; exec sleep 3600"
        self.holder = subprocess.Popen(
            ["unshare", "-n", "-m", "--propagation", "private", "sh", "-ec", script],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.holder.stdout is not None
        assert self.holder.stdout.readline() == "ready\n"

    def __call__(self, *words: object) -> "subprocess.CompletedProcess[str]":
        inside = ["nsenter", "-t", self.holder.pid, "-n", "-m", *words]
        command = [str(word) for word in inside]
        return subprocess.run(
            command,
            cwd=ROOT,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def cluster(self, verb: str) -> "subprocess.CompletedProcess[str]":
        return self(sys.executable, "-m", "devcluster", verb)

    def is_well(self) -> bool:
        """A busy machine is late with an answer; what ended does not begin again by itself."""
        end = time.monotonic() + ANSWERS_S
        while self.cluster("status").returncode != 0:
            if time.monotonic() > end:
                return False
            time.sleep(1)
        return True

    def network_namespaces(self) -> set[str]:
        """Those that are mounted here: the ones of before were copied, no others come in."""
        lines = self("cat", "/proc/self/mountinfo").stdout.splitlines()
        return {line.split()[4] for line in lines if line.split(" - ")[1].startswith("nsfs ")}

    def end(self) -> None:
        self.holder.kill()
        self.holder.wait()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: sockets lie below, and their paths may have a hundred characters."""
    made = Path(tempfile.mkdtemp(prefix="berth-", dir="/var/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def beside(folder: Path) -> Iterator[Beside]:
    if checks.lacks() or unbuilt():
        pytest.skip("the machine lacks something for a cluster (make cluster-status says what)")
    there = Beside(folder)
    yield there
    there.cluster("down")
    there.end()


def test_a_cluster_comes_up_is_repaired_and_leaves_nothing(beside: Beside, folder: Path) -> None:
    others = beside.network_namespaces()
    begun = time.monotonic()
    up = beside.cluster("up")
    took = time.monotonic() - begun
    assert up.returncode == 0, up.stdout + up.stderr
    assert took < WARM_S, f"{took:.0f} s\n{up.stdout}"

    state = json.loads((folder / "cluster/state.json").read_text())
    kubectl = (state["programs"]["kubectl"], f"--kubeconfig={state['kubeconfig']}")
    run = ("run", "one", f"--image={state['images']['tool']['reference']}", "--restart=Never")
    assert beside(*kubectl, *run).returncode == 0
    ready = ("wait", "pod/one", "--for=condition=Ready", "--timeout=180s")
    waited = beside(*kubectl, *ready)
    assert waited.returncode == 0, waited.stderr

    assert beside.is_well()
    processes = json.loads((folder / "cluster/processes.json").read_text())
    os.kill(processes["kube-scheduler"]["pid"], signal.SIGKILL)
    told, end = "kube-scheduler does not run", time.monotonic() + ANSWERS_S
    broken = beside.cluster("status")
    while told not in broken.stdout and time.monotonic() < end:  # on its way out, or asked late
        broken = beside.cluster("status")
    assert broken.returncode == 1
    assert told in broken.stdout
    again = beside.cluster("up")
    assert again.returncode == 0, again.stdout + again.stderr
    assert beside.is_well()
    assert beside(*kubectl, "get", "pod", "one").returncode == 0, "what runs is left alone"
    after = json.loads((folder / "cluster/processes.json").read_text())
    changed = {name for name, record in after.items() if record != processes[name]}
    assert changed == {"kube-scheduler"}
    time.sleep(2)  # for a program that ends because a file of its was touched
    assert beside.is_well()

    pods = beside.network_namespaces() - others
    assert pods, "pods have network namespaces of their own, else the look below sees nothing"
    down = beside.cluster("down")
    assert down.returncode == 0, down.stdout + down.stderr
    assert "nothing of it is left" in down.stdout
    assert list(folder.iterdir()) == []
    assert beside("ip", "-o", "link", "show").stdout.count("\n") == 1, "only loopback is left"
    assert beside("nft", "list", "tables").stdout == "", "there were no packet filters before"
    assert beside.network_namespaces() <= others, "network namespaces are still mounted"
    assert [name for name in sorted(pods) if Path(name).exists()] == []
    assert processes_of(folder) == []
    assert beside.cluster("status").returncode == 3


def processes_of(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words:
            found.append(words)
    return found
