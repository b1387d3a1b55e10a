"""The SSH server: who is let in, and what may be asked for.

The user name is the workspace's id, the key says who comes. Shell, commands, ``sftp`` (by the
container's own ``sftp-server``) and connections to ``localhost`` ports of the pod; no agent, no
X11, no listening, no other hosts.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncssh
import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.utils.translation import gettext as _

from accounts.models import SshKey
from accounts.services.sessions import record_denied
from common.errors import BerthError
from common.streams import look
from gate import guard
from gate.access import Demand, target_of
from gate.callers import Caller, SignedOut, from_ssh_key
from gate.ssh.session import Forwarded, Session

if TYPE_CHECKING:
    from gate.service import Gate

FAILURES = 20  # connections whose keys opened nothing …
WINDOW_S = 300.0  # … in so long: then the address waits
WAITING = 10  # connections of one address that are signing in
WAITING_ALL = 300
_MOST = 10_000
MAX_USERNAME = 32
log = structlog.get_logger(__name__)
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


class Throttle:
    def __init__(self) -> None:
        self._failed: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._waiting: Counter[str] = Counter()

    def enter(self, ip: str) -> bool:
        """Count a connection in; False: refuse it."""
        began, failures = self._failed.get(ip, (0.0, 0))
        if failures >= FAILURES and time.monotonic() - began < WINDOW_S:
            return False
        if self._waiting[ip] >= WAITING or self._waiting.total() >= WAITING_ALL:
            return False
        self._waiting[ip] += 1
        return True

    def leave(self, ip: str, *, signed_in: bool, failed: bool) -> None:
        """It signed in, or ended without; ``failed``: it showed keys that open nothing."""
        self._waiting[ip] -= 1
        if self._waiting[ip] <= 0:
            del self._waiting[ip]
        if signed_in:
            self._failed.pop(ip, None)
        if not failed:
            return
        began, failures = self._failed.get(ip, (0.0, 0))
        if time.monotonic() - began > WINDOW_S:
            began, failures = time.monotonic(), 0
        self._failed[ip] = (began, failures + 1)
        self._failed.move_to_end(ip)
        while len(self._failed) > _MOST:
            self._failed.popitem(last=False)


def caller_for(workspace: str, fingerprint: str, ip: str) -> Caller:
    """Return the person with this key who may open the workspace; SignedOut otherwise.

    An unknown key, a stranger's key and an unknown workspace get the same answer.
    """
    if len(workspace) <= MAX_USERNAME and workspace.isascii() and workspace.isalnum():
        keys = SshKey.objects.filter(fingerprint=fingerprint, user__is_active=True)
        for key in keys.select_related("user").order_by("pk")[:8]:
            caller = from_ssh_key(key, ip)
            with contextlib.suppress(BerthError):
                target_of(caller, workspace, Demand.OPEN)
                return caller
    raise SignedOut(_("This key opens no such workspace."))


def refusals(pairs: Iterable[tuple[Caller, str]]) -> dict[tuple[Caller, str], str]:
    """Return why some of these connections may not stay, for those that may not.

    What goes wrong for one of them in a way that nobody foresaw keeps no other one open.
    """
    found = {}
    for caller, workspace in pairs:
        try:
            target_of(caller, workspace, Demand.OPEN)
        except BerthError as error:
            found[(caller, workspace)] = error.message
        except (OperationalError, InterfaceError):
            raise  # the database is away, for all of them
        except Exception:
            log.exception("gate.unasked", workspace=workspace)
    return found


def record_refused(workspace: str, ip: str) -> None:
    record_denied(verb="ssh.denied", ip=ip, name=workspace)


def host_key(path: Path) -> asyncssh.SSHKey:
    """Return the gate's key; made once, so that people are not warned after a restart."""
    with contextlib.suppress(FileNotFoundError):
        return asyncssh.read_private_key(str(path))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = asyncssh.generate_private_key("ssh-ed25519", comment="berth")
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(made.export_private_key())
    with contextlib.suppress(FileExistsError):  # two gates at once: the first one's is kept
        os.link(fresh, path)
    fresh.unlink()
    return asyncssh.read_private_key(str(path))


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
            guard.SSH_REFUSED.labels("throttled").inc()
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
            guard.SSH_REFUSED.labels("key").inc()
            refused = look(lambda: record_refused(self.workspace, self.ip))
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
            self._offered = await look(lambda: caller_for(username, fingerprint, self.ip))
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
            guard.SSH_REFUSED.labels("too-many").inc()
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
            server_host_keys=[host_key(Path(settings.BERTH_SSH_HOST_KEY_FILE))],
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
        lost = await look(lambda: refusals(pairs))
        for one in empty:
            if one.caller is None or not one.empty_s:
                continue
            if sentence := lost.get((one.caller, one.workspace)):
                one.disconnect(sentence)
            elif one.empty_s > settings.BERTH_GATE_IDLE_S:
                guard.STREAMS_CUT.labels("idle").inc()
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
