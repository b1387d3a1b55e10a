"""Checks of a few questions: version, clock, Pod Security, kubectl, GPUs."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_noop as _n

from clusters.checks.base import Finding, green, red, undecided, unknown
from clusters.checks.probe_runner import MARK
from clusters.installed import kubectl_reaches
from clusters.models import Cluster
from clusters.options import options_of
from common.clock import now
from runtime.drivers.kubernetes import names

if TYPE_CHECKING:
    from clusters.checks.base import Subject
    from clusters.checks.probe_runner import Bench


OLDEST = (1, 29)
SKEW_S = 5.0
UNKNOWN_TO_IT, FORBIDDEN = 401, 403


def version(subject: Subject, bench: Bench) -> Finding:
    del bench
    answer = subject.api.ask("GET", "/version")
    if answer.status == UNKNOWN_TO_IT:
        return red(
            "version",
            _n("The API server does not accept Berth's credential (%(why)s): replace it."),
            why=answer.message,
        )
    if not answer.ok:
        return red("version", _n("The API server refused: %(why)s"), why=answer.message)
    text = str(answer.body.get("gitVersion", ""))
    numbers = tuple(
        int("".join(c for c in str(answer.body.get(part, "0")) if c.isdigit()) or 0)
        for part in ("major", "minor")
    )
    if numbers < OLDEST:
        return red("version", _n("It runs %(version)s; Berth needs 1.29 or newer."), version=text)
    return green("version", _n("It answers and runs %(version)s."), version=text)


def clock(subject: Subject, bench: Bench) -> Finding:
    """Tokens and certificates are refused when clocks differ."""
    del bench
    asked = now()
    answer = subject.api.ask("GET", "/version")
    answered = now()
    stamp = answer.headers.get("date", "")
    if not stamp:
        return unknown("clock", _n("The API server does not say what time it is."))
    said = parsedate_to_datetime(stamp)
    # At any moment in between it may have looked: how long an answer takes is no difference.
    skew = max((asked - said).total_seconds(), (said - answered).total_seconds(), 0.0)
    shown = round(skew, 1)
    if skew > SKEW_S:
        return red(
            "clock",
            _n("Its clock differs from ours by %(seconds)s s."),
            seconds=shown,
            fix="timedatectl set-ntp true  # on both machines",
        )
    return green("clock", _n("Its clock and ours agree."), seconds=shown)


def pod_security(subject: Subject, bench: Bench) -> Finding:
    """A pod that would own its node must be refused in a namespace made as projects' are."""
    where = bench.namespace("a")
    answer = subject.api.ask(
        "POST", f"/api/v1/namespaces/{where}/pods", _privileged(where), {"dryRun": "All"}
    )
    if answer.status == FORBIDDEN and "violates PodSecurity" in answer.message:
        return green("security", _n("A pod with its node's processes and files was refused."))
    if answer.ok:
        return red(
            "security",
            _n("A pod with its node's files would be accepted: Pod Security is not enforced."),
            fix="kube-apiserver --enable-admission-plugins=PodSecurity",
        )
    if answer.status != FORBIDDEN:
        return unknown("security", _n("The API server answered: %(why)s"), why=answer.message)
    return _by_warning(subject, where)


def _by_warning(subject: Subject, where: str) -> Finding:
    """We may not make pods ourselves: what would be refused is warned of in a StatefulSet."""
    meta = {"name": "privileged", "namespace": where}
    labels = {"app": "privileged"}
    body = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": meta,
        "spec": {
            "replicas": 0,
            "serviceName": "privileged",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _privileged(where)["spec"]},
        },
    }
    path = f"/apis/apps/v1/namespaces/{where}/statefulsets/privileged"
    answer = subject.api.ask("APPLY", path, body, {"dryRun": "All"})
    if "would violate PodSecurity" in answer.headers.get("warning", ""):
        return green("security", _n("A pod with its node's files is warned of and refused."))
    return unknown("security", _n("The API server answered: %(why)s"), why=answer.message)


def _privileged(where: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "privileged", "namespace": where},
        "spec": {
            "hostPID": True,
            "hostNetwork": True,
            "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
            "containers": [
                {
                    "name": "main",
                    "image": "none.invalid/none",
                    "volumeMounts": [{"name": "host", "mountPath": "/host"}],
                }
            ],
        },
    }


def kubectl(subject: Subject, bench: Bench) -> Finding:
    """People get no kubeconfig whose address only pods of the cluster reach."""
    del bench
    if not kubectl_reaches(subject.cluster):
        return unknown(
            "kubectl",
            _n(
                "People get no kubeconfig for it: Berth itself uses an address inside the cluster."
                " Say where the API server is for them (option kube_api_url)."
            ),
            fix="helm upgrade berth deploy/helm/berth -n berth --reuse-values"
            " --set cluster.options.kube_api_url=https://ADDRESS:6443",
        )
    if url := subject.options.kube_api_url:
        return green("kubectl", _n("Kubeconfigs of people name %(url)s."), url=url)
    return green("kubectl", _n("Kubeconfigs of people name the address that was attached."))


