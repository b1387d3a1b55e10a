"""What one pass over a workload knows, and what its row must have (``runtime.workload``)."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from runtime.protocol import Observation, Phase, Seen
from runtime.reasons import Fault, Reason, info
from runtime.status import Status

# Not the workload's own time: a large image, a node that is away.
_PATIENT = frozenset((Reason.PULLING, Reason.NODE_LOST))
# What a person must change does not get better by waiting, and holds GPUs meanwhile.
HOPELESS_S = 120.0
RESTARTED = "restarted"
_RESTARTS_TOLD = 50  # of one launch; one that comes and goes for ever tells no more then


class WorkloadRow(Protocol):
    """What a row must have besides the columns of ``Reconcilable``."""

    uid: UUID
    launch: int  # grows with each start that a user asks for
    cluster_key: str
    project: Any  # has ``uid``
    owner: Any  # has ``uid``
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_flavor: str


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
        waits = status.phase == Phase.PENDING or status.reason in _PATIENT
        if waits or self.row.phase == Phase.RUNNING:
            self.ref["starting_at"] = time.time()
            return False
        begun = self.ref.setdefault("starting_at", self.ref.get("placed_at", time.time()))
        if info(status.reason).fault == Fault.USER:
            limit_s = min(limit_s, HOPELESS_S)
        return bool(time.time() - begun > limit_s)

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
