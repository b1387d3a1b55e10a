"""Does work reach Berth, and Berth work? Asked of pods that are closed as projects' are.

A notebook asks DNS for the name of Berth's internal listener, and then the listener, by the address
that is set; people come to it by the notebook proxy, at the pod's address. Each way is tried with
a second pod that no policy closes: what only that one reaches is lacking among the peers, what
neither reaches is a wrong address or no route.
"""

from __future__ import annotations

import ipaddress
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.utils.translation import gettext_noop as _n

from clusters import registry
from clusters.checks.base import GREEN, Finding, green, probe_ended, red, undecided, unknown
from clusters.checks.network import CLIENT, FIRST, LISTENER, WAIT_S
from clusters.checks.probe_runner import BenchError, Ended, Running
from clusters.usable import METADATA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusters.checks.base import Subject
    from clusters.checks.probe_runner import Bench
    from runtime.drivers.kubernetes.builders.tenant_policies import Front, Network
    from runtime.drivers.kubernetes.options import KubernetesOptions


WAYS = "ways"
PORT = 8888  # where notebooks listen
REACHED_S = 30.0  # a node may be late to enforce a new policy, or to open one
DNS, HUB_NAME, HUB, NOT_BERTH = 10, 11, 12, 13
# Every cluster's DNS knows its own API server (Kubernetes' DNS specification). What went wrong last
# is left where the node reads a container's last words.
CALLER = f"""
import json, os, socket, sys, time, urllib.error, urllib.parse, urllib.request
url = os.environ["HUB"] + "/hub/api"
ask = urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open
def tried():
    try:
        socket.getaddrinfo("kubernetes.default.svc", 443)
    except OSError as error:
        return {DNS}, error
    try:
        socket.getaddrinfo(urllib.parse.urlsplit(url).hostname, 80)
    except OSError as error:
        return {HUB_NAME}, error
    try:
        with ask(url, timeout=5) as answer:
            json.load(answer)["version"]
    except urllib.error.HTTPError as error:
        return {NOT_BERTH}, error
    except OSError as error:
        return {HUB}, getattr(error, "reason", error)
    except Exception as error:
        return {NOT_BERTH}, error
    return 0, ""
until = time.monotonic() + float(os.environ["WAIT"])
while True:
    code, why = tried()
    if not code or time.monotonic() > until:
        break
    time.sleep(0.5)
with open("/dev/termination-log", "w") as file:
    file.write(str(why)[:200])
sys.exit(code)
"""
SERVER = f"""
import http.server, socket
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(204)
        self.end_headers()
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    def server_bind(self):
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()
Server(("", {PORT}), Answer).serve_forever()
"""
_LISTENER = "BERTH_INTERNAL_BIND=ADDRESS BERTH_INTERNAL_URL=http://ADDRESS:8002  # then restart"
_POLICIES = "kubectl get networkpolicies -A"
LOOPBACK = _n(
    "Pods can't reach Berth at %(url)s: that is their own loopback. Let Berth listen on an address"
    " that pods are routed to (BERTH_INTERNAL_BIND), and say it in BERTH_INTERNAL_URL."
)
# By the end of the closed pod, and below zero where the other one got further: what to set.
LOST = {
    DNS: (
        _n("Pods get no answer from the cluster's DNS: %(why)s."),
        "kubectl get pods -n kube-system -l k8s-app=kube-dns -o wide",
    ),
    -DNS: (
        _n(
            "Pods of projects get no answer from DNS, other pods do. Under Settings → Network, DNS"
            " is said to be at %(peers)s: name where the cluster has it (namespace/k8s-app or"
            " ranges; one on each node is 169.254.20.10/32)."
        ),
        "kubectl get svc,endpointslices -n kube-system -l k8s-app=kube-dns --show-labels",
    ),
    HUB_NAME: (
        _n(
            "Pods can't resolve the name in %(url)s: %(why)s. Set Berth's address for pods"
            " (Settings → Network, or BERTH_INTERNAL_URL) to one that they know."
        ),
        _LISTENER,
    ),
    HUB: (
        _n(
            "Pods don't reach Berth at %(url)s: %(why)s. Does it listen there (BERTH_INTERNAL_BIND,"
            " BERTH_INTERNAL_URL), are pods routed to it, and does no firewall refuse them?"
        ),
        _LISTENER,
    ),
    -HUB: (
        _n(
            "Pods of projects don't reach Berth at %(url)s, other pods do. Under Settings →"
            " Network, Berth's listener is said to be at %(peers)s: name where it is as pods see it"
            " (namespace/app, or its address as a range)."
        ),
        _POLICIES,
    ),
    NOT_BERTH: (
        _n(
            "At %(url)s pods don't find Berth's listener for work: %(why)s. Its port is"
            " BERTH_INTERNAL_PORT, and its name must be in BERTH_INTERNAL_URL or"
            " BERTH_ALLOWED_HOSTS."
        ),
        _LISTENER,
    ),
}
FOUND = _n(
    "A pod as projects have them resolved names and found Berth at %(url)s; the notebook proxy"
    " reached it at %(address)s."
)
UNASKED = _n(
    "A pod as projects have them resolved names and found Berth at %(url)s. People come to work by"
    " a Gateway of yours, which was not tried."
)
NO_PEER = _n(
    "The notebook proxy reaches pods, but none that is closed as projects' are (%(why)s). Under"
    " Settings → Network, the proxy is said to be at %(peers)s: name where it is as pods see it"
    " (namespace/app, or its address as a range)."
)
NO_ROUTE = _n(
    "The notebook proxy does not reach pods (%(address)s: %(why)s). The machine that it runs on"
    " needs a route to the cluster's pod network; where there can be none, run Berth inside the"
    " cluster (the chart)."
)


