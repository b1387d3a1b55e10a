"""One pure function from intent and observation to what is shown. No I/O, no clock of its own."""

from dataclasses import dataclass

from runtime.protocol import Desired, Observation, Phase, Seen
from runtime.reasons import Reason, end_reason, info

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
