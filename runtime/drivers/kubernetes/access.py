"""Who we are at one API server, and to which addresses anything of ours may connect.

Addresses and secrets are held in memory only. Private ranges are where clusters live, so only what
is never a cluster of somebody else is refused (hostile case C2): loopback, link-local (metadata),
nothing-addresses. Another address of this machine may be one: portal and cluster share a machine
where there is but one. The check is made on the address that is connected to, so a name that
changes its answer gains nothing.
"""

import ipaddress
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings

from dataplane.addresses import IPAddress, unwrapped
from runtime.protocol import Unreachable

_TOKEN_S = 60.0


@dataclass(frozen=True)
class KubeAccess:
    """Made by ``kubeconfig.parse`` or ``incluster.access``; nothing secret shows in its repr.

    ``token_file`` is only ever set for the portal's own mounted token, which rotates.
    """

    server: str
    ca_pem: str
    token: str = field(default="", repr=False)
    client_cert_pem: str = field(default="", repr=False)
    client_key_pem: str = field(default="", repr=False)
    tls_server_name: str = ""
    token_file: str = ""

    def tls(self) -> ssl.SSLContext:
        """Trust exactly the given authority; the client key never lies on a disk."""
        context = ssl.create_default_context(cadata=self.ca_pem)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.client_cert_pem:
            # ``load_cert_chain`` wants a path: give it one that is only memory of ours
            handle = os.memfd_create("pair", os.MFD_CLOEXEC)
            try:
                os.write(handle, (self.client_cert_pem + "\n" + self.client_key_pem).encode())
                context.load_cert_chain(f"/proc/self/fd/{handle}")
            finally:
                os.close(handle)
        return context


class Bearer:
    """The token to send now. A mounted one is read again each minute and after a refusal."""

    def __init__(self, access: KubeAccess) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._token, self._read_at = access.token, 0.0

    def headers(self) -> dict[str, str]:
        token = self.token()
        return {"Authorization": f"Bearer {token}"} if token else {}

    def refused(self) -> bool:
        """The server did not take it. True when another may be read."""
        with self._lock:
            self._read_at = 0.0
        return bool(self._access.token_file)

    def token(self) -> str:
        if not self._access.token_file:
            return self._access.token
        with self._lock:
            if not self._token or time.monotonic() - self._read_at > _TOKEN_S:
                try:
                    self._token = Path(self._access.token_file).read_text("ascii").strip()
                except OSError as error:
                    message = "The portal's own token for the cluster cannot be read."
                    raise Unreachable(message) from error
                self._read_at = time.monotonic()
            return self._token


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
            raise Unreachable(f"The cluster's address leads to {address}, which is not allowed.")

    return check


def check_from_settings() -> Check:
    """``BERTH_ALLOW_PRIVATE_CLUSTERS`` lets loopback addresses be clusters too."""
    return check_for(loopback=bool(getattr(settings, "BERTH_ALLOW_PRIVATE_CLUSTERS", False)))


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


MOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def own_access(mount: Path | None = None) -> KubeAccess | None:
    """Return the access of the mounted service account; None where none is mounted (``web``)."""
    mount = mount or MOUNT
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT_HTTPS", "443")
    token = mount / "token"
    if not host or not token.is_file():
        return None
    try:
        authority = (mount / "ca.crt").read_text("ascii")
    except OSError as error:
        message = "The cluster's certificate authority beside the pod's token cannot be read."
        raise Unreachable(message) from error
    name = f"[{host}]" if ":" in host else host
    return KubeAccess(server=f"https://{name}:{port}", ca_pem=authority, token_file=str(token))
