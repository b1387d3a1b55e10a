"""Which addresses may be reached: ``dataplane.addresses`` and the operator's settings.

The errors here are for people who use the portal.
"""

from __future__ import annotations

from django.conf import settings
from django.utils.translation import gettext as _

from common.outbound.errors import OutboundError, Trouble
from dataplane import addresses
from dataplane.addresses import (
    PORTS,
    IPAddress,
    IPNetwork,
    NotAHost,
    Opening,
    Policy,
    is_public,
    unwrapped,
)

__all__ = [
    "PORTS",
    "IPAddress",
    "IPNetwork",
    "Opening",
    "Policy",
    "clean_host",
    "is_public",
    "policy_from_settings",
    "split_host",
    "unwrapped",
]


def clean_host(host: str) -> str:
    """Return the host in one spelling, or raise: a name, or an address in its usual form."""
    try:
        return addresses.clean_host(host)
    except NotAHost as error:
        raise _wrong(error) from None


def split_host(text: str, *, default_port: int) -> tuple[str, int]:
    """Split ``host``, ``host:port`` or ``[v6]:port``; raise when it is neither."""
    try:
        return addresses.split_host(text, default_port=default_port)
    except NotAHost as error:
        raise _wrong(error) from None


def _wrong(error: NotAHost) -> OutboundError:
    return OutboundError(
        Trouble.ADDRESS, _("“%(host)s” is not the name of a host."), {"host": error.shown}
    )


def policy_from_settings() -> Policy:
    """Return what the operator's settings allow."""
    ports = frozenset(map(int, settings.BERTH_OUTBOUND_PORTS))
    openings = tuple(map(addresses.opening, settings.BERTH_OUTBOUND_ALLOW))
    hosts = settings.BERTH_INSECURE_REGISTRIES
    plain = frozenset(addresses.split_host(host, default_port=80) for host in hosts)
    return Policy(ports, openings, plain)
