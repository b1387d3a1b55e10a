"""Long streams into what runs on a cluster, for asyncio: commands, connections to ports, logs."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from runtime.pods import MAIN
from runtime.protocol import DriverError

STDIN, STDOUT, STDERR = range(3)


class Gone(DriverError):  # noqa: N818 - named as the answer it is
    """The pod or container is not there (any more)."""


@dataclass(frozen=True)
class Pod:
    """One container of one pod."""

    namespace: str
    name: str
    container: str = MAIN


@dataclass(frozen=True)
class Ended:
    """How a command ended: its code, or why there is none."""

    code: int | None
    message: str = ""


class Exec(Protocol):
    """One command that runs in a container. ``ended`` is known after ``output`` is over."""

    @property
    def ended(self) -> Ended: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_error: object) -> None: ...

    def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield (STDOUT or STDERR, bytes) until the command is over."""

    async def write(self, data: bytes) -> None: ...

    async def end_of_input(self) -> None:
        """Close the command's standard input, where the cluster can do that."""

    async def resize(self, columns: int, rows: int) -> None:
        """Say how large the window is; what ended meanwhile needs none."""


class Forward(Protocol):
    """One TCP connection into a pod. It has no half-close: the end of either side ends it."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_error: object) -> None: ...

    def received(self) -> AsyncIterator[bytes]: ...

    async def send(self, data: bytes) -> None: ...


class Streams(Protocol):
    """Those of one cluster, for one event loop. Each is bounded by its slower side.

    What can't be opened raises ``Gone`` or ``Unreachable``.
    """

    async def exec(
        self, pod: Pod, command: Sequence[str], *, tty: bool = False, stdin: bool = True
    ) -> Exec:
        """Start ``command`` in the container; it has the environment of the main process."""

    async def forward(self, pod: Pod, port: int) -> Forward:
        """Open one connection to ``localhost:port`` of the pod."""

    def log(
        self, pod: Pod, *, follow: bool = False, tail: int | None = None, since: str = ""
    ) -> AsyncGenerator[bytes, None]:
        """Yield what the container writes as it comes; ends with the container."""

    async def aclose(self) -> None: ...
