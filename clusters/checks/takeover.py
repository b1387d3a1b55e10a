"""What somebody with our credential would do to own the cluster, tried as dry runs.

A review of rights knows roles only. Whether a fence (an admission policy) stands behind them, and
around the right account, shows in what the API server answers to the act itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime.drivers.kubernetes.names import INSTANCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusters.checks.base import Subject
    from clusters.checks.probe_runner import Bench

REFUSED = {403, 422}  # by roles, by a policy
_RBAC = "rbac.authorization.k8s.io"
_PRIVILEGED = {"pod-security.kubernetes.io/enforce": "privileged"}
ROLE = "berth-projects"  # of the chart, where the options name none


def tries(subject: Subject, bench: Bench) -> dict[str, bool | None]:
    """Return, by the words for each act, whether it would be accepted; None: it was not said."""
    found: dict[str, bool | None] = {}
    for words, method, path, body in _acts(subject, bench):
        answer = subject.api.ask(method, path, body, {"dryRun": "All"})
        found[words] = True if answer.ok else False if answer.status in REFUSED else None
    return found


def _acts(subject: Subject, bench: Bench) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    name = f"berth-check-{bench.mark}"
    role = subject.options.portal_role or ROLE
    for where in dict.fromkeys(("kube-system", "default", *_foreign(subject, bench))):
        yield (
            f"create rolebindings ({role}) -n {where}",
            "POST",
            f"/apis/{_RBAC}/v1/namespaces/{where}/rolebindings",
            _binding(name, role, subject.options.portal_account),
        )
    yield (
        "create pods -n kube-system",
        "POST",
        "/api/v1/namespaces/kube-system/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": "none.invalid/none"}]},
        },
    )
    yield (
        "patch namespaces kube-system",
        "APPLY",
        "/api/v1/namespaces/kube-system",
        _namespace("kube-system", bench.labels()),
    )
    loose = f"{subject.options.namespace_prefix}check-{bench.mark}-loose"
    yield (
        "create namespaces (privileged)",
        "POST",
        "/api/v1/namespaces",
        _namespace(loose, {**bench.labels(), **_PRIVILEGED}),
    )
    yield "create persistentvolumes (hostPath /)", "POST", "/api/v1/persistentvolumes", _root(name)


def _foreign(subject: Subject, bench: Bench) -> list[str]:
    """Return one namespace that is neither ours nor the cluster's own, if there is one."""
    answer = subject.api.ask("GET", "/api/v1/namespaces", params={"limit": "100"})
    for item in answer.body.get("items") or () if answer.ok else ():
        meta = item.get("metadata") or {}
        if "deletionTimestamp" in meta:
            continue  # nothing is made there any more, by anybody
        ours = (meta.get("labels") or {}).get(INSTANCE) == bench.labels()[INSTANCE]
        if not ours and not str(meta.get("name")).startswith(("kube-", "default")):
            return [str(meta["name"])]
    return []


def _binding(name: str, role: str, account: str) -> dict[str, Any]:
    namespace, _slash, subject = (account or "berth/berth").partition("/")
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": subject, "namespace": namespace}],
    }


def _namespace(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _root(name: str) -> dict[str, Any]:
    """A node's root as a volume: Pod Security lets any pod mount what a claim is bound to."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/"},
        },
    }
