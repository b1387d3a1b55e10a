"""The SSH server: who is let in, and what may be asked for.

The user name is the workspace's id, the key says who comes. Shell, commands, ``sftp`` (by the
container's own ``sftp-server``) and connections to ``localhost`` ports of the pod; no agent, no
X11, no listening, no other hosts.
"""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncssh
import structlog
from django.conf import settings

from common.errors import BerthError
from gate import metrics
from gate.callers import Caller
from gate.db import look
from gate.ssh import keys
from gate.ssh.forward import Forwarded
from gate.ssh.session import Session
from gate.ssh.throttle import Throttle

if TYPE_CHECKING:
    from gate.service import Gate

LOGIN_S = 30
KEEPALIVE_S = 30
KEEPALIVE_COUNT = 4
# What OpenSSH of the last ten years speaks; nothing with SHA-1.
KEX = (
    "mlkem768x25519-sha256",
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
    "diffie-hellman-group16-sha512",
)
CIPHERS = (
    "chacha20-poly1305@openssh.com",
    "aes256-gcm@openssh.com",
    "aes128-gcm@openssh.com",
    "aes256-ctr",
    "aes128-ctr",
)
MACS = ("umac-128-etm@openssh.com", "hmac-sha2-256-etm@openssh.com", "hmac-sha2-256")
SIGNATURES = (
    "ssh-ed25519",
    "sk-ssh-ed25519@openssh.com",
    "ecdsa-sha2-nistp256",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
MAX_PORT = 65535
log = structlog.get_logger(__name__)


class Entrance(asyncssh.SSHServer):
    """One connection."""

    def __init__(self, server: SshServer) -> None:
        self.server = server
        self.gate = server.gate
        self.workspace = ""
        self.ip = ""
        self._offered: Caller | None = None
        self.caller: Caller | None = None
        self._counted = False
        self._tried = False  # a key was shown; a probe of the port shows none
        self._conn: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._conn = conn
        self.ip = str(conn.get_extra_info("peername", ("",))[0])[:64]
        self._counted = self.server.throttle.enter(self.ip)
        if not self._counted or self.gate.guard.draining:
            metrics.SSH_REFUSED.labels("throttled").inc()
            conn.abort()
            return
        self.server.connections.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._leave(signed_in=False)
        if self._conn is not None:
            self.server.connections.discard(self._conn)

    def _leave(self, *, signed_in: bool) -> None:
        if not self._counted:
            return
        self._counted = False
        failed = self._tried and not signed_in
        self.server.throttle.leave(self.ip, signed_in=signed_in, failed=failed)
        if failed:
            metrics.SSH_REFUSED.labels("key").inc()
            refused = look(lambda: keys.record_refused(self.workspace, self.ip))
            self.server.later(refused)

    # --- signing in --------------------------------------------------------------------------

    def begin_auth(self, username: str) -> bool:
        self.workspace = username
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    async def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        fingerprint = key.get_fingerprint()
        try:
            self._offered = await look(lambda: keys.caller_for(username, fingerprint, self.ip))
        except BerthError:
            self._offered = None
        except Exception:
            log.exception("gate.ssh_sign_in_failed")
            self._offered = None
        self.workspace, self._tried = username, True
        return self._offered is not None

    def auth_completed(self) -> None:
        # The key that was looked at last is the one whose signature was just verified.
        self.caller = self._offered
        self._leave(signed_in=True)

    # --- what may be asked for ------------------------------------------------------------------

    def session_requested(self) -> Any:
        return Session(self.gate, self.caller, self.workspace) if self.caller else False

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> Any:
        del orig_host, orig_port
        if self.caller is None or dest_host not in LOCAL or not 0 < dest_port <= MAX_PORT:
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED,
                "Only localhost, which is the workspace itself, can be reached.",
            )
        return Forwarded(self.gate, self.caller, self.workspace, dest_port).open()


class SshServer:
    """One per process."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.throttle = Throttle()
        self.connections: set[asyncssh.SSHServerConnection] = set()
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self, listener: socket.socket) -> SshServer:
        self._acceptor = await asyncssh.listen(
            sock=listener,
            server_factory=lambda: Entrance(self),
            server_host_keys=[keys.host_key(Path(settings.BERTH_SSH_HOST_KEY_FILE))],
            server_version="Berth",
            encoding=None,
            line_editor=False,
            login_timeout=LOGIN_S,
            keepalive_interval=KEEPALIVE_S,
            keepalive_count_max=KEEPALIVE_COUNT,
            password_auth=False,
            kbdint_auth=False,
            host_based_auth=False,
            gss_host=None,
            agent_forwarding=False,
            x11_forwarding=False,
            compression_algs=None,
            kex_algs=KEX,
            encryption_algs=CIPHERS,
            mac_algs=MACS,
            signature_algs=SIGNATURES,
            config=None,
        )
        return self

    @property
    def port(self) -> int:
        return self._acceptor.get_port() if self._acceptor else 0

    def later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
        for conn in list(self.connections):
            conn.disconnect(asyncssh.DISC_BY_APPLICATION, "The gate is being restarted.")
        await asyncio.gather(*self._tasks, return_exceptions=True)
