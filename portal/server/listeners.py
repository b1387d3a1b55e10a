"""Every port of a portal on one machine, and how the manager takes them all before a start.

A workspace on this machine may listen on any port that is free, and browsers send it the portal's
cookies when a page leads them there: cookies ignore ports. So each port that a page may ever name
is ours before the first workspace runs, whether or not something serves there yet.
"""

import errno
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from portal.server.paths import Refusal

BACKLOG = 1024


@dataclass(frozen=True)
class Listener:
    """One port; ``is_open``: people reach it, the rest is for our own processes and workloads."""

    name: str  # in the plan
    setting: str
    is_open: bool = False


LISTENERS = (
    Listener("web", "BERTH_PORT", is_open=True),
    Listener("proxy", "BERTH_PROXY_PORT", is_open=True),
    Listener("internal", "BERTH_INTERNAL_PORT"),
    Listener("proxy_api", "BERTH_PROXY_API_PORT"),
    Listener("gate", "BERTH_GATE_PORT", is_open=True),
    Listener("ssh", "BERTH_SSH_PORT", is_open=True),  # 0: none
    Listener("gate_internal", "BERTH_GATE_INTERNAL_PORT"),
)
# `localhost` is both, and browsers try the second one first. Of what we do not serve the port is
# still ours: who asks there is refused at once, and asks the other.
OTHER_FAMILY = {"127.0.0.1": "::1", "0.0.0.0": "::", "::1": "127.0.0.1"}  # noqa: S104 - a name


def bind_all(plan: Mapping[str, Any]) -> tuple[dict[str, socket.socket], list[socket.socket]]:
    """Return what listens, by name, and what is only kept from others. A busy port is a Refusal."""
    found: dict[str, socket.socket] = {}
    kept: list[socket.socket] = []
    for one in LISTENERS:
        port = plan["ports"][one.name]
        if not port:
            continue
        address = plan["bind"] if one.is_open else "127.0.0.1"
        found[one.name] = _listening(one, address, port)
        if one.is_open and address in OTHER_FAMILY:
            kept += _kept(one, OTHER_FAMILY[address], port)
        if one.name == "internal" and plan["internal_bind"] not in {"127.0.0.1", "localhost"}:
            # besides loopback: where workloads of a cluster reach the Hub's API
            found["hub"] = _listening(one, plan["internal_bind"], port)
    return found, kept


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens there; OSError where that can't be."""
    sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((address, port))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


def _listening(one: Listener, address: str, port: int) -> socket.socket:
    try:
        return listen(address, port)
    except OSError as error:
        raise _busy(one, address, port, error) from error


def _kept(one: Listener, address: str, port: int) -> list[socket.socket]:
    """Bound and never listened on, so without SO_REUSEADDR: others might share it else."""
    try:
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    except OSError:
        return []  # this machine has no such family
    try:
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((address, port))
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise _busy(one, address, port, error) from error
        return []  # nor such an address
    return [sock]


def _busy(one: Listener, address: str, port: int, error: OSError) -> Refusal:
    return Refusal(
        f"Port {port} of {address} can't be used: {(error.strerror or str(error)).lower()}."
        f" End what uses it, or choose another: {one.setting}={port + 1000} make run"
        + (" (the other six ports follow it)" if one.name == "web" else "")
    )
