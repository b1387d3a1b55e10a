"""Where SSH goes: to the gate, which knows a workspace by the name of the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.conf import settings

if TYPE_CHECKING:
    from notebooks.models import Workspace


@dataclass(frozen=True)
class Ssh:
    host: str
    port: int
    user: str

    @property
    def command(self) -> str:
        return f"ssh -p {self.port} {self.user}@{self.host}"


def ssh_of(row: Workspace) -> Ssh | None:
    """Return the way into it; None where SSH is off."""
    return Ssh(*ssh_server(), row.short_id) if settings.BERTH_SSH_PORT else None


def ssh_server() -> tuple[str, int]:
    """Return host and port of the SSH server as people reach it."""
    host = settings.BERTH_SSH_HOST or urlsplit(settings.BERTH_PUBLIC_URL).hostname or "localhost"
    return host, settings.BERTH_SSH_PORT
