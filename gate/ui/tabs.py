"""What the gate adds to the page of a workspace on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from notebooks import where
from notebooks.ui import tabs
from notebooks.ui.tabs import Tab
from runtime.models import ONE_MACHINE
from work.selectors import access_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accounts.principal import Principal
    from notebooks.models import Workspace


def register() -> None:
    tabs.register(of)


def of(who: Principal, row: Workspace) -> Sequence[Tab]:
    # itself without a query; other machines by their row
    if row.cluster_key == ONE_MACHINE or where.cluster_of(row) is None:
        return []
    found = []
    if access_of(who.user, row):
        found = [
            Tab("terminal", "gate:terminal", _("Terminal")),
            Tab("files", "gate:files", _("Files")),
        ]
    return [*found, Tab("objects", "gate:objects", _("Cluster"))]
