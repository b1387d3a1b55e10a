"""What one pass over a workload knows, and what its row must have (``runtime.workload``)."""

from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID


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
class Pass:
    """What one step has learned; ``ref`` becomes ``external_ref``."""

    row: Any
    ref: dict[str, Any]
    timeline: list[tuple[str, str]] = field(default_factory=list)

    def note(self, word: str, message: str = "") -> None:
        """Put ``word`` on the timeline, once for each launch."""
        noted = self.ref.setdefault("noted", {"launch": self.row.launch, "words": []})
        if noted["launch"] != self.row.launch:
            noted = self.ref["noted"] = {"launch": self.row.launch, "words": []}
        if word not in noted["words"]:
            noted["words"].append(word)
            self.timeline.append((word, message))

    @property
    def ensured(self) -> bool:
        return bool(self.ref.get("launch") == self.row.launch)

    @property
    def ended(self) -> bool:
        return bool(self.ref.get("ended") == self.row.launch)
