"""Loads that belong to other work: it starts them and lets them go. Who may is asked there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from loaders.choices import Task
from loaders.services.ending import stopping
from loaders.services.runs import begin, require_runnable
from runtime.protocol import Desired
from work.services.base import changed, lock

if TYPE_CHECKING:
    from accounts.principal import Principal
    from credentials.models import Credential
    from loaders.models import Load


@transaction.atomic
def made_start(
    *,
    principal: Principal,
    row: Load,
    task: Task = Task.LOAD,
    credential: Credential | None = None,
    newest_at: int = 0,
) -> Load:
    """Run it, also by another credential than before; one that is on its way goes on."""
    row = lock(row)
    if row.is_on_its_way and not row.goes_on:
        return row
    if credential is not None:
        row.credential, row.anonymous = credential, False
    row.newest_at = newest_at
    if task == Task.CLEAR and not row.is_export:
        row.loaded_at = None  # whatever needs it waits from now on
    require_runnable(principal, row, task)
    begin(principal, row, task=task)
    changed(row)
    return row


@transaction.atomic
def made_drop(row: Load) -> None:
    """Let it go; what it copied stays."""
    row = lock(row)
    stopping(row, "")
    row.desired = Desired.ABSENT
    row.generation += 1
    row.save()
    changed(row)
