"""Which addresses an attached cluster may have (hostile case C2).

Private ranges are where clusters live, so only what is never a cluster of somebody else is
refused: loopback, link-local (metadata), nothing-addresses. Another address of this machine may
be one: portal and cluster share a machine where there is but one. The check is made on the
address that is connected to, so a name that changes its answer gains nothing.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from django.conf import settings

from dataplane.addresses import IPAddress, unwrapped
from runtime.protocol import Unreachable

Check = Callable[[str], None]

_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        ("169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254"),
    )
)
# Where "this network" is a way to say "this machine".
_THIS = ipaddress.ip_network("0.0.0.0/8")


def is_allowed(address: IPAddress, *, loopback: bool) -> bool:
    plain = unwrapped(address)
    if plain in _METADATA or plain.is_unspecified or plain.is_multicast or plain.is_link_local:
        return False
    if plain.version == _THIS.version and plain in _THIS:
        return False
    return loopback or not plain.is_loopback


def check_for(*, loopback: bool) -> Check:
    """Return what raises Unreachable for an address (as text) that may not be used."""

    def check(text: str) -> None:
        address = ipaddress.ip_address(text.partition("%")[0])
        if not is_allowed(address, loopback=loopback):
            message = f"The cluster's address leads to {address}, which is not allowed."
            raise Unreachable(message)

    return check


def check_from_settings() -> Check:
    """``BERTH_ALLOW_PRIVATE_CLUSTERS`` lets loopback addresses be clusters too."""
    return check_for(loopback=bool(getattr(settings, "BERTH_ALLOW_PRIVATE_CLUSTERS", False)))
