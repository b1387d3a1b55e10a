"""Says whether the cluster is up, and what is wrong when a part of it is not."""

from devcluster import checks, fleet, node, state
from devcluster.kube import Kube
from devcluster.layout import Layout
from devcluster.programs import FOR_PODS, OF_THE_CLUSTER
from tools.setup_shell import say

PARTS: tuple[str, ...] = (
    "etcd",
    "registry",
    "kube-router",
    "containerd",
    "provisioner",
    "kubelet",
    "kube-proxy",
)
PARTS += ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
BESIDES = tuple(name for name in OF_THE_CLUSTER if name not in FOR_PODS)


def report(layout: Layout) -> int:
    if not layout.admin.exists():
        say("There is no cluster here; `make cluster-up` makes one.")
        for sentence in checks.lacks():
            say(f"  {sentence}")
        return 3
    problems = faults(layout)
    known = state.read(layout)
    if known:
        say(f"Kubernetes {known['version']} at {known['server']}, KUBECONFIG={layout.admin}")
        for name, image in known["images"].items():
            say(f"  image {name}: {image['reference']}")
    say("\n".join(problems) if problems else "All parts run and answer.")
    return 1 if problems else 0


def faults(layout: Layout, *, ended: bool = True, whole: bool = True) -> list[str]:
    """One sentence for each part that does not do its work.

    ``ended``: after an ``up``; ``whole``: with the simulated fleet, the queue and the metrics.
    """
    running = state.running(layout)
    wanted = (*PARTS, *(BESIDES if whole else ()))
    found = [
        f"{name} does not run; its log: {layout.logs / name}.log"
        for name in (*wanted, *(extra for extra in running if extra not in wanted))
        if not running.get(name)
    ]
    if ended and state.read(layout) is None:
        found.append("The cluster was not brought up to the end; `make cluster-up` goes on.")
    if not running.get("kube-apiserver"):
        return found
    kube = Kube(layout.admin)
    try:
        if not kube.ready():
            return [*found, "The API server is not ready."]
        if not node.ready(kube):
            found.append("The real node is not ready.")
        if whole and not fleet.ready(kube):
            found.append("Not all simulated nodes are ready.")
    finally:
        kube.close()
    return found
