"""Who we are at one API server: addresses and secrets, held in memory only."""

from __future__ import annotations

import os
import ssl
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

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
            _load_pair(context, self.client_cert_pem + "\n" + self.client_key_pem)
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


def _load_pair(context: ssl.SSLContext, pem: str) -> None:
    """``load_cert_chain`` wants a path: give it one that is only memory of ours."""
    handle = os.memfd_create("pair", os.MFD_CLOEXEC)
    try:
        os.write(handle, pem.encode())
        context.load_cert_chain(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)
