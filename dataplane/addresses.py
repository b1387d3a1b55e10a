"""Which addresses may be reached: pure rules, no sockets.

Shared by the portal (``common.outbound``) and the programs next to the data.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import NoReturn

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

PORTS = frozenset({80, 443, 5000, 8443})
PORT_MAX = 65535
HOST_MAX = 253
_LABEL = re.compile(r"\A(?!-)[a-z0-9_-]{1,63}(?<!-)\Z")
_PORT = re.compile(r"\A[0-9]{1,5}\Z")

# What hands out credentials of the machine itself. Never reached, whatever is allowed.
_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        ("169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192"),
    )
) | {ipaddress.ip_address("fd00:ec2::254")}
# Public by the register, but each stands for something else.
_ODD = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8",
            "100.64.0.0/10",
            "192.88.99.0/24",
            "240.0.0.0/4",
            "::/96",
            "64:ff9b:1::/48",
            "100::/64",
            "2001::/32",
            "2002::/16",
            "fec0::/10",
        ),
    )
)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


@dataclass(frozen=True)
class Opening:
    """A range that the operator opened, for one port or for all that are allowed."""

    network: IPNetwork
    port: int | None = None

    def fits(self, address: IPAddress, port: int, ports: frozenset[int]) -> bool:
        """``ports`` are the allowed ones, for an opening that names none."""
        fitting = port in ports if self.port is None else port == self.port
        return fitting and address in self.network


@dataclass(frozen=True)
class Policy:
    """``hosts`` are (name, port) pairs that the operator vouches for by name."""

    ports: frozenset[int] = PORTS
    openings: tuple[Opening, ...] = ()
    hosts: frozenset[tuple[str, int]] = field(default_factory=frozenset)

    def permits_port(self, host: str, port: int) -> bool:
        if port in self.ports or (host, port) in self.hosts:
            return True
        return any(o.port == port for o in self.openings)

    def permits(self, host: str, address: IPAddress, port: int) -> bool:
        """Whether a connection to ``address`` may be opened; ``host`` is how it was named."""
        plain = unwrapped(address)
        if plain in _METADATA or plain.is_unspecified or plain.is_multicast:
            return False
        if (host, port) in self.hosts:
            return True
        open_here = any(o.fits(plain, port, self.ports) for o in self.openings)
        return open_here or (port in self.ports and is_public(plain))


@dataclass(frozen=True)
class Fence:
    """What the network around this process lets out, as it was set. Enforced elsewhere: only told.

    ``blocked`` stays closed inside an opening too, ``closed`` only of what is public.
    """

    internet: bool
    openings: tuple[Opening, ...] = ()
    blocked: tuple[IPNetwork, ...] = ()
    closed: tuple[IPNetwork, ...] = ()

    def passes(self, address: IPAddress, port: int) -> bool:
        plain = unwrapped(address)
        if any(plain in network for network in self.blocked):
            return False
        if any(o.port in {None, port} and plain in o.network for o in self.openings):
            return True
        is_closed = any(plain in network for network in self.closed)
        return self.internet and is_public(plain) and not is_closed


def is_public(address: IPAddress) -> bool:
    plain = unwrapped(address)
    if plain in _METADATA or any(plain in net for net in _ODD if net.version == plain.version):
        return False
    return plain.is_global and not (plain.is_multicast or plain.is_reserved or plain.is_link_local)


def unwrapped(address: IPAddress) -> IPAddress:
    """Return the IPv4 address that an IPv6 one only wraps, where it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def clean_host(host: str) -> str:
    """Return the host in one spelling, or raise: a name, or an address in its usual form.

    ``0x7f.1``, ``2130706433`` and ``0177.0.0.1`` are addresses to a resolver and to nobody
    else, so whatever ends in a number and is not a usual address is refused.
    """
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        if "%" not in bare:
            return str(ipaddress.ip_address(bare))
    except ValueError:
        pass
    name = bare.lower().removesuffix(".")
    labels = name.split(".")
    if bare != host or not name or len(name) > HOST_MAX:
        _wrong(host)
    if not all(_LABEL.match(label) for label in labels):
        _wrong(host)
    if labels[-1].isdigit() or re.fullmatch(r"0x[0-9a-f]*", labels[-1]):
        _wrong(host)
    return name


def split_host(text: str, *, default_port: int) -> tuple[str, int]:
    """Split ``host``, ``host:port`` or ``[v6]:port``; raise when it is neither."""
    host, port = text, str(default_port)
    if text.startswith("["):
        inside, bracket, rest = text.partition("]")
        host = inside + bracket
        if rest:
            if not rest.startswith(":"):
                _wrong(text)
            port = rest[1:]
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if not _PORT.match(port) or not 0 < int(port) <= PORT_MAX:
        _wrong(text)
    return clean_host(host), int(port)


def opening(text: str) -> Opening:
    """Read ``10.1.0.0/16``, ``10.1.2.3:5000`` or ``[fd00::/8]:443``; else ``ValueError``."""
    network, port = text, ""
    if text.startswith("["):
        network, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        network, _, port = text.partition(":")
    return Opening(ipaddress.ip_network(network), int(port) if port else None)


class NotAHost(ValueError):  # noqa: N818 - reads as a sentence where it is raised
    """``shown`` is what was given, cut and printable."""

    def __init__(self, text: str) -> None:
        self.shown = "".join(c for c in text[:80] if c.isprintable())
        super().__init__(f"{self.shown!r} is not the name of a host")


def _wrong(text: str) -> NoReturn:
    raise NotAHost(text)
