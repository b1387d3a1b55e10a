"""What else may be done to one that runs: move its end, take the newest image of its tag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.utils.translation import gettext as _

from common.errors import Conflict
from events import services as events
from notebooks.kind import set_end
from runtime.protocol import Desired
from work.fields import Count
from work.services import workload_edit
from work.services.base import changed, lock, own

if TYPE_CHECKING:
    from accounts.principal import Principal
    from notebooks.models import Workspace

DEFAULT_EXTENSION = 60
_EXTENSION = Count(name="minutes", label="", low=1, high=60 * 24 * 7)


def image_renew(*, principal: Principal, workspace: Workspace) -> Workspace:
    """Pin what the image's tag means now. What is wanted to run starts with it, failed or not."""
    row: Workspace = workload_edit(
        principal=principal,
        row=workspace,
        said={},
        newest_image=True,
        start=workspace.desired == Desired.RUNNING,
    )
    return row


@transaction.atomic
def workspace_extend(
    *, principal: Principal, workspace: Workspace, minutes: int = DEFAULT_EXTENSION
) -> Workspace:
    """Move the end of a running workspace, as far as its preset allows."""
    own(principal, workspace)
    row: Workspace = lock(workspace)
    _EXTENSION.whole(minutes)
    if row.time_limit_minutes is None:
        raise Conflict(_("It has no time limit: there is nothing to extend."), code="no-limit")
    if not row.is_on_its_way:
        raise Conflict(_("It does not run: resume it first."), code="not-running")
    left = extension_left(row)
    if left is not None and minutes > left:
        raise Conflict(
            _("It can be extended by at most %(left)d minutes more.") % {"left": left},
            code="extension-limit",
            extra={"left_minutes": left},
        )
    row.extended_minutes += minutes
    row.generation += 1
    set_end(row)
    row.save(update_fields=["extended_minutes", "generation", "ends_at", "warned_at", "updated_at"])
    events.record(
        actor=principal,
        verb="workspace.extended",
        target=row,
        project_uid=row.project.uid,
        data={"minutes": minutes},
    )
    changed(row)
    return row


def extension_left(row: Workspace) -> int | None:
    """Return the minutes by which the end may still move; None: as far as one likes."""
    longest = row.preset.max_time_limit_minutes if row.preset else None
    if longest is None or row.time_limit_minutes is None:
        return None
    return max(0, longest - row.time_limit_minutes - row.extended_minutes)
