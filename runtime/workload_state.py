"""What a workload is by intent and observation (pure), and what one pass over it knows.

``status_of`` knows no I/O and no clock of its own.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runtime.protocol import Desired, Observation, Phase, Seen
from runtime.reasons import Fault, Reason, end_reason, info

# What the pages and the API offer in each phase (permission decides further).
OFFERS: dict[Phase, tuple[str, ...]] = {
    Phase.PENDING: ("stop", "edit", "delete"),
    Phase.STARTING: ("stop", "delete", "logs"),
    Phase.RUNNING: ("open", "stop", "edit", "extend", "share", "delete", "logs"),
    Phase.STOPPING: ("delete", "logs"),
    Phase.STOPPED: ("start", "edit", "delete", "logs"),
    Phase.FAILED: ("start", "edit", "delete", "logs"),
    Phase.DELETING: (),
    Phase.DELETED: (),
    Phase.UNKNOWN: ("stop", "delete", "logs"),
}


@dataclass(frozen=True)
class Status:
    """What a row is and why; ``offers`` are the acts that make sense now."""

    phase: Phase
    reason: str = ""
    message: str = ""

    @property
    def offers(self) -> tuple[str, ...]:
        return OFFERS[self.phase]


def status_of(  # noqa: PLR0911 - a table, one line each
    desired: str,
    observation: Observation | None,
    *,
    launch: int = 0,
    routed: bool = True,
    ensured: bool = False,
) -> Status:
    """Derive phase and reason.

    ``launch`` is the start that is wanted: an observation of an older one only says that
    something old is still there. ``ensured``: this launch was already accepted by the driver,
    so that "missing" means it vanished. ``routed``: people can reach it.
    """
    seen = observation.seen if observation else Seen.MISSING
    alive = seen not in {Seen.MISSING, Seen.EXITED}
    if desired == Desired.ABSENT:
        return Status(Phase.DELETING if seen != Seen.MISSING else Phase.DELETED)
    if desired == Desired.STOPPED:
        return Status(Phase.STOPPING if alive else Phase.STOPPED)
    if observation is None or seen == Seen.MISSING:
        if ensured:
            return Status(Phase.FAILED, Reason.VANISHED)
        return Status(Phase.PENDING, Reason.ACCEPTED)
    if observation.launch < launch:
        if alive:
            return Status(Phase.STARTING, Reason.PREVIOUS_ENDING)
        return Status(Phase.PENDING, Reason.ACCEPTED)
    if seen == Seen.EXITED:
        return _ended(observation)
    if seen == Seen.READY:
        return Status(Phase.RUNNING) if routed else Status(Phase.STARTING, Reason.ROUTING)
    if seen == Seen.STOPPING:
        return Status(Phase.STOPPING, "", observation.message)
    return _on_its_way(observation)


def _on_its_way(observation: Observation) -> Status:
    """A driver that knows what holds it up says so by a reason of this list."""
    known = info(observation.reason)
    if observation.reason and known.phase in {Phase.PENDING, Phase.STARTING}:
        return Status(known.phase, observation.reason, observation.message)
    return Status(Phase.STARTING, Reason.PLACED, observation.message)


def _ended(observation: Observation) -> Status:
    reason = end_reason(observation.reason, observation.exit_code)
    if reason == Reason.FINISHED:
        return Status(Phase.STOPPED, reason, observation.message)
    return Status(Phase.FAILED, reason, observation.message)


# Not the workload's own time: a large image, a node that is away.
_PATIENT = frozenset((Reason.PULLING, Reason.NODE_LOST))
# What a person must change does not get better by waiting, and holds GPUs meanwhile.
HOPELESS_S = 120.0
# A wait that is no longer makes no new start of it: Kueue puts out what was not ready within its
# own time, and lets the pod that follows in at once.
BRIEF_S = 60.0
RESTARTED = "restarted"
RECLAIMED = "reclaimed"  # its devices are asked back; with the uid of the work that gets them
_RESTARTS_TOLD = 50  # of one launch; one that comes and goes for ever tells no more then


@dataclass
class ReconcileContext:
    """What one step has learned; ``ref`` becomes ``external_ref``."""

    row: Any
    ref: dict[str, Any]
    timeline: list[tuple[str, str]] = field(default_factory=list)
    just_made: bool = False  # by this very pass
    seen: Observation | None = None  # what this pass saw last of this launch

    def note(self, word: str, message: str = "") -> None:
        """Put ``word`` on the timeline, once for each launch."""
        noted = self.ref.setdefault("noted", {"launch": self.row.launch, "words": []})
        if noted["launch"] != self.row.launch:
            noted = self.ref["noted"] = {"launch": self.row.launch, "words": []}
        if word not in noted["words"]:
            noted["words"].append(word)
            self.timeline.append((word, message))

    def saw(self, seen: Observation) -> Observation:
        if seen.launch == self.row.launch or (self.ensured and seen.seen == Seen.MISSING):
            self.seen = seen
        return seen

    @property
    def ensured(self) -> bool:
        return bool(self.ref.get("launch") == self.row.launch)

    @property
    def ended(self) -> bool:
        return bool(self.ref.get("ended") == self.row.launch)

    def note_progress(self, seen: Observation) -> None:
        """What a cluster tells on the way: a node was found, its image is there."""
        if node := seen.detail.get("node"):
            self.note("scheduled", str(node))
        if seen.detail.get("image_ready"):
            self.note("image")

    def note_pull(self, seen: Observation, size_of: Callable[[Any], int | None]) -> None:
        """Keep since when its image is fetched, and how large that is: asked once for each try."""
        told: Any = seen.detail.get("pull") if seen.launch == self.row.launch else None
        pull: dict[str, Any] = told or {}
        if pull.get("since") is None:
            self.ref.pop("pull", None)
        elif (self.ref.get("pull") or {}).get("since") != pull["since"]:
            self.ref["pull"] = {"since": pull["since"], "bytes": size_of(self.row)}

    def note_line(self, seen: Observation) -> None:
        """Keep what the cluster's queue says of it while that holds it back."""
        told: Any = seen.detail.get("line") if seen.launch == self.row.launch else None
        if told:
            self.ref["line"] = dict(told)
        else:
            self.ref.pop("line", None)

    def note_pod(self, seen: Observation) -> None:
        """Tell of each pod after a launch's first, also when nobody saw the one before it go.

        What is read late may show only the new one, ready; it has another uid all the same.
        """
        uid, known = str(seen.detail.get("pod_uid") or ""), self.ref.get("pod") or {}
        if known.get("launch") != self.row.launch:
            known = {}
        if not uid or seen.launch != self.row.launch or known.get("uid") == uid:
            return
        times = known.get("times", -1) + 1
        self.ref["pod"] = {"launch": self.row.launch, "uid": uid, "times": times}
        if 0 < times <= _RESTARTS_TOLD:
            why = seen.reason or (self.row.reason if self.row.phase == Phase.STARTING else "")
            self.timeline.append((RESTARTED, why))

    def is_late(self, status: Status, limit_s: float) -> bool:
        """Whether it has been starting for too long; waiting in line does not count."""
        at, was_ready = time.time(), self.row.phase == Phase.RUNNING
        if was_ready or status.phase == Phase.PENDING or status.reason in _PATIENT:
            if was_ready:  # its start is over, and so is what that took
                for word in ("starting_at", "paused"):
                    self.ref.pop(word, None)
            spent = at - self.ref.get("starting_at", at)
            paused = self.ref.setdefault("paused", {"since": at, "spent": spent})
            is_brief = at - paused["since"] <= BRIEF_S
            self.ref["starting_at"] = at - (paused["spent"] if is_brief else 0.0)
            return False
        self.ref.pop("paused", None)
        begun = self.ref.setdefault("starting_at", self.ref.get("placed_at", at))
        if info(status.reason).fault == Fault.USER:
            limit_s = min(limit_s, HOPELESS_S)
        return bool(at - begun > limit_s)

    def end_with(self, status: Status) -> None:
        """Keep how it ended until everything of it is gone."""
        self.ref["ending"] = {
            "launch": self.row.launch,
            "phase": str(status.phase),
            "reason": str(status.reason),
            "message": status.message,
        }

    @property
    def ending(self) -> Status | None:
        kept = self.ref.get("ending") or {}
        if kept.get("launch") != self.row.launch:
            return None
        return Status(Phase(kept["phase"]), kept["reason"], kept["message"])
