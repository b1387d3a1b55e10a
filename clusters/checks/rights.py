"""What our identity may do there: all that is needed, and nothing that would own the cluster."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils.translation import gettext_noop as _n

from clusters.checks import recipe
from clusters.checks.base import Finding, green, red, undecided
from clusters.options import STORAGE_CLASS
from runtime.drivers.kubernetes.names import INSTANCE
from runtime.routers.gateway import ProxyService

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from clusters.checks.base import Subject
    from clusters.checks.probe_runner import Bench


@dataclass(frozen=True)
class Act:
    verb: str
    resource: str  # resource[/subresource]
    group: str = ""
    inside: bool = True  # inside a project's namespace; else in the whole cluster
    namespace: str = ""  # a namespace of the cluster's own

    @property
    def words(self) -> str:
        where = f" -n {self.namespace}" if self.namespace else "" if self.inside else " -A"
        group = f".{self.group}" if self.group and self.group != "*" else ""
        return f"{self.verb} {self.resource}{group}{where}"


_APPS, _NET, _RBAC = "apps", "networking.k8s.io", "rbac.authorization.k8s.io"
# What isolates a project. Something that was added by hand is taken away again by an update.
BUNDLE = (
    (_NET, "networkpolicies"),
    *(("", name) for name in ("resourcequotas", "limitranges", "serviceaccounts")),
    *((_RBAC, name) for name in ("roles", "rolebindings")),
)
# deploy/helm/berth/templates/rbac.yaml grants what changes something here and nothing beyond
# (tests/deploy/test_chart_rights.py).
NEEDED = (
    *(Act(verb, "statefulsets", _APPS) for verb in ("create", "patch", "delete")),
    *(Act(verb, "jobs", "batch") for verb in ("create", "patch", "delete")),
    *(Act(verb, "secrets") for verb in ("create", "patch", "delete")),
    # the hosts of a group's replicas
    *(Act(verb, "services") for verb in ("create", "patch", "delete")),
    *(Act(verb, "persistentvolumeclaims") for verb in ("create", "patch", "delete")),
    *(
        Act(verb, name, group)
        for group, name in BUNDLE
        for verb in ("create", "patch", "update", "delete")
    ),
    Act("create", "serviceaccounts/token"),
    Act("get", "pods/log"),
    Act("create", "pods/exec"),
    Act("create", "pods/portforward"),
    Act("delete", "pods"),
    *(Act(verb, "namespaces", inside=False) for verb in ("create", "patch", "delete")),
    *(Act(verb, "pods", inside=False) for verb in ("list", "watch")),
    *(Act(verb, "statefulsets", _APPS, inside=False) for verb in ("list", "watch")),
    *(Act(verb, "jobs", "batch", inside=False) for verb in ("list", "watch")),
    *(Act(verb, "events", inside=False) for verb in ("list", "watch")),
    *(Act(verb, "nodes", inside=False) for verb in ("list", "watch")),
)
VOLUMES = tuple(
    Act(verb, "persistentvolumes", inside=False) for verb in ("create", "patch", "delete")
)
_KUEUE = "kueue.x-k8s.io"
QUEUES = (
    *(
        Act(verb, name, _KUEUE, inside=False)
        for name in (
            *("topologies", "resourceflavors", "workloadpriorityclasses"),
            *("cohorts", "clusterqueues"),
        )
        for verb in ("list", "create", "patch", "update", "delete")
    ),
    *(Act(verb, "localqueues", _KUEUE) for verb in ("create", "patch", "update", "delete")),
    Act("patch", "workloads", _KUEUE),
    Act("list", "workloads", _KUEUE, inside=False),
)
# By what each operator is called (runtime.training.OPERATORS and KINDS).
TRAINING = {
    word: tuple(
        Act(verb, name, group, inside=verb not in {"list", "watch"})
        for name in kinds
        for verb in ("create", "patch", "delete", "list", "watch")
    )
    for word, group, kinds in (
        ("mpi", "kubeflow.org", ("mpijobs",)),
        ("pytorchjob", "kubeflow.org", ("pytorchjobs",)),
        ("tfjob", "kubeflow.org", ("tfjobs",)),
        ("jobset", "jobset.x-k8s.io", ("jobsets",)),
        ("trainer", "trainer.kubeflow.org", ("trainjobs", "trainingruntimes")),
        ("kserve", "serving.kserve.io", ("inferenceservices",)),
    )
}
TRAINING["katib"] = (
    *(Act(v, "experiments", "kubeflow.org") for v in ("get", "list", "create", "patch", "delete")),
    *(Act(v, "trials", "kubeflow.org") for v in ("get", "list")),
    Act("patch", "trials/status", "kubeflow.org"),
)
_GATEWAY = "gateway.networking.k8s.io"
ROUTES = (
    *(Act(verb, "httproutes", _GATEWAY) for verb in ("create", "patch", "delete")),
    Act("list", "httproutes", _GATEWAY, inside=False),
)
# Whoever has one of these owns the cluster, or its other users.
DANGEROUS = (
    Act("*", "*", "*", inside=False),
    Act("create", "clusterrolebindings", _RBAC, inside=False),
    Act("escalate", "clusterroles", _RBAC, inside=False),
    Act("impersonate", "users", inside=False),
    Act("impersonate", "groups", inside=False),
    Act("get", "nodes/proxy", inside=False),
    Act("create", "serviceaccounts/token", namespace="kube-system"),
    Act("get", "secrets", namespace="kube-system"),
    Act("create", "pods", namespace="kube-system"),
    Act("create", "pods/exec", namespace="kube-system"),
    Act("patch", "nodes", inside=False),
    Act("approve", "signers", "certificates.k8s.io", inside=False),
    Act("create", "mutatingwebhookconfigurations", "admissionregistration.k8s.io", inside=False),
)
_AGAIN_S = 0.5
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def allowed(subject: Subject, act: Act, namespace: str) -> bool | None:
    """Ask the API server; None when it doesn't say."""
    name, _slash, sub = act.resource.partition("/")
    where = act.namespace or (namespace if act.inside else "")
    attributes = {
        "verb": act.verb,
        "resource": name,
        "subresource": sub,
        "group": act.group,
        "namespace": where,
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {k: v for k, v in attributes.items() if v}},
    }
    answer = subject.api.ask("POST", REVIEW, body)
    if not answer.ok:
        return None
    return bool((answer.body.get("status") or {}).get("allowed"))


