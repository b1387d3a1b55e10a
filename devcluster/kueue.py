"""Kueue as a process of this host: its own manifests, with its webhooks by address.

Kept to namespaces that carry our label, so that a stopped Kueue blocks nobody else.
"""

import base64
import json
import os
from collections.abc import Iterable
from typing import Any

import yaml

from devcluster.addons import api_service, host_service
from devcluster.control_plane import flags, write
from devcluster.kube import Kube, answers
from devcluster.layout import HOST, KUEUE_PORTS, Layout, cache
from devcluster.programs import PROGRAMS, binary, module_folder
from tools.setup_shell import digest, run

NAMESPACE = "kueue-system"
MANAGED = {"berth.dev/queue": "kueue"}
# Of what a namespace's people make; queues and flavors are everywhere.
OWN_GROUP = "kueue.x-k8s.io"
FRAMEWORKS = ["batch/job", "jobset.x-k8s.io/jobset", "kubeflow.org/mpijob"]
FRAMEWORKS += ["kubeflow.org/pytorchjob", "kubeflow.org/tfjob"]
FRAMEWORKS += ["trainer.kubeflow.org/trainjob", "pod", "deployment", "statefulset"]
LEFT_OUT = {"Deployment", "Service", "APIService", "ConfigMap", "Secret"}
WEBHOOKS = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
VERSIONS = ("v1beta1", "v1beta2")
# Kueue reads these certificates only here.
METRICS_CERTIFICATES = "/etc/kueue/metrics/certs"
VISIBILITY_CERTIFICATES = "/visibility"


def write_configuration(layout: Layout) -> None:
    write(layout.config / "kueue.yaml", configuration(layout))
    for folder in ("kueue-webhook", "kueue-metrics", "kueue-visibility"):
        make_certificates(layout, folder)


def make_certificates(layout: Layout, name: str) -> None:
    folder = layout.pki / name
    folder.mkdir(exist_ok=True)
    for there, here in (("tls.crt", "webhooks.crt"), ("tls.key", "webhooks.key")):
        if not (folder / there).is_symlink():
            (folder / there).symlink_to(layout.pki / here)


def configuration(layout: Layout) -> dict[str, Any]:
    ports = KUEUE_PORTS
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{ports['health']}"},
        "metrics": {
            "bindAddress": f"127.0.0.1:{ports['metrics']}",
            "enableClusterQueueResources": True,
        },
        "webhook": {
            "host": "127.0.0.1",
            "port": ports["webhook"],
            "certDir": str(layout.pki / "kueue-webhook"),
        },
        "visibilityServer": {"bindAddress": HOST, "bindPort": ports["visibility"]},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "manageJobsWithoutQueueName": True,
        "managedJobsNamespaceSelector": {"matchLabels": MANAGED},
        "fairSharing": {
            "preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
        },
        "waitForPodsReady": {"timeout": "10m", "recoveryTimeout": "3m"},
        "featureGates": {
            "UnadmittedWorkloadsObservability": True,
            "UnadmittedWorkloadsExplicitStatus": True,
        },
        "resources": {
            # The other strategy lets one job drive Kueue into a busy loop.
            "quotaCheckStrategy": "BlockUndeclared",
            "excludeResourcePrefixes": ["ephemeral-storage"],
        },
        "objectRetentionPolicies": {"workloads": {"afterFinished": "1h"}},
        "integrations": {"frameworks": FRAMEWORKS},
    }


def kueue(layout: Layout) -> Iterable[object]:
    """In a mount namespace of its own, where the hard-coded folders are ours."""
    program = [
        binary("kueue"),
        *flags(
            {
                "config": layout.config / "kueue.yaml",
                "kubeconfig": layout.kubeconfig("kueue"),
                "zap-log-level": "1",
            }
        ),
    ]
    binds = [
        (layout.pki / "kueue-metrics", METRICS_CERTIFICATES),
        (layout.pki / "kueue-visibility", VISIBILITY_CERTIFICATES),
    ]
    script = 'while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done; shift; exec "$@"'
    bound = [str(word) for pair in binds for word in pair]
    return ["unshare", "-m", "sh", "-ec", script, "kueue", *bound, "--", *program]


def ready() -> bool:
    return answers(f"http://127.0.0.1:{KUEUE_PORTS['health']}/readyz")


# --- Manifests ------------------------------------------------------------------------------------


def manifests() -> list[dict[str, Any]]:
    """As the module has them, rendered once per version."""
    program = PROGRAMS["kueue"]
    kept = cache() / f"manifests/kueue-{program.version}-{digest(program.folder / 'go.sum')}.json"
    if not kept.exists():
        source = module_folder(program) / "config/default"
        text = run([binary("kubectl"), "kustomize", source])
        items = [item for item in yaml.safe_load_all(text) if item]
        kept.parent.mkdir(parents=True, exist_ok=True)
        fresh = kept.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(items))
        fresh.replace(kept)
    rendered: list[dict[str, Any]] = json.loads(kept.read_text())
    return rendered


def first_objects(layout: Layout) -> list[dict[str, Any]]:
    """What must be there before Kueue starts: its namespace, kinds and roles."""
    items = [i for i in manifests() if i["kind"] not in LEFT_OUT | WEBHOOKS]
    for item in items:
        if item["kind"] == "CustomResourceDefinition":
            address_conversion(layout, item)
    order = {"Namespace": 0, "CustomResourceDefinition": 1}
    return sorted(items, key=lambda item: order.get(item["kind"], 2))


def last_objects(layout: Layout) -> list[dict[str, Any]]:
    """What only works with Kueue: its webhooks, and its part of the API."""
    hooks = [item for item in manifests() if item["kind"] in WEBHOOKS]
    for item in hooks:
        for hook in item["webhooks"]:
            address_webhook(layout, hook)
    visibility = host_service("kueue-visibility-server", NAMESPACE, KUEUE_PORTS["visibility"])
    for version in VERSIONS:
        service = ("kueue-visibility-server", NAMESPACE)
        visibility.append(api_service(layout, version, "visibility.kueue.x-k8s.io", service))
    return [*visibility, *hooks]


def authority(layout: Layout) -> str:
    return base64.b64encode((layout.pki / "ca.crt").read_bytes()).decode()


def by_address(layout: Layout, service: dict[str, Any]) -> dict[str, Any]:
    path = service.get("path", "").lstrip("/")
    url = f"https://127.0.0.1:{KUEUE_PORTS['webhook']}/{path}"
    return {"url": url, "caBundle": authority(layout)}


def address_webhook(layout: Layout, hook: dict[str, Any]) -> None:
    hook["clientConfig"] = by_address(layout, hook["clientConfig"]["service"])
    groups = {group for rule in hook["rules"] for group in rule["apiGroups"]}
    if groups != {OWN_GROUP}:
        hook["namespaceSelector"] = {"matchLabels": MANAGED}


def address_conversion(layout: Layout, item: dict[str, Any]) -> None:
    conversion = item["spec"].get("conversion", {})
    if conversion.get("strategy") == "Webhook":
        client = conversion["webhook"]["clientConfig"]
        conversion["webhook"]["clientConfig"] = by_address(layout, client["service"])


def established(kube: Kube, items: list[dict[str, Any]]) -> bool:
    wanted = {i["metadata"]["name"] for i in items if i["kind"] == "CustomResourceDefinition"}
    found = kube.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    ready = {
        item["metadata"]["name"]
        for item in found
        for condition in item.get("status", {}).get("conditions") or ()
        if condition["type"] == "Established" and condition["status"] == "True"
    }
    return wanted <= ready
