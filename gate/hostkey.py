"""Which key the gate's SSH server shows: said by the portal, so that nobody believes it blindly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from clusters.models import Cluster
from common.errors import BerthError, Unavailable
from notebooks.ssh import ssh_server
from runtime import gateway

QUESTION = "ssh/host_key"
_PATIENCE_S = 2.0


@dataclass(frozen=True)
class HostKey:
    line: str  # as in known_hosts, after the host's name
    fingerprint: str  # as ssh shows it


def register() -> None:
    gateway.register(QUESTION, answer)


def answer(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The public half. It is only read: whoever serves makes it."""
    del payload
    import asyncssh

    try:
        key = asyncssh.read_private_key(settings.BERTH_SSH_HOST_KEY_FILE)
    except (OSError, asyncssh.KeyImportError) as error:
        raise Unavailable(_("The key of the SSH server can't be read.")) from error
    kind, data = key.export_public_key().decode().split()[:2]
    return {"key": f"{kind} {data}", "fingerprint": key.get_fingerprint()}


def host_key() -> HostKey | None:
    """Return it; None where there is no SSH, or where the gate does not say it now."""
    if not settings.BERTH_SSH_PORT:
        return None
    try:
        said = gateway.ask(QUESTION, {}, timeout_s=_PATIENCE_S)
    except BerthError:
        return None
    return HostKey(str(said["key"]), str(said["fingerprint"]))


def shown() -> Mapping[str, str] | None:
    """Return where SSH keys open work, for the page of them; None where no cluster is attached.

    ``fingerprint`` is what people compare when ssh asks them; '' while the gate does not say it.
    """
    if not settings.BERTH_SSH_PORT or not Cluster.objects.running_images().exists():
        return None
    known = host_key()
    host, port = ssh_server()
    return {"host": host, "port": str(port), "fingerprint": known.fingerprint if known else ""}
