"""Listens to status changes: an endpoint or its canary that failed is told to its owner.

Runs inside the engine's apply transaction: told once, or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from notifications.services import notify_owner
from runtime import reasons
from runtime.protocol import Desired, Phase
from serving.models import Endpoint

if TYPE_CHECKING:
    from runtime.reconcilers import Transition


def on_transition(change: Transition) -> None:
    row = change.row
    if not isinstance(row, Endpoint) or change.gone or row.desired != Desired.RUNNING:
        return
    if change.after != Phase.FAILED or change.seen.launch != row.launch:
        return
    launch, ref = row.launch, change.outcome.external_ref or {}
    if ref.get("ended") == launch != (change.seen.external_ref or {}).get("ended"):
        what = "endpoint.canary-failed" if row.canary_of_id else "endpoint.failed"
        reason = reasons.info(change.outcome.reason).text
        notify_owner(row.canary_of or row, what, reason=reason)
