"""The SSH server: who is let in, and what may be asked for.

The user name is the workspace's id, the key says who comes. Shell, commands, ``sftp`` (by the
container's own ``sftp-server``) and connections to ``localhost`` ports of the pod; no agent, no
X11, no listening, no other hosts.
"""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncssh
import structlog
from django.conf import settings
from django.utils.translation import gettext as _

from common.errors import BerthError
from common.streams import look
from gate import metrics
from gate.callers import Caller
from gate.ssh import keys
from gate.ssh.forward import Forwarded
from gate.ssh.session import Session
from gate.ssh.throttle import Throttle

if TYPE_CHECKING:
    from gate.service import Gate

LOGIN_S = 30
KEEPALIVE_S = 30
KEEPALIVE_COUNT = 4
SWEEP_S = 20.0
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
        self._channels = 0
        self._empty_since = time.monotonic()  # meaningful while there is no channel
        self.forwarded: set[int] = set()  # ports that the audit was told of

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._conn = conn
        self.ip = str(conn.get_extra_info("peername", ("",))[0])[:64]
        self._counted = self.server.throttle.enter(self.ip)
        if not self._counted or self.gate.guard.draining:
            metrics.SSH_REFUSED.labels("throttled").inc()
            conn.abort()
            return
        self.server.entrances.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._leave(signed_in=False)
        self.server.entrances.discard(self)

    def disconnect(self, sentence: str, code: int = asyncssh.DISC_BY_APPLICATION) -> None:
        if self._conn is not None:
            self._conn.disconnect(code, sentence)

    # --- how long it may stay without anything in it -------------------------------------------

    def channel_opened(self) -> None:
        self._channels += 1

    def channel_closed(self) -> None:
        self._channels -= 1
        self._empty_since = time.monotonic()

    @property
    def empty_s(self) -> float:
        """Seconds since its last channel ended; 0 while it has one (a reader that waits)."""
        return 0.0 if self._channels else time.monotonic() - self._empty_since

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
        self._leave(signed_in=True)
        caller = self._offered
        most = settings.BERTH_SSH_CONNECTIONS_PER_USER
        if caller is not None and self.server.connections_of(caller.user_pk) >= most:
            metrics.SSH_REFUSED.labels("too-many").inc()
            sentence = _("You have too many SSH connections open; close some.")
            self.disconnect(sentence, asyncssh.DISC_TOO_MANY_CONNECTIONS)
            return
        self.caller = caller

    # --- what may be asked for ------------------------------------------------------------------

    def session_requested(self) -> Any:
        return Session(self, self.caller) if self.caller else False

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> Any:
        del orig_host, orig_port
        if self.caller is None or dest_host not in LOCAL or not 0 < dest_port <= MAX_PORT:
            raise asyncssh.ChannelOpenError(
                asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED,
                "Only localhost, which is the workspace itself, can be reached.",
            )
        return Forwarded(self, self.caller, dest_port).open()


class SshServer:
    """One per process."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.throttle = Throttle()
        self.entrances: set[Entrance] = set()
        self._sweeping: asyncio.Task[None] | None = None
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
        self._sweeping = asyncio.create_task(self._sweep())
        return self

    def connections_of(self, user_pk: int) -> int:
        """How many connections of a person are signed in here."""
        return sum(1 for one in self.entrances if one.caller and one.caller.user_pk == user_pk)

    async def _sweep(self) -> None:
        """Streams are the guard's; this looks after connections that have none.

        They end when whoever made them may not come in any more, or after a long while.
        """
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                await self._end_empty()
            except Exception as error:  # noqa: BLE001 - the database is away: ask again soon
                log.warning("gate.ssh_sweep_failed", error=repr(error))

    async def _end_empty(self) -> None:
        empty = [one for one in self.entrances if one.caller is not None and one.empty_s > 0]
        pairs = {(one.caller, one.workspace) for one in empty if one.caller is not None}
        lost = await look(lambda: keys.refusals(pairs))
        for one in empty:
            if one.caller is None or not one.empty_s:
                continue
            if sentence := lost.get((one.caller, one.workspace)):
                one.disconnect(sentence)
            elif one.empty_s > settings.BERTH_GATE_IDLE_S:
                metrics.CUT.labels("idle").inc()
                one.disconnect(_("Nothing happened for a long time."))

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
        if self._sweeping is not None:
            self._sweeping.cancel()
        for one in list(self.entrances):
            one.disconnect(_("The gate is being restarted; connect again."))
        await asyncio.gather(*self._tasks, return_exceptions=True)
