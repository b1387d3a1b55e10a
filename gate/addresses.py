"""Where the gate answers for a workspace."""

from __future__ import annotations

from django.conf import settings

from notebooks.models import Workspace


def gate_url(row: Workspace, part: str, *, socket: bool = False) -> str:
    base = settings.BERTH_GATE_URL
    if socket:
        base = "ws" + base.removeprefix("http")
    return f"{base}/gate/{part}/{row.short_id}"
