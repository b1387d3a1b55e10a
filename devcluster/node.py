"""The one real node: containerd, the bridge, the kubelet, kube-proxy and kube-router."""

import ipaddress
import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from devcluster import network_rules
from devcluster.control_plane import flags, write, write_text
from devcluster.kube import Kube, answers, path_of
from devcluster.layout import (
    BRIDGE,
    DNS_SERVICE,
    DOMAIN,
    HOST,
    KUBE_ROUTER_PORT,
    NODE,
    POD_CIDR,
    REGISTRY_PORT,
    SERVICE_CIDR,
    Layout,
    has_bridge,
)
from devcluster.programs import binary
from tools.setup_shell import SetupError, run, works

PAUSE = f"127.0.0.1:{REGISTRY_PORT}/berth/pause:1"
CNI_PLUGINS = ("/usr/lib/cni", "/opt/cni/bin")
NAMESPACES = Path("/run/netns")
SETTINGS = {
    "net/ipv4/ip_forward": "1",
    # Without it a pod reaches its neighbour past every rule.
    "net/bridge/bridge-nf-call-iptables": "1",
}
GPUS = 4
POD_PIDS = 2048
LABELS = {
    "nvidia.com/gpu.present": "true",
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.memory": "81559",
    "nvidia.com/gpu.count": str(GPUS),
    "nvidia.com/gpu.family": "hopper",
    "nvidia.com/mig.capable": "true",
    "nvidia.com/mig.strategy": "none",
    "berth.dev/simulated-gpu": "true",
}


def write_configuration(layout: Layout) -> None:
    (layout.config / "cni").mkdir(exist_ok=True)
    write(layout.config / "cni/10-berth.conflist", network(layout))
    write(layout.config / "kubelet.yaml", kubelet_configuration(layout))
    write(layout.config / "kube-proxy.yaml", proxy_configuration(layout))
    write_text(layout.config / "containerd.toml", containerd_configuration(layout))
    hosts = layout.config / f"registries/127.0.0.1:{REGISTRY_PORT}"
    hosts.mkdir(parents=True, exist_ok=True)
    write_text(
        hosts / "hosts.toml",
        f'server = "http://127.0.0.1:{REGISTRY_PORT}"\n'
        f'[host."http://127.0.0.1:{REGISTRY_PORT}"]\n'
        'capabilities = ["pull", "resolve"]\n',
    )


def cni_plugins() -> str:
    for folder in CNI_PLUGINS:
        if (Path(folder) / "bridge").exists():
            return folder
    raise SetupError("The CNI plugins are not there (containernetworking-plugins).")


