"""Opens connections: the address really connected to is checked, whatever a name server says.

Proxies, ``.netrc``, key logs and certificates that the environment names are never used.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

from dataplane import addresses
from dataplane.addresses import IPAddress, NotAHost, Policy
from dataplane.copy.http1 import Broken, Connection, now
from dataplane.copy.plan import OutboundPlan
from dataplane.copy.problems import Final, Stop

CONNECT_S = 10.0
RESOLVE_S = 10.0
KEEP_S = 5.0  # an answer of the name server serves the connections of one moment
TRIED = 4
SCHEMES = {"https": 443, "http": 80}
_NO_NAME = "The name of the store is not known."


Place = tuple[str, int, bool]  # host, port, with TLS


class Endpoint:
    """Where a store answers: read strictly from what the plan says."""

    def __init__(
        self, url: str, policy: Policy, insecure: frozenset[tuple[str, int]] | None
    ) -> None:
        """``insecure``: who may do without TLS; None: whoever this is."""
        scheme, mark, rest = url.partition("://")
        authority, _, path = rest.partition("/")
        if not mark or scheme not in SCHEMES or path.strip("/") or set(authority) & set("@?#\\"):
            raise Stop(Final.BAD_PLAN, "The endpoint is not https://host or https://host:port.")
        try:
            self.host, self.port = addresses.split_host(authority, default_port=SCHEMES[scheme])
        except NotAHost:
            raise Stop(Final.BAD_PLAN, "The endpoint is not the address of a host.") from None
        self.tls = scheme == "https"
        self.default_port = self.port == SCHEMES[scheme]
        named = insecure is None or (self.host, self.port) in insecure
        if not self.tls and not named:
            raise Stop(
                Final.REFUSED_ADDRESS,
                "The endpoint does not use TLS, and the operator did not allow that for it.",
            )
        if not policy.permits_port(self.host, self.port):
            raise Stop(Final.REFUSED_ADDRESS, f"Port {self.port} is not one that loads connect to.")

    @property
    def place(self) -> Place:
        return self.host, self.port, self.tls

    def header(self, host: str | None = None) -> str:
        """Return the Host header, for this host or one beside it (a bucket's own name)."""
        name = host or self.host
        shown = f"[{name}]" if ":" in name else name
        return shown if self.default_port else f"{shown}:{self.port}"

    def beside(self, host: str) -> Endpoint:
        """Return the same endpoint under another name."""
        other = object.__new__(Endpoint)
        other.__dict__.update(self.__dict__)
        other.host = host
        return other


class Dialer:
    """Connects to endpoints under one policy."""

    def __init__(self, plan: OutboundPlan) -> None:
        self._insecure = frozenset(_host(text) for text in plan.insecure_hosts)
        try:
            openings = tuple(map(addresses.opening, plan.allow))
        except ValueError:
            raise Stop(Final.BAD_PLAN, "What the operator allows can't be read.") from None
        self.policy = Policy(frozenset(plan.ports), openings, self._insecure)
        self._fence = plan.fence
        self._ca_file = plan.ca_file
        self._tls: ssl.SSLContext | None = None
        self._known: dict[tuple[str, int], tuple[float, list[IPAddress]]] = {}

    def endpoint(self, url: str) -> Endpoint:
        return Endpoint(url, self.policy, self._insecure)

    def onward(self, url: str, sender: Endpoint) -> Endpoint:
        """Return where ``sender`` sends us: an address like any other, checked like any other.

        Only one that the operator lets do without TLS may send to where there is none.
        """
        if sender.tls:
            return Endpoint(url, self.policy, frozenset())
        return Endpoint(url, self.policy, None)

    async def connect(self, endpoint: Endpoint) -> Connection:
        allowed = self._allowed(endpoint, await self._resolved(endpoint.host, endpoint.port))
        for address in allowed[:TRIED]:
            try:
                async with asyncio.timeout(CONNECT_S):
                    made = _made(address)
                    try:
                        made.setblocking(False)
                        loop = asyncio.get_running_loop()
                        await loop.sock_connect(made, (str(address), endpoint.port))
                        self._check(made, endpoint)
                        _transport, line = await loop.create_connection(
                            Connection,
                            sock=made,
                            ssl=self._context() if endpoint.tls else None,
                            server_hostname=endpoint.host if endpoint.tls else None,
                        )
                    except BaseException:
                        made.close()
                        raise
                    return line
            except ssl.SSLCertVerificationError:
                raise _not_its_name() from None
            except (OSError, TimeoutError):
                continue
        raise self._nowhere(endpoint, allowed)

    def open(self, endpoint: Endpoint, holds: Callable[[socket.socket], None]) -> socket.socket:
        """Connect in this thread; ``holds`` gets what may be cut while that lasts, and after."""
        allowed = self._allowed(endpoint, self._found(endpoint.host, endpoint.port))
        for address in allowed[:TRIED]:
            made = _made(address)
            try:
                holds(made)
                made.settimeout(CONNECT_S)
                made.connect((str(address), endpoint.port))
                self._check(made, endpoint)
                if endpoint.tls:
                    made = self._context().wrap_socket(
                        made, server_hostname=endpoint.host, do_handshake_on_connect=False
                    )
                    holds(made)
                    made.do_handshake()
                made.settimeout(None)
            except ssl.SSLCertVerificationError:
                made.close()
                raise _not_its_name() from None
            except OSError:
                made.close()
                continue
            except BaseException:
                made.close()
                raise
            return made
        raise self._nowhere(endpoint, allowed)

    def _allowed(self, endpoint: Endpoint, found: list[IPAddress]) -> list[IPAddress]:
        allowed = [a for a in found if self.policy.permits(endpoint.host, a, endpoint.port)]
        if not allowed:
            raise Stop(
                Final.REFUSED_ADDRESS,
                "The endpoint is not at a public address, and loads connect only to those.",
            )
        return allowed

    def _nowhere(self, endpoint: Endpoint, allowed: list[IPAddress]) -> Exception:
        self._known.pop((endpoint.host, endpoint.port), None)
        fence = self._fence
        if fence is not None and not any(fence.passes(a, endpoint.port) for a in allowed):
            return Stop(Final.CLOSED_NETWORK, f"{endpoint.host}: {allowed[0]}, {endpoint.port}")
        return Broken("The store can't be reached.")

    def _check(self, made: socket.socket, endpoint: Endpoint) -> None:
        """Believe the socket, not the list: it says where it really leads."""
        peer = made.getpeername()
        address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
        if peer[1] != endpoint.port or not self.policy.permits(
            endpoint.host, address, endpoint.port
        ):
            raise Stop(Final.REFUSED_ADDRESS, "The endpoint leads to another address than it said.")

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            import certifi  # takes as long as all of asyncio; only where there is TLS

            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.load_verify_locations(certifi.where())
            if self._ca_file:
                if not Path(self._ca_file).is_file():
                    raise Stop(Final.BAD_PLAN, "The operator's file of authorities is missing.")
                context.load_verify_locations(self._ca_file)
            self._tls = context
        return self._tls

    async def _resolved(self, host: str, port: int) -> list[IPAddress]:
        if known := self._known_of(host, port):
            return known
        try:
            async with asyncio.timeout(RESOLVE_S):
                return await asyncio.to_thread(self._found, host, port)
        except TimeoutError:
            raise Broken(_NO_NAME) from None

    def _found(self, host: str, port: int) -> list[IPAddress]:
        """Return the addresses of a name; an answer of a moment ago is good still."""
        if known := self._known_of(host, port):
            return known
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise Broken(_NO_NAME) from None
        texts = dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found)
        answers = [ipaddress.ip_address(text) for text in texts]
        self._known[(host, port)] = (now() + KEEP_S, answers)
        return answers

    def _known_of(self, host: str, port: int) -> list[IPAddress]:
        try:
            return [ipaddress.ip_address(host)]
        except ValueError:
            until, known = self._known.get((host, port), (0.0, []))
            return known if until > now() else []


def _made(address: IPAddress) -> socket.socket:
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET  # noqa: PLR2004
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _not_its_name() -> Stop:
    return Stop(Final.UNREACHABLE, "The store's certificate is not valid for its name.")


def _host(text: str) -> tuple[str, int]:
    try:
        return addresses.split_host(text, default_port=80)
    except NotAHost:
        raise Stop(Final.BAD_PLAN, "What the operator allows can't be read.") from None
