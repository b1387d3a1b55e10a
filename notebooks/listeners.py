"""Listens to status changes: the end of the countdown, what a launch wrote, news for its owner.

Runs inside the engine's apply transaction: what it writes is exact, once, or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.clock import now
from notebooks.models import Workspace
from notebooks.states import info_of
from notifications.services import notify_owner
from runtime.protocol import Phase
from volumes.services.base import volume_note_written
from work.models import Workload

if TYPE_CHECKING:
    from runtime.reconcilers import Transition

_ENDED = {Phase.STOPPED, Phase.FAILED}


def on_transition(change: Transition) -> None:
    row = change.row
    if not isinstance(row, Workspace) or change.after not in _ENDED or change.before in _ENDED:
        return
    Workload.objects.filter(pk=row.pk).update(stopped_at=now(), ends_at=None)
    mounts = row.mounts.filter(read_only=False)
    volume_note_written(uids=[row.home.uid, *mounts.values_list("volume__uid", flat=True)])
    if change.after == Phase.FAILED:
        notify_owner(row, "workspace.failed", reason=info_of(row).text)