def gpus(subject: Subject, bench: Bench) -> Finding:
    """What the watch saw; a cluster without GPUs is allowed, so this is never red."""
    del bench
    kinds = subject.cluster.kinds or {}
    counts = ", ".join(f"{name}: {kind['total']}" for name, kind in sorted(kinds.items()))
    if counts:
        return green("gpus", _n("Nodes offer %(counts)s."), counts=counts)
    return unknown(
        "gpus",
        _n("No node offers a GPU. Where there are some, a device plugin must run."),
        fix="kubectl get nodes -o custom-columns=NODE:.metadata.name,"
        "GPUS:.status.allocatable.nvidia\\\\.com/gpu",
    )


# Whether this installation is the only one that works on a cluster under its prefix.


SOLE = "installation"


def sole(subject: Subject, bench: Bench) -> Finding:
    prefix = subject.options.namespace_prefix
    if twin := _twin(subject):
        return red(
            SOLE,
            _n(
                "This is the same cluster as “%(name)s”, with the same prefix %(prefix)s."
                " Detach one of them, or choose another prefix."
            ),
            name=twin.name,
            prefix=prefix,
        )
    ours = f"{names.INSTANCE}={names.instance(prefix)}"
    others = f"{names.INSTALLATION},{names.INSTALLATION}!={bench.installation},!{MARK}"
    asked = {"labelSelector": f"{ours},{others}", "limit": "1"}
    answer = subject.api.ask("GET", "/api/v1/namespaces", params=asked)
    if not answer.ok:
        return undecided(SOLE, _n("The API server answered: %(why)s"), why=answer.message)
    for found in answer.body.get("items") or ():
        meta = found.get("metadata") or {}
        return red(
            SOLE,
            _n(
                "Another Berth works here with the prefix %(prefix)s (installation %(other)s,"
                " namespace %(namespace)s). Choose another prefix; nothing is started or removed."
            ),
            prefix=prefix,
            other=str((meta.get("labels") or {}).get(names.INSTALLATION, "")),
            namespace=str(meta.get("name", "")),
            fix=f"kubectl get namespaces -l {ours} -L {names.INSTALLATION}",
        )
    return green(SOLE, _n("No other Berth works here with the prefix %(prefix)s."), prefix=prefix)


def _twin(subject: Subject) -> Cluster | None:
    """Return a cluster that was attached before and is this one; by what no address changes."""
    answer = subject.api.ask("GET", "/api/v1/namespaces/kube-system")
    identity = str((answer.body.get("metadata") or {}).get("uid", "")) if answer.ok else ""
    if not identity:
        return None
    Cluster.objects.filter(pk=subject.cluster.pk).update(identity=identity)
    for row in Cluster.objects.filter(identity=identity, pk__lt=subject.cluster.pk):
        if options_of(row.options).namespace_prefix == subject.options.namespace_prefix:
            return row
    return None


# Whether pods can have users of their own: root inside, nobody on the node.
#
# A kubelet says what its container runtime can do in ``status.runtimeHandlers`` (Kubernetes 1.30
# and newer); the handler without a name is the one that workloads get.


READ = 200  # nodes are large objects; a cluster's nodes are mostly alike
_FIX = (
    "kubectl get nodes -o custom-columns=NODE:.metadata.name,"
    "RUNTIME:.status.nodeInfo.containerRuntimeVersion,"
    "HANDLERS:.status.runtimeHandlers"
)


def users(subject: Subject, bench: Bench) -> Finding:
    """Red only where they are switched on and a node would refuse the pods."""
    del bench
    answer = subject.api.ask("GET", "/api/v1/nodes", params={"limit": str(READ)})
    if not answer.ok:
        return unknown("users", _n("The API server answered: %(why)s"), why=answer.message)
    nodes = answer.body.get("items") or []
    able = [
        node
        for node in nodes
        for handler in (node.get("status") or {}).get("runtimeHandlers") or ()
        if not handler.get("name") and (handler.get("features") or {}).get("userNamespaces") is True
    ]
    numbers = {"able": len(able), "nodes": len(nodes)}
    if not subject.options.user_namespaces:
        return green("users", _n("Not used here; %(able)d of %(nodes)d nodes could."), **numbers)
    if len(able) == len(nodes):
        return green("users", _n("All %(nodes)d nodes run them."), **numbers)
    lacking = next(node["metadata"]["name"] for node in nodes if node not in able)
    return red(
        "users",
        _n(
            "They are switched on, but only %(able)d of %(nodes)d nodes can run them;"
            " %(lacking)s can't. Its runtime needs containerd 2.0 or CRI-O 1.25, and Linux 6.3."
        ),
        fix=_FIX,
        lacking=lacking,
        **numbers,
    )
