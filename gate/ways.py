"""How people and programs reach a workspace on a cluster besides the page."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

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
    """Return where SSH goes; None where it is off."""
    return Ssh(*ssh_server(), row.short_id) if settings.BERTH_SSH_PORT else None


def ssh_server() -> tuple[str, int]:
    """Return host and port of the SSH server as people reach it."""
    host = settings.BERTH_SSH_HOST or urlsplit(settings.BERTH_PUBLIC_URL).hostname or "localhost"
    return host, settings.BERTH_SSH_PORT


def gate_url(row: Workspace, part: str, *, socket: bool = False) -> str:
    base = settings.BERTH_GATE_URL
    if socket:
        base = "ws" + base.removeprefix("http")
    return f"{base}/gate/{part}/{row.short_id}"
