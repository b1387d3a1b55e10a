"""Whether pods can have users of their own: root inside, nobody on the node.

A kubelet says what its container runtime can do in ``status.runtimeHandlers`` (Kubernetes 1.30
and newer); the handler without a name is the one that workloads get.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_noop as _n

from clusters.checks.base import Finding, green, red, unknown

if TYPE_CHECKING:
    from clusters.checks.base import Subject
    from clusters.checks.probe_runner import Bench

READ = 200  # nodes are large objects; a cluster's nodes are mostly alike
_FIX = (
    "kubectl get nodes -o custom-columns=NODE:.metadata.name,"
    "RUNTIME:.status.nodeInfo.containerRuntimeVersion,"
    "HANDLERS:.status.runtimeHandlers"
)


def namespaces(subject: Subject, bench: Bench) -> Finding:
    """Red only where they are switched on and a node would refuse the pods."""
    del bench
    answer = subject.api.ask("GET", "/api/v1/nodes", params={"limit": str(READ)})
    if not answer.ok:
        return unknown("users", _n("The API server answered: %(why)s"), why=answer.message)
    nodes = answer.body.get("items") or []
    able = [node for node in nodes if _can(node)]
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


def _can(node: dict[str, Any]) -> bool:
    handlers = (node.get("status") or {}).get("runtimeHandlers") or ()
    return any(
        not handler.get("name") and (handler.get("features") or {}).get("userNamespaces") is True
        for handler in handlers
    )
