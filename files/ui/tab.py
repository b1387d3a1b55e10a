"""The tab that files bring to the page of a volume."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from projects.access import Permission, permissions_of
from volumes.choices import VolumeKind
from volumes.ui import present
from volumes.ui.present import Tab

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accounts.principal import Principal
    from volumes.models import Volume


def register() -> None:
    present.register_tab(of)


def of(who: Principal, row: Volume) -> Sequence[Tab]:
    """A home's files are its owner's alone; what is being deleted is not looked into."""
    if row.kind == VolumeKind.HOME:
        may_look = row.owner_id == who.user.pk
    else:
        may_look = Permission.VOLUME_USE in permissions_of(who, row.project)
    if not may_look or row.is_being_deleted:
        return []
    return [Tab("files", "files:browse", _("Files"))]
