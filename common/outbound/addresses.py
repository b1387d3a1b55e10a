"""Which addresses may be reached: ``dataplane.addresses`` and the operator's settings.

The errors here are for people who use the portal.
"""

from __future__ import annotations

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
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
    "insecure_registry",
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
    """Return what the operator's settings allow; a line that can't be read stops the start."""
    ports = {int(p) for p in settings.BERTH_OUTBOUND_PORTS if p.isdigit()}
    if len(ports) != len(settings.BERTH_OUTBOUND_PORTS):
        message = "BERTH_OUTBOUND_PORTS is a list of port numbers, separated by commas."
        raise ImproperlyConfigured(message)
    openings = tuple(map(_opening, settings.BERTH_OUTBOUND_ALLOW))
    hosts = frozenset(map(insecure_registry, settings.BERTH_INSECURE_REGISTRIES))
    return Policy(frozenset(ports), openings, hosts)


def insecure_registry(text: str) -> tuple[str, int]:
    try:
        return split_host(text, default_port=80)
    except OutboundError as error:
        message = f"BERTH_INSECURE_REGISTRIES has {text!r}, which is not host:port."
        raise ImproperlyConfigured(message) from error


def _opening(text: str) -> Opening:
    try:
        return addresses.opening(text)
    except ValueError as error:
        message = f"BERTH_OUTBOUND_ALLOW has {text!r}, which is not a range like 10.1.0.0/16."
        raise ImproperlyConfigured(message) from error
