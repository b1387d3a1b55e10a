"""Why a workload is as it is, in words: the plain ones first, what a program said after them.

What the engine and the clusters wrote is in their own language; the plain words are said anew for
each reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy as _

from placement.decision import waiting
from queues.words import sentence
from runtime import reasons
from runtime.models import ONE_MACHINE
from runtime.reasons import Reason, ReasonInfo
from work.image_pull import pull_of

if TYPE_CHECKING:
    from runtime.spec import Resources


@dataclass(frozen=True)
class Why:
    text: str
    detail: str = ""  # what a driver or a registry said, in its own words

    @property
    def sentence(self) -> str:
        """Both, for what is one line: the API, the command line, a table."""
        return f"{self.text} {self.detail}".strip()


def info_of(reason: str, cluster_key: str) -> ReasonInfo:
    """Return what ``reason`` means there: who works on one machine knows of no cluster."""
    info = reasons.info(reason)
    if reason != Reason.UNREACHABLE or cluster_key != ONE_MACHINE:
        return info
    return replace(
        info,
        text=_("The machine does not answer; what is shown is the last thing known."),
        advice=_("Nothing needs to be done: it is tried again until the machine answers."),
    )


def on_its_way(reason: str, ref: Mapping[str, Any], size: Resources) -> Why | None:
    """Return what a start waits for, where the engine noted more of it than its reason.

    ``ref`` needs only the keys ``queue``, ``line`` and ``pull`` of ``external_ref``.
    """
    if (line := ref.get("line")) and (said := sentence(line)):
        return Why(said)
    queue = ref.get("queue")
    if reason == Reason.QUEUED and queue:
        lacking, position = queue.get("lacking") or (), queue.get("position") or 1
        return Why(str(waiting(lacking, position, size)))
    if (pull := pull_of(reason, ref.get("pull"))) is not None:
        return Why(pull.sentence)
    return None
