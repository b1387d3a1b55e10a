"""What people are told about their workspaces, outside the page they look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import translation

from notebooks.states import info_of
from notifications.services import notify

if TYPE_CHECKING:
    from notebooks.models import Workspace


def tell_failed(row: Workspace) -> None:
    with translation.override(row.owner.reads_in):
        reason = str(info_of(row).text)
    notify(
        users=[row.owner],
        kind="workspace.failed",
        params={"name": row.name, "reason": reason},
        url=row.get_absolute_url(),
        key=str(row.uid),
    )
