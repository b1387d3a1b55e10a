"""DNS, metrics, the registry: what every cluster has beside its control plane."""

import base64
from collections.abc import Iterable
from typing import Any

from devcluster.control_plane import flags, write
from devcluster.kube import Kube
from devcluster.layout import (
    DNS_SERVICE,
    DOMAIN,
    HOST,
    METRICS_SERVER_PORT,
    REGISTRY_PORT,
    Layout,
)
from devcluster.programs import binary

SYSTEM = "kube-system"
DNS_LABELS = {"k8s-app": "kube-dns"}
COREFILE = f"""
.:53 {{
    errors
    health :8080
    ready :8181
    kubernetes {DOMAIN} in-addr.arpa ip6.arpa {{
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 5
    }}
    forward . /etc/resolv.conf {{
        max_concurrent 500
    }}
    cache 5
    loop
    reload
}}
"""


# --- Registry -------------------------------------------------------------------------------------


def write_configuration(layout: Layout) -> None:
    content = {
        "version": "0.1",
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(layout.base / "registry")},
            "delete": {"enabled": True},
        },
        "http": {"addr": f"127.0.0.1:{REGISTRY_PORT}"},
    }
    write(layout.config / "registry.yaml", content)


def registry(layout: Layout) -> Iterable[object]:
    return [binary("registry"), "serve", layout.config / "registry.yaml"]


# --- DNS: a pod, because policies name it by its labels -------------------------------------------


def dns_objects(image: str) -> list[dict[str, Any]]:
    account = {"name": "coredns", "namespace": SYSTEM}
    named = {"apiVersion": "v1", "metadata": account}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "system:coredns"},
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["services", "pods", "namespaces"],
                "verbs": ["list", "watch"],
            },
            {
                "apiGroups": ["discovery.k8s.io"],
                "resources": ["endpointslices"],
                "verbs": ["list", "watch"],
            },
        ],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "system:coredns"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:coredns",
        },
        "subjects": [{"kind": "ServiceAccount", **account}],
    }
    return [
        {**named, "kind": "ServiceAccount"},
        role,
        binding,
        {**named, "kind": "ConfigMap", "data": {"Corefile": COREFILE}},
        dns_deployment(image),
        dns_service(),
    ]


def dns_service() -> dict[str, Any]:
    ports = [
        {"name": name, "port": 53, "targetPort": 53, "protocol": protocol}
        for name, protocol in (("dns", "UDP"), ("dns-tcp", "TCP"))
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": SYSTEM, "labels": DNS_LABELS},
        "spec": {"selector": DNS_LABELS, "clusterIP": DNS_SERVICE, "ports": ports},
    }


def dns_deployment(image: str) -> dict[str, Any]:
    container = {
        "name": "coredns",
        "image": image,
        "args": ["-conf", "/etc/coredns/Corefile"],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    pod = {
        "serviceAccountName": "coredns",
        "dnsPolicy": "Default",
        "priorityClassName": "system-cluster-critical",
        "terminationGracePeriodSeconds": 1,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65534,
            # Policies name DNS by its usual port, which is the pod's.
            "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}],
        },
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "coredns", "namespace": SYSTEM, "labels": DNS_LABELS},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": DNS_LABELS},
            "template": {"metadata": {"labels": DNS_LABELS}, "spec": pod},
        },
    }


def dns_ready(kube: Kube) -> bool:
    found = kube.get("apps/v1", "Deployment", "coredns", SYSTEM) or {}
    return bool(found.get("status", {}).get("readyReplicas"))


# --- Metrics --------------------------------------------------------------------------------------


def metrics_server(layout: Layout) -> Iterable[object]:
    own = layout.kubeconfig("metrics-server")
    return [
        binary("metrics-server"),
        *flags(
            {
                "kubeconfig": own,
                "authentication-kubeconfig": own,
                "authorization-kubeconfig": own,
                "kubelet-certificate-authority": layout.pki / "ca.crt",
                "kubelet-preferred-address-types": "InternalIP",
                "bind-address": HOST,
                "secure-port": METRICS_SERVER_PORT,
                "tls-cert-file": layout.pki / "metrics-serving.crt",
                "tls-private-key-file": layout.pki / "metrics-serving.key",
                "metric-resolution": "10s",
                "kubelet-request-timeout": "5s",
                "node-selector": "type!=kwok",
            }
        ),
    ]


def metrics_objects(layout: Layout) -> list[dict[str, Any]]:
    return [
        *host_service("metrics-server", SYSTEM, METRICS_SERVER_PORT),
        api_service(layout, "v1beta1", "metrics.k8s.io", ("metrics-server", SYSTEM)),
    ]


def host_service(name: str, namespace: str, port: int) -> list[dict[str, Any]]:
    """A Service whose one endpoint is a process of this host."""
    metadata = {"name": name, "namespace": namespace}
    ports = [{"name": "https", "port": 443, "targetPort": port, "protocol": "TCP"}]
    slice_of = {**metadata, "labels": {"kubernetes.io/service-name": name}}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}},
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": slice_of,
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
            "endpoints": [{"addresses": [HOST], "conditions": {"ready": True}}],
        },
    ]


def api_service(
    layout: Layout, version: str, group: str, service: tuple[str, str]
) -> dict[str, Any]:
    authority = base64.b64encode((layout.pki / "ca.crt").read_bytes()).decode()
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{version}.{group}"},
        "spec": {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "caBundle": authority,
            "service": {"name": service[0], "namespace": service[1], "port": 443},
        },
    }


def api_available(kube: Kube, name: str) -> bool:
    found = kube.get("apiregistration.k8s.io/v1", "APIService", name) or {}
    conditions = found.get("status", {}).get("conditions", [])
    return any(c["type"] == "Available" and c["status"] == "True" for c in conditions)
