"""What to say of a pod that was told to go and is still there (C14)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from runtime.capabilities import Held
from runtime.drivers.kubernetes import observe, waiting
from runtime.protocol import NotYet

ENDING = "Its pod is still ending."
# A node needs a moment to tell that a program which it killed is over, and clocks differ a little.
SLACK_S = 3.0
AGAIN_S = 2.0  # what is held for long need not be asked often; the watch tells when it is gone


def not_gone(pod: Mapping[str, Any] | None, *, retry_in: float = 0.3) -> NotYet:
    """Return what to raise while ``pod`` is there; after its time was over with the reason."""
    due = None if pod is None else observe.moment(pod["metadata"].get("deletionTimestamp"))
    if pod is None or due is None or time.time() < due + SLACK_S:
        return NotYet(ENDING, retry_in=retry_in)
    return Held(_keeper(pod), retry_in=AGAIN_S)


def _keeper(pod: Mapping[str, Any]) -> str:
    """A node that is away and a mark that somebody put on the pod are mended differently."""
    if held := waiting.kept_by(pod):
        return held
    node = (pod.get("spec") or {}).get("nodeName") or ""
    return f"The node {node} has not said that its pod is over." if node else ENDING
