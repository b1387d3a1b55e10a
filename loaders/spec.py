"""What somebody wants of a load: the one shape behind form, YAML, CLI and API. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from loaders.choices import Direction, Mode, StoreKind
from loaders.policies import url_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from credentials.models import Credential
    from volumes.models import Volume
    from volumes.services.create import NewVolume

# What a document and an answer of the API tell, in this order.
PUBLIC = (
    *("direction", "url", "credential", "volume", "folder", "mode", "delete_extra"),
    *("include", "exclude", "objects", "bandwidth_bytes_s", "version"),
    *("endpoint", "region", "path_style", "schedule", "time_zone"),
)
# Said once: what was copied where is what the load remembers.
FIXED = (
    *("direction", "url", "volume", "folder", "objects", "version"),
    *("endpoint", "region", "path_style"),
)
# Which store it is says the credential.
OF_CREDENTIAL = frozenset({StoreKind.S3_COMPATIBLE, StoreKind.HDFS})
# Said in place of a volume: a cache of the source, near the pool that follows if one does.
CACHE = "cache:"
# May change while it runs: they are about later runs, or about no run at all.
HARMLESS = frozenset({"name", "schedule", "time_zone"})


@dataclass(frozen=True)
class Wanted:
    """A partial description. None means: not said (in an edit: as it is)."""

    name: str | None = None
    direction: str | None = None
    url: str | None = None
    credential: str | None = None  # uid or name; "": a public bucket
    volume: str | None = None  # uid or name; "": the project's own; CACHE with or without a pool
    cache_size_mib: int | None = None  # of a cache that is not made yet
    folder: str | None = None
    mode: str | None = None
    delete_extra: bool | None = None
    include: Sequence[str] | None = None
    exclude: Sequence[str] | None = None
    objects: Sequence[str] | None = None  # keys, and no others
    bandwidth_bytes_s: int | None = None  # 0: no limit
    version: str | None = None
    endpoint: str | None = None  # these three of a public bucket only
    region: str | None = None
    path_style: bool | None = None
    schedule: str | None = None  # "": none
    time_zone: str | None = None

    def given(self) -> dict[str, Any]:
        """Return only what was said."""
        pairs = ((f.name, getattr(self, f.name)) for f in fields(self))
        return {name: value for name, value in pairs if value is not None}


@dataclass(frozen=True)
class Spec:
    """A whole description: every field checked, every row one that may be used."""

    direction: Direction
    kind: str
    bucket: str
    prefix: str
    credential: Credential | None
    anonymous: bool  # a public bucket; without it and a credential, one was removed
    volume: Volume | None  # None: the project's own, which is not made yet
    cluster_key: str
    folder: str
    mode: Mode
    delete_extra: bool
    include: list[str]
    exclude: list[str]
    objects: list[str] | None
    bandwidth_bytes_s: int | None
    version: str
    endpoint: str
    region: str
    path_style: bool
    schedule: str
    time_zone: str
    cache: NewVolume | None = None  # the target, where it is a cache that is not made yet

    @property
    def store(self) -> str:
        """Which store it is, where its kind does not say that."""
        if self.kind in OF_CREDENTIAL and self.credential is not None:
            return self.credential.target
        return self.endpoint

    @property
    def is_export(self) -> bool:
        return self.direction == Direction.OUT

    @property
    def url(self) -> str:
        return url_of(self.kind, self.bucket, self.prefix)
