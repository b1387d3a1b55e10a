"""Does the queue that is named let work in? Asked of Kueue, and of a pod that it must hold.

A LocalQueue is an object of its project's namespace, so each project has to have one. Whether Kueue
is at work shows in a dry run: a pod that names the queue comes back with a gate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_noop as _n

from clusters.accelerators import levels_carried, variant_of
from clusters.checks import recipe
from clusters.checks.base import Finding, green, red, unknown
from clusters.checks.probe_runner import NOT_FOUND
from clusters.models import Flavor, Node
from clusters.options import HOST_LABEL
from runtime import reconcilers
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders.queues import LOCAL, VERSION
from runtime.drivers.kubernetes.builders.tenant import QUEUE
from runtime.protocol import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusters.checks.base import Answer, Subject
    from clusters.checks.probe_runner import Bench

NAME = "queue"
KIND = "queues"  # of the rows that stand for what Berth keeps there
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
MANAGED = {QUEUE: "kueue"}  # as namespaces of projects are labelled
GATE = "kueue.x-k8s.io/admission"
SHOWN = 3
FORBIDDEN = 403
_FIX = "kubectl get localqueues -A && kubectl get clusterqueues -o wide"


def act(subject: Subject, bench: Bench) -> Finding:
    managed = subject.options.manages_queues
    wanted = LOCAL if managed else subject.options.queue
    if not wanted:
        return green(NAME, _n("Not used here: pods are not queued."))
    found = subject.api.ask("GET", "/apis/kueue.x-k8s.io")
    if found.status == NOT_FOUND:
        return red(
            NAME,
            _n("Kueue is not installed, so nothing would be admitted to “%(queue)s”."),
            queue=wanted,
            fix="kubectl get crd localqueues.kueue.x-k8s.io",
        )
    if managed and (trouble := _unmanaged(subject, found)):
        return trouble
    preferred = (found.body.get("preferredVersion") or {}).get("groupVersion", "")
    listed = subject.api.ask("GET", f"/apis/{preferred}/localqueues", params={"limit": "1000"})
    if not listed.ok:
        fix = recipe.roles_and_fence(subject.options) if listed.status == FORBIDDEN else _FIX
        sentence = _n("The API server answered: %(why)s")
        return unknown(NAME, sentence, why=listed.message, fix=fix)
    there = {
        item["metadata"]["namespace"]: item
        for item in listed.body.get("items") or ()
        if item["metadata"]["name"] == wanted
    }
    return (
        _missing(subject, wanted, there, _projects(subject, bench))
        or _inactive(there)
        or _standing(subject)
        or _held(subject, bench, wanted)
        or _well(subject, wanted)
    )


def _unmanaged(subject: Subject, found: Answer) -> Finding | None:
    """What keeps Berth from managing the queues there: Kueue itself, or what was last said."""
    versions = {entry.get("groupVersion") for entry in found.body.get("versions") or ()}
    if VERSION not in versions:
        return red(
            NAME,
            _n("This Kueue has no %(version)s, so Berth can't manage its queues: take a newer."),
            version=VERSION,
            fix="kubectl get crd clusterqueues.kueue.x-k8s.io -o yaml",
        )
    rows = reconcilers.rows_of(KIND) if KIND in reconcilers.registered() else None
    row = rows and rows.filter(cluster_key=subject.cluster.key, deleted_at__isnull=True).first()
    if row and row.phase != Phase.RUNNING:
        why = row.message or row.reason or row.phase
        return red(NAME, _n("Berth's queues are not as they should be: %(why)s"), why=why, fix=_FIX)
    policy = recipe.scale_policy(subject.options)
    answer = subject.api.ask("GET", f"{_POLICIES}/{policy}")
    if answer.ok:
        return None
    sentence = _n(
        "No policy keeps workspaces from being scaled past Kueue (kubectl scale), which leaves"
        " them waiting for good: apply the roles and the fence again."
    )
    told = red if answer.status == NOT_FOUND else unknown
    return told(NAME, sentence, fix=recipe.roles_and_fence(subject.options))


def _well(subject: Subject, wanted: str) -> Finding:
    if not subject.options.manages_queues:
        sentence = _n("Kueue holds what names “%(queue)s” until it lets it in.")
        return green(NAME, sentence, queue=wanted)
    params = {"labelSelector": "app.kubernetes.io/name=kueue", "limit": "1"}
    pods = subject.api.ask("GET", "/api/v1/pods", params=params)
    version = ""
    for pod in pods.body.get("items") or () if pods.ok else ():
        images = [str(found.get("image", "")) for found in pod["spec"]["containers"]]
        version = next((image.rpartition(":")[2] for image in images if "kueue" in image), "")
    sentence = _n(
        "Kueue %(version)s holds all work of projects in the queues that Berth keeps there. Its"
        " quotaCheckStrategy must be BlockUndeclared, which can't be seen from here."
    )
    return green(NAME, sentence, version=version or VERSION.rpartition("/")[2])


def _projects(subject: Subject, bench: Bench) -> list[str]:
    """Return the namespaces of projects that are there."""
    selector = f"{names.KIND}=place,{names.INSTANCE}={bench.labels()[names.INSTANCE]}"
    params = {"labelSelector": selector, "limit": "1000"}
    answer = subject.api.ask("GET", "/api/v1/namespaces", params=params)
    metas = [item["metadata"] for item in answer.body.get("items") or ()] if answer.ok else []
    return sorted(str(meta["name"]) for meta in metas if "deletionTimestamp" not in meta)


def _missing(
    subject: Subject, wanted: str, there: Mapping[str, Any], projects: list[str]
) -> Finding | None:
    lacking = [name for name in projects if name not in there]
    if not lacking and (there or subject.options.manages_queues):
        return None
    where = ", ".join(lacking[:SHOWN]) + ("…" if len(lacking) > SHOWN else "")
    if not where:
        where = f"{subject.options.namespace_prefix}…"
    return red(
        NAME,
        _n(
            "There is no LocalQueue “%(queue)s” in %(where)s, so nothing is let in there. Each"
            " project's namespace needs one that leads to a ClusterQueue; or name another queue in"
            " the cluster's settings."
        ),
        queue=wanted,
        where=where,
        fix=_FIX,
    )


def _inactive(there: Mapping[str, Any]) -> Finding | None:
    for namespace, item in sorted(there.items()):
        for condition in (item.get("status") or {}).get("conditions") or ():
            if condition.get("type") == "Active" and condition.get("status") == "False":
                return red(
                    NAME,
                    _n("The LocalQueue of %(where)s lets nothing in: %(why)s"),
                    where=namespace,
                    why=str(condition.get("message") or condition.get("reason"))[:200],
                    fix=_FIX,
                )
    return None


def _standing(subject: Subject) -> Finding | None:
    """Nodes that do not say where they stand, as others of their kind do, are not there for it."""
    levels = [one for one in subject.options.levels.values() if one != HOST_LABEL]
    if not levels:
        return None
    nodes = list(Node.objects.filter(cluster=subject.cluster))
    known = {flavor.name: flavor for flavor in Flavor.objects.all()}
    carried = levels_carried(nodes, known, levels)
    loose: dict[str, str] = {}
    for node in nodes:
        for name in node.offers.keys() & known.keys():
            for label in carried[name, variant_of(known[name], node.labels)]:
                if not node.labels.get(label):
                    loose[node.name] = label
    if not loose:
        return None
    return red(
        NAME,
        _n("Without the label %(label)s Kueue gives these nodes no work: %(nodes)s."),
        label=next(iter(loose.values())),
        nodes=", ".join(sorted(loose)[:SHOWN]) + ("…" if len(loose) > SHOWN else ""),
        fix=f"kubectl get nodes -L {','.join(levels)}",
    )


def _held(subject: Subject, bench: Bench, wanted: str) -> Finding | None:
    """A namespace as projects' are, and a pod as work's: Kueue must put its gate on it."""
    where = bench.namespace("q", MANAGED)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "queued", "namespace": where, "labels": {names.QUEUE: wanted}},
        "spec": bench.pod("pass"),
    }
    answer = subject.api.ask("POST", f"/api/v1/namespaces/{where}/pods", pod, {"dryRun": "All"})
    if not answer.ok and "failed calling webhook" in answer.message:
        return red(
            NAME,
            _n("Kueue's webhook does not answer, so no work is taken: %(why)s"),
            why=answer.message,
            fix="kubectl get pods -n kueue-system",
        )
    if not answer.ok:
        return unknown(NAME, _n("The API server answered: %(why)s"), why=answer.message)
    gates = (answer.body.get("spec") or {}).get("schedulingGates") or ()
    if not any(gate.get("name") == GATE for gate in gates):
        return red(
            NAME,
            _n(
                "Kueue does not hold pods that name its queue, so they would start past it. Its"
                " pod integration must be on for namespaces labelled %(label)s."
            ),
            label=f"{QUEUE}=kueue",
            fix="kubectl get configmap -n kueue-system kueue-manager-config -o yaml",
        )
    return None
