"""What one kind of row says of itself; the order of things is ``runtime.workload``'s."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from runtime.models import Reconcilable
from runtime.protocol import Observation, Phase, Resources, WorkloadSpec
from runtime.routers.base import RouteEntry


class WorkloadKind:
    """Subclasses set ``kind`` and ``model`` and say what to run."""

    kind: str = ""
    observes: ClassVar[bool] = True
    # What is only in an observation's detail waits for the next step: pages read it themselves.
    reads_detail: ClassVar[bool] = False
    # Each replica's own news is acted on too, and looked at once more when all have ended.
    reads_replicas: ClassVar[bool] = False
    # A row whose generation is still the same is not read once more for the listeners: what
    # services change without a new generation, these need not hear of in this pass.
    keeps_what_it_read: ClassVar[bool] = False
    model: type[Reconcilable]
    related: ClassVar[tuple[str, ...]] = ("project", "owner")
    start_timeout_s: ClassVar[float] = 600.0
    stop_grace_s: ClassVar[float] = 10.0
    # How often a quiet row is looked at when nothing watches its cluster, and when one does.
    poll_s: ClassVar[float] = 30.0
    watched_poll_s: ClassVar[float] = 600.0

    def spec_of(self, row: Any) -> WorkloadSpec:
        """Return what to run. May write (mint a client): it must be the same for one launch."""
        raise NotImplementedError

    def resources_of(self, row: Any) -> Resources:
        return Resources(row.cpu_milli, row.memory_mib, row.gpus, row.gpu_flavor)

    def replicas_of(self, row: Any) -> int:  # noqa: ARG002 - for the kinds that have groups
        """Return how many take ``resources_of`` each; they are let in together or not at all."""
        return 1

    def waits_for(self, row: Any) -> tuple[str, str] | None:
        """Return (reason, sentence) of what must be there before it asks for a place.

        Whoever makes it be there hints the row; it is only looked at now and then otherwise.
        """
        del row
        return None

    def secrets_of(self, row: Any) -> str:
        """Return a word that changes when secrets were taken away from what runs.

        One that was only replaced does not change it: that counts from the next start.
        """
        del row
        return ""

    def image_bytes(self, row: Any) -> int | None:
        """Return what a node fetches of the row's image, None when that is not known."""
        del row
        return None

    def before_stop(self, row: Any) -> None:
        """Revoke what the workload could still use. Runs again after a crash."""

    def route_of(self, row: Any, observation: Observation) -> RouteEntry | None:
        """Return where people reach it, None when nobody does."""
        del row, observation
        return None

    def routes_of(self, row: Any, observation: Observation) -> Sequence[RouteEntry]:
        """Return every way to it, where there are several."""
        entry = self.route_of(row, observation)
        return () if entry is None else (entry,)

    def on_ready(self, row: Any, observation: Observation) -> None:
        """It runs and can be reached; runs again after a crash."""

    def after_remove(self, row: Any) -> None:
        """Everything outside is gone, the row is about to go."""

    def stop_reason(self, row: Any) -> str:
        """Return the word for why it was stopped (a Reason)."""
        del row
        return ""

    def updates(self, row: Any, observation: Observation, phase: Phase) -> Mapping[str, Any]:
        """Return status columns of the subclass's own to set with this phase."""
        del row, observation, phase
        return {}

    def beside(self, row: Any, observation: Observation) -> Callable[[], None] | None:
        """Return what writes down what was seen of this launch in rows of the kind's own.

        None: they say so already. Asked of kinds that read replicas (``Outcome.beside``).
        """
        del row, observation
        return None

    def next_due_s(self, row: Any) -> float | None:
        """Return seconds until the row must be looked at for its own reasons (time limit)."""
        del row
        return None

    def topics(self, row: Any) -> list[str]:
        return [f"project:{row.project.uid}", f"user:{row.owner.uid}"]
