"""Whether a host takes a private key. The socket is checked like every other way out."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import httpcore
from django.utils.translation import gettext as _

from common.outbound import OutboundError, Policy, Trouble, policy_from_settings, split_host
from common.outbound.network import Deadline, GuardedBackend, system_resolve
from credentials.kinds.ssh import PORT, known_host
from credentials.messages import Sentence
from credentials.probe import verdict
from credentials.probe.verdict import SECONDS, Verdict


def tried(public: Mapping[str, Any], secret: Mapping[str, str]) -> Verdict:
    if not public.get("host"):
        return verdict.unknown(_("The key is well formed. No host was named that could be asked."))
    host, port = split_host(str(public["host"]), default_port=PORT)
    deadline = Deadline(time.monotonic() + SECONDS)  # of both: who asks waits no longer
    opened = _connected(host, port, deadline)
    try:
        return asyncio.run(_signed_in(opened, host, port, public, secret, deadline.left()))
    finally:
        opened.close()


def _policy() -> Policy:
    policy = policy_from_settings()
    return replace(policy, ports=policy.ports | {PORT})


def _connected(host: str, port: int, deadline: Deadline) -> socket.socket:
    """Open a socket to an address that may be reached, or raise OutboundError."""
    policy = _policy()
    if not policy.permits_port(host, port):
        text = _("Port %(port)d is not one that Berth connects to.")
        raise OutboundError(Trouble.REFUSED, text, {"port": port})
    backend = GuardedBackend(policy, deadline, system_resolve)
    try:
        found = backend.connect_tcp(host, port).get_extra_info("socket")
    except httpcore.TimeoutException:
        raise OutboundError(Trouble.TIMEOUT, _("It did not answer in time.")) from None
    except (httpcore.NetworkError, OSError):
        raise OutboundError(Trouble.UNREACHABLE, _("It can't be reached.")) from None
    assert isinstance(found, socket.socket)  # noqa: S101 - what this backend opens
    return found


async def _signed_in(
    opened: socket.socket,
    host: str,
    port: int,
    public: Mapping[str, Any],
    secret: Mapping[str, str],
    seconds: float,
) -> Verdict:
    import asyncssh  # a sixth of any process's start, and the gate alone asks this

    keys = public.get("known_hosts") or ()
    lines = "".join(f"{known_host(str(public['host']))} {key}\n" for key in keys)
    try:
        connection = await asyncio.wait_for(
            asyncssh.connect(
                host,
                port,
                sock=opened,
                username=str(public.get("user") or "git"),
                client_keys=[asyncssh.import_private_key(secret["private_key"])],
                known_hosts=asyncssh.import_known_hosts(lines) if lines else None,
                # nothing of the machine that asks: no settings, agent, tickets or other keys
                config=None,
                agent_path=None,
                gss_host=None,
                preferred_auth=["publickey"],
            ),
            seconds,
        )
    except asyncssh.PermissionDenied:
        return verdict.refused(_("The host does not accept this key for this user."))
    except asyncssh.HostKeyNotVerifiable:
        return verdict.refused(_("The host shows another key than the ones that were stored."))
    except TimeoutError:
        return verdict.unknown(_("The host did not answer in time."))
    except (asyncssh.Error, OSError):
        return verdict.unknown(_("What answers there does not speak SSH."))
    shown = connection.get_server_host_key()
    connection.abort()
    if lines or shown is None:
        return verdict.accepted(_("The host accepts this key."))
    text = _("The host accepts this key. It showed %(print)s: compare it, and store its key too.")
    return verdict.accepted(Sentence(text, {"print": shown.get_fingerprint()}))
