"""KServe, which runs models as Deployments: a process of this host as Kueue is.

Without Knative, Istio and ingresses: who serves models sends requests to the pods itself. A cluster
has it when it is built: it takes minutes, and only endpoints need it
(``python -m devcluster kserve``).
"""

import json
from collections.abc import Iterable
from typing import Any

from devcluster import kueue, pki, state, training
from devcluster.control_plane import flags
from devcluster.kube import Kube, answers
from devcluster.layout import Layout
from devcluster.processes import Processes
from devcluster.programs import binary, build, unbuilt
from tools.setup_shell import SetupError, say

NEEDED = ("kserve",)
NAMESPACE = "kserve"
WEBHOOK_PORT, HEALTH_PORT = 19447, 18088
PATIENCE_S = 60
# Read, although nothing of what they are about is used here.
_HELPERS = ("storageInitializer", "logger", "agent", "batcher")


def has() -> bool:
    return not unbuilt(NEEDED)


def add(layout: Layout) -> None:
    """To a cluster that is up: what lacks is built, what runs is left alone."""
    kube = Kube(layout.admin)
    for program in unbuilt(NEEDED):
        build(program, lambda text: say(f"  built {text}"))
    try:
        pki.make(layout)
        start(layout, Processes(layout), kube)
        state.write(layout, (state.read(layout) or {}).get("images", {}), kube)
    except TimeoutError as error:
        raise SetupError(str(error)) from error
    finally:
        kube.close()


def start(layout: Layout, processes: Processes, kube: Kube) -> None:
    """Its kinds and its configuration are there before it, its webhooks after it."""
    kueue.make_certificates(layout, "kserve")
    heads = training.objects("kserve", "config/crd/full/serving*.yaml")
    for item in (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        *heads,
    ):
        kube.apply(item)
    kube.until("kinds of KServe", lambda: kueue.established(kube, heads), PATIENCE_S)
    kube.apply(configuration())
    processes.start("kserve", command(layout))
    url = f"http://127.0.0.1:{HEALTH_PORT}/readyz"
    processes.wait("kserve", lambda: answers(url), PATIENCE_S)
    for item in webhooks(layout):
        kube.apply(item)


def configuration() -> dict[str, Any]:
    size = {"cpuRequest": "10m", "cpuLimit": "1", "memoryRequest": "64Mi", "memoryLimit": "256Mi"}
    told: dict[str, Any] = {
        "deploy": {"defaultDeploymentMode": "Standard"},
        "ingress": {
            "disableIngressCreation": True,
            "disableIstioVirtualHost": True,
            "enableGatewayApi": False,
            "ingressDomain": "models.invalid",
            "ingressGateway": "none/none",
            "localGateway": "none/none",
            "urlScheme": "http",
        },
        **{name: {"image": "none", **size} for name in _HELPERS},
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "inferenceservice-config", "namespace": NAMESPACE},
        "data": {name: json.dumps(value) for name, value in told.items()},
    }


def command(layout: Layout) -> Iterable[object]:
    """In a mount namespace of its own: it reads certificates only from one place."""
    own = {
        "webhook-port": WEBHOOK_PORT,
        "metrics-addr": 0,
        "health-probe-addr": f"127.0.0.1:{HEALTH_PORT}",
    }
    told = [f"KUBECONFIG={layout.kubeconfig('kserve')}", f"POD_NAMESPACE={NAMESPACE}"]
    script = 'mkdir -p "$2"; mount --bind "$1" "$2"; shift 2; exec "$@"'
    inside = ["unshare", "-m", "sh", "-ec", script, "kserve"]
    certificates = [layout.pki / "kserve", training.CERTIFICATES]
    return [*inside, *certificates, "env", *told, binary("manager"), *flags(own)]


def webhooks(layout: Layout) -> list[dict[str, Any]]:
    """By address; of pods those that it makes, by its own selector."""
    items = training.objects("kserve", "config/webhook/manifests.yaml")
    for item in items:
        for hook in item["webhooks"]:
            path = hook["clientConfig"]["service"]["path"].lstrip("/")
            url = f"https://127.0.0.1:{WEBHOOK_PORT}/{path}"
            hook["clientConfig"] = {"url": url, "caBundle": kueue.authority(layout)}
    return items
