"""Whose key this is, and the gate's own key."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import asyncssh
import structlog
from django.db import InterfaceError, OperationalError
from django.utils.translation import gettext as _

from accounts.models import SshKey
from accounts.services.sessions import record_denied
from common.errors import BerthError
from gate.access import Demand, target_of
from gate.callers import Caller, SignedOut, from_ssh_key

MAX_USERNAME = 32
log = structlog.get_logger(__name__)


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
