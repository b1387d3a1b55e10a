"""Where the cluster's files lie, and the addresses and ports that its parts use."""

import hashlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULES = Path(__file__).resolve().parent / "modules"

NODE = "node1"
BRIDGE = "berth0"
HOST = "10.244.0.1"  # of the bridge: pods and host processes reach the cluster's parts here
POD_CIDR = "10.244.0.0/24"
SIMULATED_CIDR = "10.250.0.0/16"
SERVICE_CIDR = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
DNS_SERVICE = "10.96.0.10"
DOMAIN = "cluster.local"

API_PORT = 6443
ETCD_PORT = 23790
ETCD_PEER_PORT = 23800
REGISTRY_PORT = 5000
METRICS_SERVER_PORT = 14443
KWOK_PORT = 10247
KUEUE_PORTS = {"webhook": 19443, "visibility": 18082, "metrics": 18443, "health": 18083}
KUBE_ROUTER_PORT = 20244
KATIB_DATABASE_PORT = 15432

PORTS = {
    "etcd": [("127.0.0.1", ETCD_PORT), ("127.0.0.1", ETCD_PEER_PORT)],
    "registry": [("127.0.0.1", REGISTRY_PORT)],
    "kube-apiserver": [(HOST, API_PORT)],
    "kube-controller-manager": [("127.0.0.1", 10257)],
    "kube-scheduler": [("127.0.0.1", 10259)],
    "kubelet": [(HOST, 10250), ("127.0.0.1", 10248)],
    "kube-proxy": [("127.0.0.1", 10249), ("127.0.0.1", 10256)],
    "kube-router": [("0.0.0.0", KUBE_ROUTER_PORT)],  # noqa: S104 (kube-router listens everywhere)
    "metrics-server": [(HOST, METRICS_SERVER_PORT)],
    "kwok": [("127.0.0.1", KWOK_PORT)],
    "kueue": [
        ("127.0.0.1", KUEUE_PORTS["webhook"]),
        (HOST, KUEUE_PORTS["visibility"]),
        ("127.0.0.1", KUEUE_PORTS["metrics"]),
        ("127.0.0.1", KUEUE_PORTS["health"]),
    ],
}


def has_bridge() -> bool:
    """Asked of the kernel, not of /sys, which may be another network namespace's."""
    return BRIDGE in (name for _, name in socket.if_nameindex())


def cache() -> Path:
    """Programs and images outlive the cluster and the checkout: a second clone starts warm."""
    chosen = os.environ.get("BERTH_CLUSTER_CACHE")
    if chosen:
        return Path(chosen).absolute()
    if os.geteuid() == 0:
        return Path("/var/cache/berth-devcluster")
    return Path.home() / ".cache/berth/devcluster"


def volumes() -> Path:
    """The one folder under which directories are made for PersistentVolumes."""
    return Path(os.environ.get("BERTH_CLUSTER_VOLUMES") or "/var/lib/berth/volumes").absolute()


@dataclass(frozen=True)
class Layout:
    base: Path

    @classmethod
    def usual(cls) -> "Layout":
        chosen = os.environ.get("BERTH_CLUSTER_DIR")
        return cls(Path(chosen).absolute() if chosen else ROOT / "var/cluster")

    @property
    def group(self) -> str:
        """The control group of all pods; a kubelet ends what it does not know in its group."""
        return f"berth-{hashlib.sha256(str(self.base).encode()).hexdigest()[:8]}"

    @property
    def pki(self) -> Path:
        return self.base / "pki"

    @property
    def config(self) -> Path:
        return self.base / "config"

    @property
    def logs(self) -> Path:
        return self.base / "logs"

    @property
    def admin(self) -> Path:
        return self.base / "admin.kubeconfig"

    @property
    def state(self) -> Path:
        return self.base / "state.json"

    @property
    def processes(self) -> Path:
        return self.base / "processes.json"

    @property
    def socket(self) -> Path:
        return self.base / "containerd/containerd.sock"

    def kubeconfig(self, name: str) -> Path:
        return self.pki / f"{name}.kubeconfig"

    def made(self) -> "Layout":
        for folder in (self.base, self.pki, self.config, self.logs, self.socket.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self
