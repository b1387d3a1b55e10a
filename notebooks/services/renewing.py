"""Taking the newest image of a tag by one press."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from notebooks.services.base import lock
from notebooks.services.image_digest import digest_edited
from notebooks.services.launch import workspace_resume
from notebooks.services.lifecycle import workspace_edit
from notebooks.spec import Wanted
from runtime.protocol import Desired

if TYPE_CHECKING:
    from accounts.principal import Principal
    from notebooks.models import Workspace


def image_renew(*, principal: Principal, workspace: Workspace) -> Workspace:
    """Pin what the image's tag means now. What is wanted to run starts with it, failed or not."""
    wanted = Wanted(image=workspace.image, newest_image=True)
    digest = digest_edited(principal, workspace, wanted)
    with transaction.atomic():
        ended = not lock(workspace).is_on_its_way
        row = workspace_edit(principal=principal, workspace=workspace, wanted=wanted, digest=digest)
        if ended and row.desired == Desired.RUNNING:
            row = workspace_resume(principal=principal, workspace=row, had_ended=True)
    return row
