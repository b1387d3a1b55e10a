"""What is known of a driver's clusters without the driver: pure, no connection, no credential."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Names(Protocol):
    """What the driver calls the things of a cluster. The same words always give the same names."""

    def namespace(self, prefix: str, slug: str, project_uid: str, /) -> str: ...

    def workload(self, name: str, uid: str, /) -> str: ...

    def pod(self, workload: str, /) -> str: ...

    def claim(self, volume_uid: str, /) -> str: ...


@dataclass(frozen=True)
class Traits:
    """What a driver's clusters are like. Asked instead of the driver's name.

    ``runs_images``: pods of images, on nodes whose queue is the cluster's own. Without it: one
    machine, which runs processes in environments and where the portal's own queue decides.
    """

    runs_images: bool = False
    has_tenants: bool = False  # each project gets a namespace of its own (``SupportsTenants``)
    names: Names | None = None  # of what ``runs_images`` makes