def containerd_configuration(layout: Layout) -> str:
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""version = 2
root = "{layout.base}/containerd/root"
state = "{layout.base}/containerd/state"
[grpc]
address = "{layout.socket}"
[ttrpc]
address = "{layout.socket}.ttrpc"
[{cri}]
sandbox_image = "{PAUSE}"
max_concurrent_downloads = 4
# Some virtual machines lack CAP_SYS_RESOURCE; runc dies there without this.
restrict_oom_score_adj = true
stream_server_address = "127.0.0.1"
stream_server_port = "0"
[{cri}.cni]
bin_dir = "{cni_plugins()}"
conf_dir = "{layout.config}/cni"
[{cri}.registry]
config_path = "{layout.config}/registries"
[{cri}.containerd]
default_runtime_name = "runc"
snapshotter = "overlayfs"
[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""


def network(layout: Layout) -> dict[str, object]:
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(layout.base / "addresses"),
            "ranges": [[{"subnet": POD_CIDR, "gateway": HOST}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return {"cniVersion": "0.4.0", "name": "berth", "plugins": [bridge]}


def kubelet_configuration(layout: Layout) -> dict[str, object]:
    pki = layout.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": HOST,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / "kubelet-serving.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet-serving.key"),
        "containerRuntimeEndpoint": f"unix://{layout.socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.group}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [DNS_SERVICE],
        "clusterDomain": DOMAIN,
        "resolvConf": str(resolver(layout)),
        "podLogsDir": str(layout.base / "pod-logs"),
        "volumePluginDir": str(layout.base / "volume-plugins"),
        "maxPods": 250,
        # Threads count too. Without it a fork bomb in one pod ends in a node that cannot fork.
        "podPidsLimit": POD_PIDS,
        "registryPullQPS": 50,
        "registryBurst": 100,
        "serializeImagePulls": False,
        "maxParallelImagePulls": 3,
        "kubeAPIQPS": 200,
        "kubeAPIBurst": 300,
        # A developer's disk is often nearly full; the cluster is not to evict for that.
        "imageGCHighThresholdPercent": 99,
        "imageGCLowThresholdPercent": 98,
        "evictionHard": {"memory.available": "200Mi", "nodefs.available": "1%"},
        "shutdownGracePeriod": "0s",
        "logging": {"verbosity": 1},
    }


def resolver(layout: Layout) -> Path:
    """A name server on the host's loopback is none for a pod; the real list lies elsewhere."""
    for name in ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"):
        path = Path(name)
        servers = [
            line.split()[1]
            for line in (path.read_text().splitlines() if path.exists() else ())
            if line.startswith("nameserver") and len(line.split()) > 1
        ]
        if servers and not any(loopback(server) for server in servers):
            return path
    empty = layout.config / "resolv.conf"
    empty.write_text("")
    return empty


def loopback(server: str) -> bool:
    try:
        return ipaddress.ip_address(server.partition("%")[0]).is_loopback
    except ValueError:
        return True


def proxy_configuration(layout: Layout) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": POD_CIDR,
        "hostnameOverride": NODE,
        "clientConnection": {"kubeconfig": str(layout.kubeconfig("kube-proxy"))},
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s"},
    }


def containerd(layout: Layout) -> Iterable[object]:
    return ["containerd", "--config", layout.config / "containerd.toml", "--log-level", "warn"]


def containerd_ready(layout: Layout) -> bool:
    return layout.socket.exists() and works(ctr(layout, "version"))


def ctr(layout: Layout, *words: object) -> list[object]:
    return ["ctr", "--address", layout.socket, "--namespace", "k8s.io", *words]


def kubelet(layout: Layout) -> Iterable[object]:
    return [
        binary("kubelet"),
        *flags(
            {
                "config": layout.config / "kubelet.yaml",
                "kubeconfig": layout.kubeconfig("kubelet"),
                "root-dir": layout.base / "kubelet",
                "hostname-override": NODE,
                "node-ip": HOST,
            }
        ),
    ]


def kube_proxy(layout: Layout) -> Iterable[object]:
    return [binary("kube-proxy"), f"--config={layout.config / 'kube-proxy.yaml'}"]


def kube_router(layout: Layout) -> Iterable[object]:
    return [
        binary("kube-router"),
        *flags(
            {
                "kubeconfig": layout.kubeconfig("kube-router"),
                "run-firewall": "true",
                "run-router": "false",
                "run-service-proxy": "false",
                "enable-cni": "false",
                "hostname-override": NODE,
                "service-cluster-ip-range": SERVICE_CIDR,
                "health-port": KUBE_ROUTER_PORT,
                "iptables-sync-period": "1m",
            }
        ),
    ]


def kube_router_ready() -> bool:
    return answers(f"http://127.0.0.1:{KUBE_ROUTER_PORT}/healthz")


def make_network(layout: Layout) -> None:
    """The bridge is there before the first pod, so that the API server can listen on it."""
    if not Path("/proc/sys/net/bridge").exists() and shutil.which("modprobe"):
        works(["modprobe", "-a", "br_netfilter", "overlay"])
    remember_settings(layout)
    make_place_of_namespaces()
    if not has_bridge():
        run(["ip", "link", "add", BRIDGE, "type", "bridge"])
    addresses = run(["ip", "-o", "-4", "address", "show", "dev", BRIDGE])
    if HOST not in addresses:
        prefix = POD_CIDR.partition("/")[2]
        run(["ip", "address", "add", f"{HOST}/{prefix}", "dev", BRIDGE])
    # An address of its own: without one it has the lowest of its ports', and where that pod goes,
    # the others lose this host for as long as they remember it (half a minute and more).
    own = Path(f"/sys/class/net/{BRIDGE}/address").read_text().strip()
    run(["ip", "link", "set", BRIDGE, "address", own, "up"])
    for name, value in SETTINGS.items():
        (Path("/proc/sys") / name).write_text(value)
    network_rules.masquerade(POD_CIDR, BRIDGE)


def make_place_of_namespaces() -> None:
    """A shared mount, as iproute2 and podman make it when they find none.

    One that comes later covers what lies below: pods' namespaces could not be removed any more.
    """
    NAMESPACES.mkdir(parents=True, exist_ok=True)
    if not works(["mount", "--make-rshared", NAMESPACES]):
        run(["mount", "--bind", NAMESPACES, NAMESPACES])
        run(["mount", "--make-rshared", NAMESPACES])


def remember_settings(layout: Layout) -> None:
    """What the kernel had before, for ``down`` to put back."""
    path = layout.base / "kernel.json"
    if path.exists():
        return
    before = {}
    for name in SETTINGS:
        try:
            before[name] = (Path("/proc/sys") / name).read_text().strip()
        except OSError as error:
            raise SetupError(
                f"This kernel has no {name.replace('/', '.')}; a bridge with filters needs it."
            ) from error
    content = {"settings": before, "tables": sorted(network_rules.tables())}
    path.write_text(json.dumps(content))


# --- The node as an object ------------------------------------------------------------------------


def advertise(kube: Kube) -> None:
    """Extended resources without a device plugin: pods that ask for GPUs are placed and run."""
    path = path_of("v1", "Node", name=NODE)
    status = {"status": {"capacity": {"nvidia.com/gpu": str(GPUS)}}}
    kube.patch(f"{path}/status", status, kind="merge")
    kube.patch(path, {"metadata": {"labels": LABELS}}, kind="merge")


def ready(kube: Kube) -> bool:
    node = kube.get("v1", "Node", NODE)
    conditions = (node or {}).get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
