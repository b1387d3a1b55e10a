"""Does a pod reach what belongs to the nodes? Asked of a pod that is closed as projects' pods are.

A kubelet (port 10250) starts and reads every container of its node; a cloud's metadata address
hands out the node's own credential. Many enforcers let a pod reach its own node whatever a policy
says, so this is tried, and another check than that of the policies: those may be green.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_noop as _n

from clusters import registry
from clusters.checks.base import Finding, green, probe_ended, red, unknown
from clusters.checks.network import CLIENT, FIRST, WAIT_S
from clusters.proofs import METADATA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusters.checks.base import Subject
    from clusters.checks.bench import Bench

NAME = "host"
KUBELET = 10250
OWN_NODE = "$(NODE_ADDRESS)"  # Kubernetes puts the probing pod's node here
MOST_OTHERS = 3
FIX_KUBELET = (
    "kubectl get pods -A | grep -E 'calico|cilium|kube-router|antrea'"
    "  # its rules must also hold between a pod and its own node"
)
FIX_METADATA = (
    f"iptables -I FORWARD -d {METADATA} -j DROP"
    "  # on every node, or the cloud's own switch (AWS: hop limit 1, Google: workload identity)"
)


def act(subject: Subject, bench: Bench) -> Finding:
    if not bench.image:
        return unknown(NAME, _n("Set a check image: a pod is needed to see it."))
    nodes = addresses(subject.api.ask("GET", "/api/v1/nodes", params={"limit": "50"}).body)
    where = bench.namespace("c")
    for policy in _policies(subject, bench, where, nodes):
        bench.policy(where, policy["metadata"]["name"], policy["spec"])
    tried = targets(nodes)
    expect = ",".join(f"closed {host} {port}" for host, port in tried)
    bench.start(where, "probe", CLIENT, env={"EXPECT": expect, "WAIT": WAIT_S})
    return judge(bench.exit_code(where, "probe", runs_s=float(WAIT_S)), tried)


def addresses(body: Mapping[str, Any]) -> list[str]:
    """Return where the ready nodes themselves listen."""
    found = []
    for node in body.get("items") or ():
        status = node.get("status") or {}
        ready = {c.get("type"): c.get("status") for c in status.get("conditions") or ()}
        if ready.get("Ready") != "True":
            continue
        for entry in status.get("addresses") or ():
            if entry.get("type") == "InternalIP" and _is_address(entry.get("address")):
                found.append(str(entry["address"]))
                break
    return found


def targets(nodes: list[str]) -> list[tuple[str, int]]:
    """The metadata address, the pod's own node, and a few others: what is reached first is told."""
    kubelets = [OWN_NODE, *dict.fromkeys(nodes[:MOST_OTHERS])]
    return [(METADATA, 80), *((host, KUBELET) for host in kubelets)]


def judge(code: int, tried: list[tuple[str, int]]) -> Finding:
    """Say what the end of the probe means. ``FIRST`` and more: the number of what was reached.

    Another end leaves an earlier answer: one bad probe must not open what red has closed.
    """
    if not code:
        return green(NAME, _n("A pod as projects have them reaches neither kubelet nor metadata."))
    if not FIRST <= code < FIRST + len(tried):
        return probe_ended(NAME, code)
    host, _port = tried[code - FIRST]
    if host == METADATA:
        return red(
            NAME,
            _n("Pods of projects reach the metadata address %(address)s: there the node's own "
               "credential may lie."),
            address=METADATA,
            fix=FIX_METADATA,
        )  # fmt: skip
    sentence = (
        _n("Pods of projects reach the kubelet of their own node (port 10250).")
        if host == OWN_NODE
        else _n("Pods of projects reach the kubelet of %(address)s (port 10250).")
    )
    values = {} if host == OWN_NODE else {"address": host}
    return red(NAME, sentence, fix=FIX_KUBELET, **values)


def _policies(subject: Subject, bench: Bench, where: str, nodes: list[str]) -> list[dict[str, Any]]:
    """The very policies of projects, with the operator's openings."""
    from runtime.drivers.kubernetes.builders.tenant import policies

    family = ipaddress.ip_address(nodes[0]).version if nodes else 4
    known = tuple((subject.cluster.capacity or {}).get("node_ranges") or ())
    network = policies.Network(family=family, nodes=known)
    return policies.build(where, bench.labels(), registry.driver_options(subject.cluster), network)


def _is_address(value: Any) -> bool:
    try:
        ipaddress.ip_address(str(value))
    except ValueError:
        return False
    return True
