"""Sockets on the way out: the name is asked once and the very address that was checked is used."""

from __future__ import annotations

import ipaddress
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import httpcore
from django.utils.translation import gettext as _

from common.outbound.addresses import IPAddress, Policy
from common.outbound.errors import OutboundError, Trouble

TRIED = 4  # addresses of one name
Resolve = Callable[[str, int, float], list[IPAddress]]


class Deadline:
    """A moment after which nothing is waited for, however slowly bytes drip."""

    def __init__(self, at: float) -> None:
        self._at = at

    def left(self, at_most: float | None = None) -> float:
        left = self._at - time.monotonic()
        if left <= 0:
            raise OutboundError(Trouble.TIMEOUT, _("It did not answer in time."))
        return left if at_most is None else min(left, at_most)


class GuardedBackend(httpcore.NetworkBackend):
    """Opens connections for the pool; the name stays the one of SNI and of the Host header."""

    def __init__(self, policy: Policy, deadline: Deadline, resolve: Resolve) -> None:
        self._policy = policy
        self._deadline = deadline
        self._resolve = resolve
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - the pool's signature
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        found = self._resolve(host, port, self._deadline.left(timeout))
        allowed = [a for a in found if self._policy.permits(host, a, port)][:TRIED]
        if not allowed:
            raise OutboundError(
                Trouble.REFUSED, _("It is not at a public address, and Berth asks only those.")
            )
        for n, address in enumerate(allowed):
            try:
                stream = self._sockets.connect_tcp(
                    str(address), port, self._deadline.left(timeout), None, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if n == len(allowed) - 1:
                    raise
                continue
            return GuardedStream(self._checked(stream, host, port), self._deadline)
        raise AssertionError  # the loop returns or raises

    def connect_unix_socket(self, *_args: Any, **_kwargs: Any) -> httpcore.NetworkStream:
        raise OutboundError(Trouble.ADDRESS, _("This is not a web address."))

    def _checked(
        self, stream: httpcore.NetworkStream, host: str, port: int
    ) -> httpcore.NetworkStream:
        """Believe the socket, not the list: it says where it really leads."""
        peer = stream.get_extra_info("server_addr")
        address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
        if not self._policy.permits(host, address, port) or peer[1] != port:
            stream.close()
            raise OutboundError(Trouble.REFUSED, _("It leads to another address than it said."))
        return stream


class GuardedStream(httpcore.NetworkStream):
    """A stream that ends at the deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        inner = self._stream.start_tls(ssl_context, server_hostname, self._deadline.left(timeout))
        return GuardedStream(inner, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def system_resolve(host: str, port: int, seconds: float) -> list[IPAddress]:
    """Ask the name server once, at most ``seconds`` long (it knows no limit of its own)."""
    try:
        return [ipaddress.ip_address(host)]
    except ValueError:
        pass
    answers: queue.SimpleQueue[list[str] | None] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put([str(entry[4][0]) for entry in found])
        except (OSError, UnicodeError):
            answers.put(None)

    threading.Thread(target=ask, name="outbound-resolve", daemon=True).start()
    try:
        found = answers.get(timeout=seconds)
    except queue.Empty:
        raise OutboundError(Trouble.TIMEOUT, _("Its name was not answered in time.")) from None
    if not found:
        raise OutboundError(Trouble.UNKNOWN_HOST, _("There is no host of this name."))
    return [ipaddress.ip_address(text.partition("%")[0]) for text in dict.fromkeys(found)]
