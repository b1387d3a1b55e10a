"""What can be told, changed and read of a workload that is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from runtime.protocol import NotYet
from runtime.spec import WorkloadSpec


class Held(NotYet):
    """What was told to end should be gone by now and is not; the message says what keeps it."""


@runtime_checkable
class SupportsNotice(Protocol):
    def tell(self, uid: str, notice: Mapping[str, str]) -> None:
        """Write why it is about to end where its program can read it (``BERTH_NOTICE_FILE``)."""


@runtime_checkable
class SupportsServing(Protocol):
    """Runs what serves (``WorkloadSpec.serve``), by a number of replicas that changes."""

    def scale(self, spec: WorkloadSpec) -> None:
        """Let this launch have ``spec.serve.replicas`` of them, 0 too; those that are there stay.

        A replica that ended by itself and is not begun anew by the driver is made again.  Nothing
        is done where there is no such launch, or it was stopped.  NotYet: call again.
        """


@runtime_checkable
class SupportsSecretRefresh(Protocol):
    """Secrets of what runs can be made anew without a start: what was taken away is gone there.

    The environment of a process stays as it was; files and the cluster's Secret do not.
    """

    def refresh_secrets(self, spec: WorkloadSpec) -> None:
        """Write ``secret_env`` and ``secret_files`` of this launch again. Missing is success."""


@runtime_checkable
class SupportsAdoption(Protocol):
    """What was made before there were marks of installations can be given ours."""

    def adopt(self, uid: str) -> None:
        """Mark it. What is missing, or another's, is left."""


@runtime_checkable
class SupportsLogs(Protocol):
    def read_log(
        self, uid: str, *, offset: int = 0, limit: int = 65536, replica: int = 0
    ) -> tuple[bytes, int]:
        """Return (bytes, next offset); an offset past the end gives no bytes.

        ``replica``: whose, by its number; one that is not there has written nothing.
        """


class EventLines(NamedTuple):
    """Whole lines of what a program told; others may stand between."""

    data: bytes
    cursor: str  # from where to go on; its form is the driver's own
    more: bool = False  # there is more to read now
    again: bool = False  # what comes next may have been read before
    read: int = 0  # bytes that were fetched for it

    @classmethod
    def of_file(cls, data: bytes, offset: int, *, limit: int, is_over: bool) -> EventLines:
        """Return whole lines of what was read from ``offset`` on; nobody ends those of an end.

        A line that never ends is none of an event: of that, all that was read is passed over.
        """
        is_full = len(data) >= limit
        cut = len(data) if is_over and not is_full else data.rfind(b"\n") + 1
        if not cut and is_full:
            cut = len(data)
        return cls(data[:cut], str(offset + cut), more=is_full, read=len(data))


@runtime_checkable
class SupportsEvents(Protocol):
    def read_events(
        self, uid: str, *, launch: int, cursor: str = "", limit: int = 65536
    ) -> EventLines:
        """Read on in what the program of a launch told in ``BERTH_EVENTS``; ``""``: from its begin.

        That of the first replica, all its attempts in their order. It can be read until the launch
        after it has ended; one that is not there any more tells nothing, and the cursor stays.
        """


@dataclass(frozen=True)
class Inspection:
    """What people may read of a workload's objects: title → document, events newest first."""

    objects: Mapping[str, Mapping[str, Any]]
    events: tuple[Mapping[str, Any], ...] = ()
    more: bool = False  # there are other events, older ones
    unread: bool = False  # not all could be read in time: newer ones may be missing


@runtime_checkable
class SupportsInspection(Protocol):
    """Showing what the cluster itself holds of a workload. No secret is ever in it."""

    def inspect(
        self, where: Mapping[str, str], *, for_owner: bool, most: int, seconds: float
    ) -> Inspection:
        """Read the objects at ``where`` (namespace, name, pod) and their ``most`` latest events.

        Others than the owner are shown no values of the environment, no words of the command.
        """
