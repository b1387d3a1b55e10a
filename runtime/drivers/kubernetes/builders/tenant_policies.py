"""Network policies: nothing in, nothing out, and the few holes that work needs.

Members of a project are not one person, so pods of one namespace do not reach each other either.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from dataplane.addresses import Opening, opening
from runtime.drivers.kubernetes.options import KubernetesOptions

Object = dict[str, Any]

# A notebook listens on 8888; the sign-in in front of the n-th web port of a container on 8888+n.
PROXIED_PORTS = (8888, 8896)
PROXY = "allow-proxy"  # the policy that says who carries requests to pods
# Not the internet: private, link-local (metadata services), carrier-grade NAT, loopback,
# test nets, multicast, reserved; and IPv6 that is translated to IPv4 on the way.
NOT_PUBLIC = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16/32",  # a cloud's wire server: hands out secrets of the node
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/96",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "2002::/16",
    "fc00::/7",
    "fe80::/10",
    "ff00::/8",
)


_METADATA = ("168.63.129.16/32", "169.254.0.0/16", "fd00:ec2::254/128")


Front = tuple[str, int]  # an address and a port


@dataclass(frozen=True)
class Network:
    """What is known of the cluster: its address family, and what must stay closed."""

    family: int = 4
    api: tuple[str, ...] = ()
    api_ports: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()  # public addresses of nodes: a kubelet listens there
    fronts: tuple[Front, ...] = ()  # where the API server is reached from outside


def build(
    namespace: str, marks: Mapping[str, str], options: KubernetesOptions, network: Network
) -> list[Object]:
    made = [_policy(namespace, marks, "default-deny", ["Ingress", "Egress"])]
    first, last = PROXIED_PORTS
    if options.dns_peers:
        rule = {
            "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}],
            "to": [peer(p, label="k8s-app") for p in options.dns_peers],
        }
        made.append(_policy(namespace, marks, "allow-dns", ["Egress"], egress=[rule]))
    if options.proxy_peers:
        rule = {
            "from": [peer(p) for p in options.proxy_peers],
            "ports": [{"port": first, "endPort": last, "protocol": "TCP"}],
        }
        made.append(_policy(namespace, marks, PROXY, ["Ingress"], ingress=[rule]))
    if options.hub_peers and options.hub_url:
        rule = {
            "ports": [{"port": port_of(options.hub_url), "protocol": "TCP"}],
            "to": [peer(p) for p in options.hub_peers],
        }
        made.append(_policy(namespace, marks, "allow-hub", ["Egress"], egress=[rule]))
    servers = (*network.api, *(address for address, _port in network.fronts))
    closed = (*options.blocked_cidrs, *options.pod_cidrs, *servers, *network.nodes)
    if options.internet and (to := internet(closed, network.family)):
        rule = {"to": to}
        made.append(_policy(namespace, marks, "allow-internet", ["Egress"], egress=[rule]))
    if rules := named(options, network):
        made.append(_policy(namespace, marks, "allow-named", ["Egress"], egress=rules))
    return made


def named(options: KubernetesOptions, network: Network) -> list[Object]:
    """Return a rule for each range that the operator opened, like a store in the own network.

    What must stay closed stays so inside of it: the API server, nodes' public addresses, other
    pods, metadata services, and what the operator blocks. One address with one port is meant as
    it stands, unless the API server listens there or it is one of the last two.
    """
    always = (*_METADATA, *options.blocked_cidrs)
    rules = []
    for wanted in map(opening, options.allowed_cidrs):
        one = wanted.port is not None and wanted.network.num_addresses == 1
        closed = [*always, *(a for a, port in network.fronts if not one or port == wanted.port)]
        if not one or wanted.port in network.api_ports:
            closed += [*network.api, *network.nodes, *options.pod_cidrs]
        if wanted.network.version == network.family:
            rules.append(_opened(wanted, [ipaddress.ip_network(c) for c in closed]))
    return [rule for rule in rules if rule is not None]


def _opened(wanted: Opening, closed: Iterable[Any]) -> Object | None:
    """None: all of it must stay closed."""
    there = [n for n in closed if n.version == wanted.network.version]
    if any(wanted.network.subnet_of(n) for n in there):
        return None
    inside = [n for n in there if n.subnet_of(wanted.network)]
    block: Object = {"cidr": str(wanted.network)}
    if inside:
        block["except"] = [str(n) for n in _joined(inside, wanted.network.version)]
    rule: Object = {"to": [{"ipBlock": block}]}
    if wanted.port is not None:
        rule["ports"] = [{"port": wanted.port, "protocol": "TCP"}]
    return rule


def peer(text: str, *, label: str = "app") -> Object:
    """Return the peer for an address range or ``namespace/app``."""
    try:
        return {"ipBlock": {"cidr": str(ipaddress.ip_network(text))}}
    except ValueError:
        where, _, app = text.partition("/")
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": where}},
        "podSelector": {"matchLabels": {label: app}},
    }


def internet(blocked: Iterable[str], family: int) -> list[Object]:
    """Return every public address of the cluster's family but ``blocked``.

    Only that family: an enforcer without the other one may stop at such a rule and then enforce
    nothing at all (kube-router 1.6 does). What no rule names stays closed. Nothing where all of it
    is blocked: a range without anything in it is refused by the API server.
    """
    closed = [ipaddress.ip_network(c) for c in (*NOT_PUBLIC, *blocked)]
    everything = "0.0.0.0/0" if family == 4 else "::/0"  # noqa: PLR2004 - the two there are
    left_out = [str(c) for c in _joined(closed, family)]
    if left_out == [everything]:
        return []
    return [{"ipBlock": {"cidr": everything, "except": left_out}}]


def _joined(networks: Iterable[Any], version: int) -> list[Any]:
    """Return the ranges of one family, sorted, without those that lie in another one."""
    mine = [n for n in networks if n.version == version]
    return sorted(ipaddress.collapse_addresses(mine))


def port_of(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def _policy(
    namespace: str, marks: Mapping[str, str], name: str, types: list[str], **rules: Any
) -> Object:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(marks)},
        "spec": {"podSelector": {}, "policyTypes": types, **rules},
    }