def ways(subject: Subject, bench: Bench) -> Finding:
    options: KubernetesOptions = registry.driver_options(subject.cluster)
    if _is_loopback(options.hub_url):
        return red(WAYS, LOOPBACK, url=options.hub_url, fix=_LISTENER)
    if not bench.image:
        return unknown(WAYS, _n("Set a check image: a pod is needed to see it."))
    nodes = addresses(subject.api.ask("GET", "/api/v1/nodes", params={"limit": "50"}).body)
    free = bench.namespace("a")
    closed, _network = closed_namespace(subject, bench, nodes)
    env = {"HUB": options.hub_url.rstrip("/"), "WAIT": str(REACHED_S)}
    for where in (closed, free):
        bench.start(where, "listener", SERVER)
        bench.start(where, "caller", CALLER, env=env)
    ends = [bench.ends(where, ["caller"], runs_s=REACHED_S)["caller"] for where in (closed, free)]
    if lost := _to_berth(options, *ends):
        return lost
    there = [bench.running(where, ["listener"])["listener"] for where in (closed, free)]
    return _to_pods(options, *there)


def _is_loopback(url: str) -> bool:
    name = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def _to_berth(
    options: KubernetesOptions, closed: Ended | BenchError, free: Ended | BenchError
) -> Finding | None:
    """None: it found Berth."""
    if isinstance(closed, BenchError):
        raise closed
    if not closed.code:
        return None
    code = closed.code
    if isinstance(free, Ended) and free.code != code and code in {DNS, HUB}:
        code = -code  # the policy: whom it does not close gets further
    if code not in LOST:
        return probe_ended(WAYS, closed.code)
    sentence, fix = LOST[code]
    peers = options.dns_peers if closed.code == DNS else options.hub_peers
    values = {"url": options.hub_url, "peers": ", ".join(peers) or "—"}
    return red(WAYS, sentence, fix=fix, why=closed.said or "timed out", **values)


def _to_pods(
    options: KubernetesOptions, closed: Running | BenchError, free: Running | BenchError
) -> Finding:
    if isinstance(closed, BenchError):
        raise closed
    if isinstance(free, BenchError):
        raise free
    why = _unreached(closed)
    values = {"url": options.hub_url, "address": closed.address, "why": why}
    if why is None:
        return green(WAYS, UNASKED, **values)
    if not why:
        return green(WAYS, FOUND, **values)
    if not _unreached(free):
        peers = ", ".join(options.proxy_peers) or "—"
        return red(WAYS, NO_PEER, fix=_POLICIES, peers=peers, **values)
    fix = f"ip route get {closed.address}  # on Berth's machine"
    return red(WAYS, NO_ROUTE, fix=fix, **values)


