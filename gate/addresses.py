"""Where the gate answers for a workspace."""

from __future__ import annotations

from django.conf import settings

from notebooks.models import Workspace


def gate_url(row: Workspace, part: str, *, socket: bool = False, for_page: bool = False) -> str:
    """``for_page``: as browsers are led there; programs have tokens of their own."""
    base = settings.BERTH_GATE_PAGES_URL if for_page else settings.BERTH_GATE_URL
    if socket:
        base = "ws" + base.removeprefix("http")
    return f"{base}/gate/{part}/{row.short_id}"
