"""What a cluster's queue says of work that it holds back, in a reader's language. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# By its word; what is not among them is said as unknown, with the queue's own words.
_SAID: dict[str, str] = {
    "WaitingForQuota": gettext_noop("What it asks for is in use, or kept for others."),
    "PendingEvaluation": gettext_noop("It stands in line; the queue has not looked at it yet."),
    "WaitingForPodsReady": gettext_noop(
        "The cluster's queue waits until what it let in before is ready."
    ),
    "TopologyPlacementFailed": gettext_noop(
        "Enough may be free, but not as near to each other as it asks for."
    ),
    "NoMatchingFlavor": gettext_noop(
        "No kind of device in the cluster's queue is one that it may get."
    ),
    "ExceedsMaxQuota": gettext_noop("It asks for more than its project may hold there at all."),
    "OnHold": gettext_noop("It is being put in line again."),
    "PodsReadyTimeout": gettext_noop(
        "It was not ready in time and gave its place back; it is put in line again by itself."
    ),
    "UnsatisfiedAdmissionChecks": gettext_noop(
        "It has its turn; something else that must agree has not yet."
    ),
    "PendingDelayedTopologyRequests": gettext_noop("It has its turn; its nodes are being chosen."),
    "NoReservation": gettext_noop("It stands in line; the queue has not looked at it yet."),
    "DeactivatedDueToRequeuingLimitExceeded": gettext_noop(
        "The cluster's queue gave it up: it was not ready in time too often. Stop it, and start it"
        " again when that is mended."
    ),
    "DeactivatedDueToMaximumExecutionTimeExceeded": gettext_noop(
        "The cluster's queue ended it: it ran as long as it may there."
    ),
}
_OLDER = {
    "Pending": "PendingEvaluation",
    "Waiting": "WaitingForPodsReady",
    "UnsatisfiedChecks": "UnsatisfiedAdmissionChecks",
}
# Their reasons say all that is known.
_PLAIN = frozenset({"Misconfigured", "Inadmissible", "Suspended", "AdmissionGated", "Deactivated"})
_GPUS = "/gpu"


def sentence(line: Mapping[str, Any]) -> str:
    """Return why it waits; '' where its reason says all of it. ``line``: ``Queued.line``."""
    word = str(line.get("word", ""))
    asked, lacks, most = line.get("asked") or 0, line.get("lacks") or (), line.get("most") or ()
    if asked or word == "WaitingForPreemptedWorkloads":
        return _asked(asked)
    if lacks:
        things = _or(_thing(what, count, flavor) for flavor, what, count in lacks)
        return _("What it asks for is in use, or kept for others: %(things)s must get free.") % {
            "things": things
        }
    if most:
        flavor, what, count, top = most[0]
        words = {"asked": _thing(what, count, flavor), "most": top}
        return (
            _("It asks for %(asked)s; its project may hold %(most)s of it there at most.") % words
        )
    if word in _PLAIN:
        return ""
    known = _SAID.get(_OLDER.get(word, word))
    if known:
        return _(known)
    text = str(line.get("text") or "")
    said = _("The cluster's queue holds it back; what for is not known.")
    return f"{said} {text}".strip()


def _asked(number: int) -> str:
    if not number:
        return _("Others end for it: it starts as soon as they are gone.")
    text = ngettext(
        "%(n)d that holds what it needs was told to end for it: it starts as soon as that is gone.",
        "%(n)d that hold what it needs were told to end for it: it starts as soon as all are gone.",
        number,
    )
    return text % {"n": number}


def _thing(what: str, count: str, flavor: str) -> str:
    """Return so much of something, and of which sort."""
    if what.endswith(_GPUS):
        n = int(count) if count.isdecimal() else 0
        said = ngettext("%(n)d GPU", "%(n)d GPUs", n) % {"n": n} if n else f"{count} GPU"
    else:
        said = f"{count} {what}"
    return f"{said} ({flavor})"


def _or(things: Iterable[str]) -> str:
    return _(" or ").join(dict.fromkeys(things))