def _unreached(pod: Running) -> str | None:
    """Return why the proxy does not reach a pod within the time, '' when it does."""
    shown = f"[{pod.address}]" if ":" in pod.address else pod.address
    until = time.monotonic() + REACHED_S
    while (why := registry.router().reach(f"http://{shown}:{PORT}/")) and time.monotonic() < until:
        time.sleep(1.0)
    return why


# Does a pod reach what belongs to the cluster? Asked of a pod that is closed as projects' are.
#
# A kubelet (port 10250) starts and reads every container of its node; a cloud's metadata address
# hands out the node's own credential. The API server is tried at every address that is known, also
# the public one of a managed cluster. Many enforcers let a pod reach its own node whatever a policy
# says, so this is tried, and another check than that of the policies: those may be green.


HOST = "host"
KUBELET = 10250
OWN_NODE = "$(NODE_ADDRESS)"  # Kubernetes puts the probing pod's node here
MOST_OTHERS = 3
MOST_SERVERS = 8
BESIDE = {
    "podSelector": {},
    "policyTypes": ["Ingress", "Egress"],
    "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "probe"}}}]}],
    "egress": [{"to": [{"podSelector": {"matchLabels": {"app": "beside"}}}]}],
}
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


def apart(subject: Subject, bench: Bench) -> Finding:
    if not bench.image:
        return unknown(HOST, _n("Set a check image: a pod is needed to see it."))
    nodes = addresses(subject.api.ask("GET", "/api/v1/nodes", params={"limit": "50"}).body)
    where, network = closed_namespace(subject, bench, nodes)
    known = servers(network)
    tried = targets(nodes, known)
    bench.policy(where, "allow-beside", BESIDE)
    bench.start(where, "beside", LISTENER)
    beside = bench.running(where, ["beside"])["beside"]
    if isinstance(beside, BenchError):
        raise beside
    wanted = [f"closed {host} {port}" for host, port in tried]
    expect = ",".join([*wanted, f"open {beside.address}"])
    bench.start(where, "probe", CLIENT, env={"EXPECT": expect, "WAIT": WAIT_S})
    found = judge(bench.exit_code(where, "probe", runs_s=float(WAIT_S)), tried, known)
    if found.state == GREEN and not known:
        return unknown(
            HOST,
            _n("A pod as projects have them reaches neither kubelet nor metadata. Where the API"
               " server listens is not known, so that could not be tried."),
            fix="kubectl get endpointslices -n default kubernetes",
        )  # fmt: skip
    return found


def closed_namespace(subject: Subject, bench: Bench, nodes: list[str]) -> tuple[str, Network]:
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
    """Say what the end of the probe means. ``FIRST`` and more: the number of what was reached,
    past them all that the pod beside it was not.

    Another end leaves an earlier answer: one bad probe must not open what red has closed.
    """
    if not code:
        return green(
            HOST,
            _n("A pod as projects have them reaches neither kubelet nor metadata nor the API"
               " server."),
        )  # fmt: skip
    if code == FIRST + len(tried):
        return undecided(
            HOST,
            _n("A pod as projects have them did not reach another one that a policy lets it, so"
               " nothing can be said."),
            fix=_POLICIES,
        )  # fmt: skip
    if not FIRST <= code < FIRST + len(tried):
        return probe_ended(HOST, code)
    host, port = tried[code - FIRST]
    if (host, port) in (known or ()):
        return red(
            HOST,
            _n("Pods of projects reach the API server at %(address)s (port %(port)d)."),
            address=host,
            port=port,
            fix=FIX_SERVER,
        )
    if host == METADATA:
        return red(
            HOST,
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
    return red(HOST, sentence, fix=FIX_KUBELET, **values)


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
