"""What a proxy is asked. Like a driver it knows no ORM, no HTTP and no tenant model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class RouteEntry:
    """One wanted route. ``key`` is host (host routing) or /path/ (path routing)."""

    key: str
    target: str  # http://host:port
    uid: str


class Router(Protocol):
    """A proxy that carries people to workloads."""

    def put(self, entry: RouteEntry) -> None: ...

    def drop(self, key: str) -> None:
        """Remove the route and cut its open sockets. Missing is success."""

    def cut(self, key: str, *, visitor: str | None = None) -> int:
        """Cut open sockets of the route (of one visitor where known); keeps the route."""

    def list(self) -> Mapping[str, RouteEntry]: ...

    def epoch(self) -> str:
        """Changes when the proxy restarted and forgot its routes."""

    def reach(self, target: str) -> str | None:
        """Ask whether the proxy reaches an address of a pod; return '' or why it does not.

        None: this proxy can't be asked.
        """
