"""Why Kueue holds something back, from the conditions of its Workload. Pure.

Its words are those of 0.19 and, where a Kueue has fewer of them, those of the versions before.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.waiting import short
from runtime.reasons import Reason

Object = Mapping[str, Any]

# What a person may read of them is made anew from ``Queued.line``.
_REASONS: dict[str, Reason] = {
    "WaitingForQuota": Reason.QUEUED,
    "WaitingForPreemptedWorkloads": Reason.RECLAIMING,
    "WaitingForPodsReady": Reason.QUEUED,
    "Waiting": Reason.QUEUED,
    "PendingEvaluation": Reason.QUEUED,
    "Pending": Reason.QUEUED,
    "TopologyPlacementFailed": Reason.QUEUED,
    "ExceedsMaxQuota": Reason.DOES_NOT_FIT,
    "NoMatchingFlavor": Reason.DOES_NOT_FIT,
    "Misconfigured": Reason.DENIED,
    "Inadmissible": Reason.DENIED,
    "Suspended": Reason.NO_QUEUE,
    "OnHold": Reason.QUEUED,
    "AdmissionGated": Reason.ON_HOLD,
    "Deactivated": Reason.ON_HOLD,
}
_A_QUEUE = re.compile(r"\A(LocalQueue|ClusterQueue) ")
_LACKS = re.compile(r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed")
_MOST = re.compile(
    r"insufficient quota for (\S+) in flavor (\S+), previously considered podsets requests"
    r" \([^)]*\) \+ current podset request \(([^)]*)\) > maximum capacity \(([^)]*)\)"
)
_ASKED = re.compile(r"[Pp]ending the preemption of (\d+) workload")
_GAVE_UP = "DeactivatedDueTo"  # and by what
_FLAVORS = 4  # of so many it is told what they lack


@dataclass(frozen=True)
class Queued:
    """What is told of it. ``line``: Kueue's word and numbers, for a sentence in any language.

    ``word``; ``lacks`` and ``most``: lists of flavor, resource, amount (and what it can be at
    most); ``asked``: so many were told to end for it; ``again_at``: it is put in line again then.
    """

    reason: Reason = Reason.QUEUED
    text: str = ""
    line: Mapping[str, Any] = field(default_factory=dict)


def in_queue(workload: Object, queues: str = "") -> Queued:
    """Return why Kueue holds something back: for now, for good, or because there is no queue.

    ``queues``: what begins the names of Berth's own flavors.
    """
    status = workload.get("status") or {}
    said = {str(one.get("type")): one for one in status.get("conditions") or []}
    quota = said.get("QuotaReserved", {})
    if quota.get("status") == "True":
        return _checked(said.get("Admitted", {}))
    if names.WAITS in ((workload.get("metadata") or {}).get("annotations") or {}):
        return Queued(Reason.BUDGET, "", {"word": "Deactivated"})
    word, text = str(quota.get("reason", "")), str(quota.get("message", ""))
    if not word:
        return Queued()
    evicted = said.get("Evicted", {})
    if evicted.get("status") == "True" and str(evicted.get("reason")).startswith(_GAVE_UP):
        word, text = str(evicted["reason"]), str(evicted.get("message", ""))
    put_back = said.get("Requeued", {})
    again_at = (status.get("requeueState") or {}).get("requeueAt")
    if put_back.get("status") == "False" and put_back.get("reason") == "PodsReadyTimeout":
        word, text = "PodsReadyTimeout", str(put_back.get("message", ""))
    own = f"{queues}-" if queues else ""
    lacks, most = (
        [(flavor.removeprefix(own), what, *counts) for what, flavor, *counts in found.findall(text)]
        for found in (_LACKS, _MOST)
    )
    asked = _ASKED.search(text)
    # devices say more than what is beside them, and nothing is had of a kind that is not there
    lacks, most = (sorted(one, key=_says_less) for one in (lacks, most))
    line = {
        "word": word,
        "lacks": lacks[:_FLAVORS],
        "most": most[:_FLAVORS],
        "asked": int(asked.group(1)) if asked else 0,
        "again_at": again_at if word == "PodsReadyTimeout" else None,
        "text": short(text),
    }
    return Queued(_reason(word, text), short(text), line)


def _says_less(told: tuple[str, ...]) -> tuple[bool, bool]:
    _flavor, what, _asked, *top = told
    return top == ["0"], not what.endswith("/gpu")


def _reason(word: str, text: str) -> Reason:
    if word.startswith(_GAVE_UP):
        return Reason.ON_HOLD
    if word in {"Misconfigured", "Inadmissible"} and _A_QUEUE.match(text):
        return Reason.NO_QUEUE
    found = _REASONS.get(word, Reason.QUEUED)
    # older versions have one word for several; of several flavors one may have room some time
    if found == Reason.QUEUED and "maximum capacity" in text and "unused quota" not in text:
        return Reason.DOES_NOT_FIT
    if found == Reason.QUEUED and _ASKED.search(text):
        return Reason.RECLAIMING
    return found


def _checked(admitted: Object) -> Queued:
    """It has its quota; what else must agree may not have."""
    if admitted.get("status") != "False":
        return Queued()
    word, text = str(admitted.get("reason", "")), short(str(admitted.get("message", "")))
    return Queued(Reason.QUEUED, text, {"word": word, "text": text})
