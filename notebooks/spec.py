"""What somebody wants of a workspace: the one shape behind form, YAML, CLI and API.

Pure: no ORM and no HTTP here, so the rules can be read and tested as rules.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from notebooks.choices import WorkspaceKind
from placement.decision import Request
from runtime.protocol import Resources

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Wanted:
    """A partial specification. None means: as the preset (or the row, in an edit) says.

    ``time_limit_minutes`` 0 means "no time limit", where the preset allows that.
    """

    name: str | None = None
    environment: str | None = None
    cpu_milli: int | None = None
    memory_mib: int | None = None
    gpus: int | None = None
    gpu_flavor: str | None = None
    env: Mapping[str, str] | None = None
    time_limit_minutes: int | None = None
    kind: str | None = None
    cluster: str | None = None
    image: str | None = None
    command: Sequence[str] | None = None
    args: Sequence[str] | None = None
    ports: Sequence[Any] | None = None
    shm_mib: int | None = None
    pool: str | None = None
    network: str | None = None
    # by name or id; ``work.services.attachments`` knows what may be said
    volumes: Sequence[Any] | None = None
    credentials: Sequence[str] | None = None
    needs: Sequence[str] | None = None
    newest_image: bool | None = None  # of an edit: what the image's tag means now

    def given(self) -> dict[str, Any]:
        """Return only what was said."""
        pairs = ((f.name, getattr(self, f.name)) for f in fields(self))
        return {name: value for name, value in pairs if value is not None}


@dataclass(frozen=True)
class Spec:
    """A whole specification: every field has a value."""

    environment: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_flavor: str
    env: Mapping[str, str]
    time_limit_minutes: int | None
    kind: str = WorkspaceKind.NOTEBOOK.value
    cluster: str = ""
    image: str = ""
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    ports: Sequence[Mapping[str, Any]] = ()
    shm_mib: int = 0
    pool: str = ""
    network: str = ""

    @property
    def is_container(self) -> bool:
        return self.kind == WorkspaceKind.CONTAINER

    @property
    def size(self) -> Resources:
        return Resources(self.cpu_milli, self.memory_mib, self.gpus, self.gpu_flavor)

    @property
    def request(self) -> Request:
        """What decides where it may go."""
        return Request.of_size(self.kind, self.size, pool=self.pool, network=self.network)


# What a form, a file and an answer of the API tell besides the environment's values.
PUBLIC = (
    *("kind", "cluster", "environment", "image", "command", "args", "ports"),
    *("cpu_milli", "memory_mib", "gpus", "gpu_flavor", "shm_mib", "pool", "network"),
    "time_limit_minutes",
)
PRIVATE = ("env", "command", "args")  # to the owner: secrets are written into all three
LISTS = frozenset({"command", "args", "ports"})
# Kind and cluster are chosen once: the home lies on that cluster.
FIXED = frozenset({"kind", "cluster"})
# How a form says what is seen of volumes: one field for each, named by its uid.
VOLUME_FIELD = "volume-"
WRITE, READ = "rw", "ro"
# Changing one of these needs a new process.
RESTARTING = frozenset({*PUBLIC, "env"}) - FIXED - {"time_limit_minutes"}
