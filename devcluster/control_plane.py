"""etcd, the API server, the controllers and the scheduler: configuration and command lines."""

import json
from collections.abc import Iterable
from pathlib import Path

from devcluster.layout import (
    API_PORT,
    ETCD_PEER_PORT,
    ETCD_PORT,
    HOST,
    SERVICE_CIDR,
    Layout,
)
from devcluster.programs import binary

# Their requests say nothing about what the portal does.
OWN_USERS = [
    "system:apiserver",
    "system:kube-scheduler",
    "system:kube-controller-manager",
    "system:kube-proxy",
    "berth-cluster:kwok",
    "berth-cluster:kueue",
    "berth-cluster:kube-router",
    "berth-cluster:metrics-server",
    "berth-cluster:storage",
]
OWN_GROUPS = ["system:nodes", "system:serviceaccounts:kube-system"]


def write_configuration(layout: Layout) -> None:
    write(layout.config / "audit.yaml", audit_policy())
    write(layout.config / "scheduler.yaml", scheduler_configuration(layout))


def write(path: Path, content: object) -> None:
    """JSON is YAML."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Only what changes: kube-proxy, for one, ends when its file is written again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def audit_policy() -> dict[str, object]:
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "users": OWN_USERS},
            {"level": "None", "userGroups": OWN_GROUPS},
            {"level": "None", "nonResourceURLs": ["/readyz*", "/livez*", "/healthz*", "/openapi*"]},
            {"level": "Metadata"},
        ],
    }


def scheduler_configuration(layout: Layout) -> dict[str, object]:
    """The usual profile, and one that fills a GPU node before it opens the next."""
    packed = {
        "schedulerName": "gpu-binpack",
        "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {
                    "scoringStrategy": {
                        "type": "MostAllocated",
                        "resources": [
                            {"name": "nvidia.com/gpu", "weight": 10},
                            {"name": "cpu", "weight": 1},
                            {"name": "memory", "weight": 1},
                        ],
                    }
                },
            }
        ],
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": str(layout.kubeconfig("scheduler")),
            "qps": 500,
            "burst": 1000,
        },
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": "default-scheduler"}, packed],
    }


def flags(pairs: dict[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in pairs.items()]


def etcd(layout: Layout) -> Iterable[object]:
    pki = layout.pki
    client, peer = f"https://127.0.0.1:{ETCD_PORT}", f"http://127.0.0.1:{ETCD_PEER_PORT}"
    return [
        binary("etcd"),
        # A test cluster may be lost with the machine.
        "--unsafe-no-fsync",
        *flags(
            {
                "name": "berth",
                "data-dir": layout.base / "etcd",
                "listen-client-urls": client,
                "advertise-client-urls": client,
                "listen-peer-urls": peer,
                "initial-advertise-peer-urls": peer,
                "initial-cluster": f"berth={peer}",
                "cert-file": pki / "etcd.crt",
                "key-file": pki / "etcd.key",
                "client-cert-auth": "true",
                "trusted-ca-file": pki / "ca.crt",
                "auto-compaction-retention": "10m",
                "quota-backend-bytes": 2 * 2**30,
                "log-level": "warn",
            }
        ),
    ]


def apiserver(layout: Layout) -> Iterable[object]:
    pki = layout.pki
    return [
        binary("kube-apiserver"),
        *flags(
            {
                "bind-address": HOST,
                "advertise-address": HOST,
                "secure-port": API_PORT,
                "etcd-servers": f"https://127.0.0.1:{ETCD_PORT}",
                "etcd-cafile": pki / "ca.crt",
                "etcd-certfile": pki / "apiserver-etcd.crt",
                "etcd-keyfile": pki / "apiserver-etcd.key",
                "client-ca-file": pki / "ca.crt",
                "tls-cert-file": pki / "apiserver.crt",
                "tls-private-key-file": pki / "apiserver.key",
                "kubelet-certificate-authority": pki / "ca.crt",
                "kubelet-client-certificate": pki / "apiserver-kubelet.crt",
                "kubelet-client-key": pki / "apiserver-kubelet.key",
                # The node has no name in any DNS.
                "kubelet-preferred-address-types": "InternalIP",
                "service-account-issuer": "https://kubernetes.default.svc",
                "service-account-key-file": pki / "service-accounts.pub",
                "service-account-signing-key-file": pki / "service-accounts.key",
                "service-cluster-ip-range": SERVICE_CIDR,
                "authorization-mode": "Node,RBAC",
                "enable-admission-plugins": "NodeRestriction",
                "anonymous-auth": "true",
                "profiling": "false",
                "audit-policy-file": layout.config / "audit.yaml",
                "audit-log-path": layout.logs / "audit.log",
                "audit-log-maxsize": 200,
                "audit-log-maxbackup": 5,
                "max-requests-inflight": 800,
                "max-mutating-requests-inflight": 400,
                "shutdown-delay-duration": "0s",
            }
        ),
        *aggregation(pki),
    ]


def aggregation(pki: Path) -> list[str]:
    """What lets metrics-server and Kueue's visibility answer as parts of the API."""
    return flags(
        {
            "requestheader-client-ca-file": pki / "ca.crt",
            "requestheader-allowed-names": "front-proxy-client",
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "proxy-client-cert-file": pki / "front-proxy.crt",
            "proxy-client-key-file": pki / "front-proxy.key",
            # There is no way from here to a Service before kube-proxy is up; its endpoints do.
            "enable-aggregator-routing": "true",
        }
    )


def controller_manager(layout: Layout) -> Iterable[object]:
    pki, own = layout.pki, layout.kubeconfig("controller-manager")
    return [
        binary("kube-controller-manager"),
        *flags(
            {
                "bind-address": "127.0.0.1",
                "kubeconfig": own,
                "authentication-kubeconfig": own,
                "authorization-kubeconfig": own,
                "leader-elect": "false",
                "use-service-account-credentials": "true",
                "service-account-private-key-file": pki / "service-accounts.key",
                "root-ca-file": pki / "ca.crt",
                "cluster-signing-cert-file": pki / "ca.crt",
                "cluster-signing-key-file": pki / "ca.key",
                "allocate-node-cidrs": "false",
                "flex-volume-plugin-dir": layout.base / "volume-plugins",
                "service-cluster-ip-range": SERVICE_CIDR,
                "kube-api-qps": 300,
                "kube-api-burst": 500,
                "profiling": "false",
            }
        ),
    ]


def scheduler(layout: Layout) -> Iterable[object]:
    own = layout.kubeconfig("scheduler")
    return [
        binary("kube-scheduler"),
        *flags(
            {
                "bind-address": "127.0.0.1",
                "config": layout.config / "scheduler.yaml",
                "authentication-kubeconfig": own,
                "authorization-kubeconfig": own,
                "profiling": "false",
            }
        ),
    ]
