"""What a driver's clusters are like, and what is seen of them: nodes, changes, use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from runtime.protocol import Observation
from runtime.use_sources import DeviceUse, Holder, UseSource


class Names(Protocol):
    """What the driver calls the things of a cluster. The same words always give the same names."""

    def namespace(self, prefix: str, slug: str, project_uid: str, /) -> str: ...

    def workload(self, name: str, uid: str, /) -> str: ...

    def pod(self, workload: str, /) -> str: ...

    def claim(self, volume_uid: str, /) -> str: ...

    def queue_object(self, prefix: str, word: str, /) -> str: ...


@dataclass(frozen=True)
class Traits:
    """What a driver's clusters are like. Asked instead of the driver's name.

    ``runs_images``: pods of images, on nodes whose queue is the cluster's own. Without it: one
    machine, which runs processes in environments and where the portal's own queue decides.
    """

    runs_images: bool = False
    has_tenants: bool = False  # each project gets a namespace of its own (``SupportsTenants``)
    names: Names | None = None  # of what ``runs_images`` makes


@dataclass(frozen=True)
class NodeFacts:
    """One node as the cluster reports it. Units: milli-CPU, MiB, whole devices."""

    name: str
    ready: bool
    schedulable: bool = True
    cpu_milli: int = 0
    memory_mib: int = 0
    accelerators: Mapping[str, int] = field(default_factory=dict)  # resource name → allocatable
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    version: str = ""
    message: str = ""
    since: str = ""  # when it stopped being ready, as the cluster says it
    addresses: tuple[str, ...] = ()  # where the node itself listens
    # resource name → devices that pods hold which are not this portal's; None: not known
    held: Mapping[str, int] | None = None


@dataclass(frozen=True)
class NodeChanges:
    """``full``: ``seen`` is every node there is. Otherwise only what changed, and who left."""

    seen: tuple[NodeFacts, ...] = ()
    gone: tuple[str, ...] = ()
    full: bool = False


@runtime_checkable
class SupportsNodes(Protocol):
    def node_changes(self) -> NodeChanges | None:
        """What ``watch`` saw of nodes since the last call; None: nothing. Same process only."""


@runtime_checkable
class SupportsWatch(Protocol):
    def watch(self, *, stop: Callable[[], bool]) -> Iterator[list[Observation] | None]:
        """Yield a full list first, then changes; an empty list is a heartbeat (≤ 30 s).

        None before the full list: it is long, and more of it came.
        """


@runtime_checkable
class SupportsMetrics(Protocol):
    def usage(self, uids: Iterable[str]) -> Mapping[str, Mapping[str, float]]:
        """cpu_milli, memory_mib, and rx_bytes, tx_bytes counted from its start, per uid; absent =
        unknown.
        """


@runtime_checkable
class SupportsDeviceUse(Protocol):
    """What devices do: asked of the machine itself, or of the exporters beside them."""

    def device_use(
        self, holders: Iterable[Holder], sources: Iterable[UseSource]
    ) -> Sequence[DeviceUse]:
        """One for each device and who holds it; of one that nobody holds, where that is known."""
