"""Operators of training on several replicas: MPI, the trainer and the JobSets that it makes, and
the training operator that came before the trainer.

Processes of this host as Kueue is, with their webhooks by address. A cluster has those that are
built: they take minutes, and only training needs them (``python -m devcluster training``).
"""

from collections.abc import Iterable
from typing import Any

import yaml

from devcluster import images, kueue, pki, state
from devcluster.control_plane import flags, write
from devcluster.kube import Kube, answers
from devcluster.layout import Layout
from devcluster.processes import Processes
from devcluster.programs import PROGRAMS, binary, build, module_folder, unbuilt
from tools.setup_shell import SetupError, say

NEEDED = ("mpi-operator", "jobset", "trainer", "training-operator")
NAMESPACE = "training-system"
# Program → where its module has its kinds and its webhooks.
KINDS = {
    "mpi-operator": ("manifests/base/kubeflow.org_mpijobs.yaml", ""),
    "jobset": ("config/components/crd/bases/*.yaml", "config/components/webhook/manifests.yaml"),
    "trainer": ("manifests/base/crds/trainer*.yaml", "manifests/base/webhook/manifests.yaml"),
    # PyTorchJobs and TFJobs: its MPIJobs would take the place of mpi-operator's
    "training-operator": (
        "manifests/base/crds/kubeflow.org_[pt][yf]*.yaml",
        "manifests/base/webhook/manifests.yaml",
    ),
}
SCHEMES = ("pytorchjob", "tfjob")  # of the last one
WEBHOOK_PORTS = {"jobset": 19444, "trainer": 19445, "training-operator": 19446}
HEALTH_PORTS = {"mpi-operator": 8080, "jobset": 18084, "trainer": 18085}  # 8080: MPI's own choice
HEALTH_PORTS |= {"training-operator": 18087}
STATUS_PORT = 18086
# Both of Kubeflow read their certificates only here.
CERTIFICATES = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108 - the program's own choice
PATIENCE_S = 60


def has() -> bool:
    return not unbuilt(NEEDED)


def add(layout: Layout) -> None:
    """To a cluster that is up: what lacks is built, what runs is left alone."""
    kube = Kube(layout.admin)
    for program in unbuilt(NEEDED):
        build(program, lambda text: say(f"  built {text}"))
    try:
        pki.make(layout)
        write_configuration(layout)
        start(layout, Processes(layout), kube)
        known = (state.read(layout) or {}).get("images", {})
        state.write(layout, {**known, **published()}, kube)
    except TimeoutError as error:
        raise SetupError(str(error)) from error
    finally:
        kube.close()


def write_configuration(layout: Layout) -> None:
    kueue.make_certificates(layout, "training")
    for name, version in (("jobset", "jobset.x-k8s.io"), ("trainer", "trainer.kubeflow.org")):
        write(layout.config / f"{name}.yaml", configuration(layout, name, version))


def configuration(layout: Layout, name: str, group: str) -> dict[str, Any]:
    own: dict[str, Any] = {
        "jobset": {
            "internalCertManagement": {"enable": False},
            "webhook": {"certDir": str(layout.pki / "training")},
        },
        "trainer": {"certManagement": {"enable": False}, "statusServer": {"port": STATUS_PORT}},
    }[name]
    webhook = {"host": "127.0.0.1", "port": WEBHOOK_PORTS[name], **own.pop("webhook", {})}
    return {
        "apiVersion": f"config.{group}/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{HEALTH_PORTS[name]}"},
        "metrics": {"bindAddress": "0"},
        "webhook": webhook,
        "clientConnection": {"qps": 100, "burst": 200},
        **own,
    }


def start(layout: Layout, processes: Processes, kube: Kube) -> None:
    """The kinds are there before the programs that watch them, the webhooks after them."""
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    # The training operator fills it, and goes on with the certificates that are there.
    secret = {"name": "training-operator-webhook-cert", "namespace": NAMESPACE}
    kube.apply({"apiVersion": "v1", "kind": "Secret", "metadata": secret})
    heads = [item for name in NEEDED for item in objects(name, KINDS[name][0])]
    for item in heads:
        kube.apply(item)
    kube.until("kinds of training", lambda: kueue.established(kube, heads), PATIENCE_S)
    for name in NEEDED:
        processes.start(name, command(layout, name))
    for name, port in HEALTH_PORTS.items():
        path = "healthz" if name == "mpi-operator" else "readyz"
        url = f"http://127.0.0.1:{port}/{path}"
        processes.wait(name, lambda url=url: answers(url), PATIENCE_S)  # type: ignore[misc]
    for name in WEBHOOK_PORTS:
        for item in webhooks(layout, name):
            kube.apply(item)


def published() -> dict[str, dict[str, str]]:
    """The image that MPI's tests run, which no other work needs."""
    return {"mpi": images.publish(images.mpi, lambda text: say(f"  {text} …"))}


def command(layout: Layout, name: str) -> Iterable[object]:
    if name == "mpi-operator":
        given = {"kubeConfig": layout.kubeconfig("training"), "lock-namespace": NAMESPACE}
        pace = {"kube-api-qps": 50, "kube-api-burst": 100, "monitoring-port": 0}
        return [binary(name), *flags({**given, **pace})]
    given = {"kubeconfig": layout.kubeconfig("training"), "config": layout.config / f"{name}.yaml"}
    if name == "jobset":
        return [binary(name), *flags(given)]
    program = [binary("trainer-controller-manager"), *flags(given)]
    if name == "training-operator":
        own = {
            "kubeconfig": layout.kubeconfig("training"),
            "health-probe-bind-address": f"127.0.0.1:{HEALTH_PORTS[name]}",
            "metrics-bind-address": 0,
            "webhook-server-port": WEBHOOK_PORTS[name],
            "controller-threads": 4,
            "kube-api-qps": 50,
            "kube-api-burst": 100,
        }
        kinds = [f"--enable-scheme={scheme}" for scheme in SCHEMES]
        program = ["env", f"MY_POD_NAMESPACE={NAMESPACE}", binary(name), *flags(own), *kinds]
    script = 'mkdir -p "$2"; mount --bind "$1" "$2"; shift 2; exec "$@"'
    words = ["unshare", "-m", "sh", "-ec", script, name]
    return [*words, layout.pki / "training", CERTIFICATES, *program]


def objects(name: str, pattern: str) -> list[dict[str, Any]]:
    """As the module has them."""
    files = sorted(module_folder(PROGRAMS[name]).glob(pattern))
    # By libyaml: the kinds are long, and Python alone takes seconds for them.
    texts = (yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader) for file in files)
    return [item for items in texts for item in items if item]


def webhooks(layout: Layout, name: str) -> list[dict[str, Any]]:
    """By address, and of the operator's own kinds: of pods they ask only for placing of theirs."""
    items = objects(name, KINDS[name][1])
    for item in items:
        item["metadata"]["name"] = f"{name}-{item['metadata']['name']}"
        item["webhooks"] = [
            hook for hook in item["webhooks"] if hook["rules"][0]["apiGroups"] != [""]
        ]
        for hook in item["webhooks"]:
            path = hook["clientConfig"]["service"]["path"].lstrip("/")
            url = f"https://127.0.0.1:{WEBHOOK_PORTS[name]}/{path}"
            hook["clientConfig"] = {"url": url, "caBundle": kueue.authority(layout)}
    return [item for item in items if item["webhooks"]]
