"""Does a pod reach what belongs to the cluster? Asked of a pod that is closed as projects' are.

A kubelet (port 10250) starts and reads every container of its node; a cloud's metadata address
hands out the node's own credential. The API server is tried at every address that is known, also
the public one of a managed cluster. Many enforcers let a pod reach its own node whatever a policy
says, so this is tried, and another check than that of the policies: those may be green.
"""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_noop as _n

from clusters import registry
from clusters.checks.base import GREEN, Finding, green, probe_ended, red, unknown
from clusters.checks.network import CLIENT, FIRST, WAIT_S
from clusters.gating_checks import METADATA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusters.checks.base import Subject
    from clusters.checks.probe_runner import Bench
    from runtime.drivers.kubernetes.builders.tenant_policies import Front, Network

NAME = "host"
KUBELET = 10250
OWN_NODE = "$(NODE_ADDRESS)"  # Kubernetes puts the probing pod's node here
MOST_OTHERS = 3
MOST_SERVERS = 8
FIX_KUBELET = (
    "kubectl get pods -A | grep -E 'calico|cilium|kube-router|antrea'"
    "  # its rules must also hold between a pod and its own node"
)
FIX_METADATA = (
    f"iptables -I FORWARD -d {METADATA} -j DROP"
    "  # on every node, or the cloud's own switch (AWS: hop limit 1, Google: workload identity)"
)
FIX_SERVER = (
    "kubectl get networkpolicies -A"
    "  # allowed_cidrs opens its address, or the network plugin lets pods reach it all the same"
)


def act(subject: Subject, bench: Bench) -> Finding:
    if not bench.image:
        return unknown(NAME, _n("Set a check image: a pod is needed to see it."))
    nodes = addresses(subject.api.ask("GET", "/api/v1/nodes", params={"limit": "50"}).body)
    where, network = closed(subject, bench, nodes)
    known = servers(network)
    tried = targets(nodes, known)
    expect = ",".join(f"closed {host} {port}" for host, port in tried)
    bench.start(where, "probe", CLIENT, env={"EXPECT": expect, "WAIT": WAIT_S})
    found = judge(bench.exit_code(where, "probe", runs_s=float(WAIT_S)), tried, known)
    if found.state == GREEN and not known:
        return unknown(
            NAME,
            _n("A pod as projects have them reaches neither kubelet nor metadata. Where the API"
               " server listens is not known, so that could not be tried."),
            fix="kubectl get endpointslices -n default kubernetes",
        )  # fmt: skip
    return found


def closed(subject: Subject, bench: Bench, nodes: list[str]) -> tuple[str, Network]:
    """Return a namespace under the very policies of projects, with the operator's openings."""
    from runtime.drivers.kubernetes.builders import tenant_policies

    network = _network(subject, nodes)
    where, options = bench.namespace("c"), registry.driver_options(subject.cluster)
    for policy in tenant_policies.build(where, bench.labels(), options, network):
        bench.policy(where, policy["metadata"]["name"], policy["spec"])
    return where, network


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


def servers(network: Network) -> list[Front]:
    """Where the API server can be tried from a pod."""
    own = [(address, port) for address in network.api for port in network.api_ports]
    return list(dict.fromkeys([*network.fronts, *own]))[:MOST_SERVERS]


def targets(nodes: list[str], known: list[Front] | None = None) -> list[Front]:
    """The metadata address, the pod's own node, a few others, and the API server: what is reached
    first is told.
    """
    kubelets = [OWN_NODE, *dict.fromkeys(nodes[:MOST_OTHERS])]
    return [(METADATA, 80), *((host, KUBELET) for host in kubelets), *(known or [])]


def judge(code: int, tried: list[Front], known: list[Front] | None = None) -> Finding:
    """Say what the end of the probe means. ``FIRST`` and more: the number of what was reached.

    Another end leaves an earlier answer: one bad probe must not open what red has closed.
    """
    if not code:
        return green(
            NAME,
            _n("A pod as projects have them reaches neither kubelet nor metadata nor the API"
               " server."),
        )  # fmt: skip
    if not FIRST <= code < FIRST + len(tried):
        return probe_ended(NAME, code)
    host, port = tried[code - FIRST]
    if (host, port) in (known or ()):
        return red(
            NAME,
            _n("Pods of projects reach the API server at %(address)s (port %(port)d)."),
            address=host,
            port=port,
            fix=FIX_SERVER,
        )
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


def _network(subject: Subject, nodes: list[str]) -> Network:
    """What projects' policies are made of."""
    from runtime.drivers.kubernetes import api_server
    from runtime.drivers.kubernetes.client import path_of

    told = subject.api.ask("GET", path_of(*api_server.SLICE))
    urls = {subject.cluster.server, subject.options.kube_api_url} - {""}
    fronts = [front for url in urls for front in api_server.fronts_of(url) or ()]
    found = api_server.network_of(told.body if told.ok else {}, fronts)
    family = ipaddress.ip_address(nodes[0]).version if nodes else found.family
    ranges = tuple((subject.cluster.capacity or {}).get("node_ranges") or ())
    return replace(found, family=family, nodes=ranges)


def _is_address(value: Any) -> bool:
    try:
        ipaddress.ip_address(str(value))
    except ValueError:
        return False
    return True
