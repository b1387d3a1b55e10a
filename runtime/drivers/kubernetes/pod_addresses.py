"""Which addresses a cluster may say that its pods have (hostile case C2).

The proxy and the prober connect to where a cluster says a pod is. A cluster that lies must not
point them at this machine, at a metadata service, or at something beyond its own network. Where
an operator named the ranges of its pods, only those will do.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable

from runtime.drivers.kubernetes.addresses import is_allowed
from runtime.protocol import Unreachable


def is_own(text: str) -> bool:
    """Whether the address is this machine's: what is sent there would come from there.

    Nothing is sent; connecting a datagram socket only looks up the route.
    """
    address = ipaddress.ip_address(text)
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET  # noqa: PLR2004
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((text, 9))
            return ipaddress.ip_address(probe.getsockname()[0].partition("%")[0]) == address
    except OSError:
        return False


class PodAddresses:
    """``ranges``: where the cluster's pods are; empty: not said."""

    def __init__(self, ranges: Iterable[str] = (), own: Callable[[str], bool] = is_own) -> None:
        self._ranges = [ipaddress.ip_network(text) for text in ranges]
        self._own = own

    def refusal(self, text: str) -> str:
        """Return why nobody is led there; '' when it may be a pod's."""
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return "The cluster says that the pod has an address which is none."
        told = f"The cluster says that the pod is at {address}"
        if not is_allowed(address, loopback=bool(self._ranges)):
            return f"{told}, which no pod has."
        if self._ranges:
            return "" if self._is_inside(address) else f"{told}, outside the ranges of its pods."
        return f"{told}, which is the portal's own." if self._own(text) else ""

    def check(self, text: str) -> None:
        """Raise Unreachable with the reason (the form in which a prober asks)."""
        if why := self.refusal(text):
            raise Unreachable(why)

    def _is_inside(self, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
        return any(address.version == one.version and address in one for one in self._ranges)