def needed(subject: Subject, bench: Bench) -> Finding:
    where = bench.namespace("a")
    acts = NEEDED + (VOLUMES if subject.options.volume_kind != STORAGE_CLASS else ())
    acts += QUEUES if subject.options.manages_queues else ()
    acts += _routes(subject)
    acts += tuple(act for word in subject.cluster.operators for act in TRAINING[word])
    answers = _settled(subject, acts, where, bench.settles_s)
    lacking = [act for act, answer in answers.items() if answer is False]
    if not lacking:
        if None in answers.values():
            return _untold("rights")
        return green("rights", _n("Our identity may do what is needed (%(n)d acts)."), n=len(acts))
    return red(
        "rights",
        _n("Our identity may not: %(acts)s."),
        acts=", ".join(act.words for act in lacking[:6]),
        fix=f"kubectl auth can-i {lacking[0].words}",
    )


def _settled(
    subject: Subject, acts: Sequence[Act], where: str, within_s: float
) -> dict[Act, bool | None]:
    """Ask again what was not allowed: an API server knows of a new binding a moment later."""
    until = time.monotonic() + within_s
    answers: dict[Act, bool | None] = dict.fromkeys(acts)
    while True:
        answers |= {act: allowed(subject, act, where) for act in acts if not answers[act]}
        if all(answers.values()) or time.monotonic() > until:
            return answers
        time.sleep(_AGAIN_S)


def _untold(name: str) -> Finding:
    return undecided(name, _n("The API server does not say what we may do."))


def _routes(subject: Subject) -> tuple[Act, ...]:
    """What the router needs on the cluster whose Gateway leads to workspaces."""
    here = settings.BERTH_GATEWAY_CLUSTER or settings.BERTH_IN_CLUSTER
    if settings.BERTH_ROUTER != "gateway" or subject.cluster.key != here:
        return ()
    proxy = ProxyService.parse(settings.BERTH_GATEWAY_PROXY)
    beside = ("create", "patch", "delete") if proxy else ()
    where = proxy.namespace if proxy else ""
    return (*ROUTES, *(Act(verb, "httproutes", _GATEWAY, namespace=where) for verb in beside))


def restraint(subject: Subject, bench: Bench) -> Finding:
    """Ask for rights that would own the cluster, and try (as dry runs) what no list of rights says:
    roles that hold everywhere may be enough to give oneself the rest.
    """
    where = bench.namespace("a")
    answers = [(act, allowed(subject, act, where)) for act in DANGEROUS]
    if much := [act for act, answer in answers if answer]:
        return red(
            "restraint",
            _n("Our identity may do more than is needed: %(acts)s. Attach with a smaller one."),
            acts=", ".join(act.words for act in much[:6]),
            fix=recipe.small_account(subject.options),
        )
    tried = tries(subject, bench)
    if open_ones := [words for words, is_open in tried.items() if is_open]:
        return red(
            "restraint",
            _n(
                "Whoever takes our credential could own the cluster: the API server would let it"
                " %(acts)s. The fence around Berth's account is missing or is one for another"
                " account or prefix: apply it as shown, with the roles (Kubernetes 1.30 or newer)."
            ),
            acts=", ".join(open_ones[:6]),
            fix=recipe.fence(subject.cluster, subject.options),
        )
    if any(answer is None for answer in (*tried.values(), *(answer for _act, answer in answers))):
        return _untold("restraint")
    return green(
        "restraint",
        _n("Our identity has no right that would own the cluster, and gave itself none (tried)."),
    )


# What somebody with our credential would do to own the cluster, tried as dry runs.
#
# A review of rights knows roles only. Whether a fence (an admission policy) stands behind them, and
# around the right account, shows in what the API server answers to the act itself.


REFUSED = {403, 422}  # by roles, by a policy
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
