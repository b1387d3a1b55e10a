"""What may be said of a load: its own types of fields, and its table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext_lazy as _

from loaders import policies
from loaders.choices import Direction, Mode
from loaders.services.caches import CACHE, is_cache_of
from volumes.services.create import MAX_SIZE_MIB, SHARED
from work import fields as f
from work import standard_fields as s


@dataclass(frozen=True, kw_only=True)
class Checked(f.Line):
    """A line of text by a rule of its own."""

    rule: Callable[[str], str]
    empty: str = ""  # what a null in a document stands for

    def clean(self, value: Any) -> str:
        return self.rule(super().clean(value))


@dataclass(frozen=True, kw_only=True)
class _Url(Checked):
    """Bucket and path; which store it is, the credential says (``services.resolve``)."""

    def read(self, row: Any) -> str:
        return str(row.url) if row.store_kind else ""  # of one that is not looked up yet

    def write(self, row: Any, value: str) -> None:
        place = policies.parse_url(value)
        row.bucket, row.prefix = place.bucket, place.prefix


@dataclass(frozen=True, kw_only=True)
class _Credential(f.Line):
    """Name or id of the credential that opens the store; "" or null: a public bucket."""

    empty: str = ""

    def read(self, row: Any) -> str | None:
        return row.credential.name if row.credential else None

    def write(self, row: Any, value: str) -> None:
        """The row is looked up (``services.resolve``)."""

    def differs(self, before: Any, after: Any) -> bool:
        had, has = ((x.credential_id, x.anonymous) for x in (before, after))
        return had != has


@dataclass(frozen=True, kw_only=True)
class _Volume(f.Line):
    """Name or id of the target; "": the project's own; ``cache:pool`` a cache of the source."""

    def read(self, row: Any) -> str:
        if row.cache is not None:
            return f"{CACHE}{row.cache.near}"
        return row.volume.mount_name if row.volume_id else SHARED

    def write(self, row: Any, value: str) -> None:
        """The row is looked up (``services.resolve``)."""

    def is_same(self, row: Any, value: str) -> bool:
        if row.volume_id is None:  # of one that is not looked up yet
            return not value
        if value.startswith(CACHE):
            return is_cache_of(row, value)
        return value in {str(row.volume.uid), row.volume.name, row.volume.mount_name}


@dataclass(frozen=True, kw_only=True)
class _CacheSize(f.Count):
    """How large a cache becomes that is not made yet; of no meaning afterwards."""

    def read(self, row: Any) -> int | None:
        return row.cache.size_mib if row.cache else None

    def write(self, row: Any, value: int) -> None:
        """It is of the cache that is looked for (``services.caches``)."""

    def is_same(self, row: Any, value: int) -> bool:  # noqa: ARG002 - the signature of all
        return row.pk is not None


@dataclass(frozen=True, kw_only=True)
class _Bandwidth(f.Count):
    def clean(self, value: Any) -> int | None:
        return policies.clean_bandwidth(value)


@dataclass(frozen=True, kw_only=True)
class _Schedule(Checked):
    """Whoever saves one that rested lets the clock start it again."""

    def differs(self, before: Any, after: Any) -> bool:
        rested = bool(after.schedule) and before.next_run_at is None
        return rested or super().differs(before, after)


def _as_said(text: str) -> str:
    return text


def _patterns(name: str) -> Callable[[Any], list[str]]:
    return lambda value: policies.clean_patterns(name, value)


_NEVER: dict[str, Any] = {"edit": f.Edit.NEVER}
_OF_BUCKET: dict[str, Any] = {"edit": f.Edit.NEVER, "quiet": True, "folded": True}
_KEPT: dict[str, Any] = {
    "most": policies.MAX_PATTERNS,
    "longest": policies.MAX_PATTERN,
    "quiet": True,
    "folded": True,
}

TABLE = f.Table(
    replace(s.NAME, form_help=_("Made from the path when left empty."), folded=True),
    f.Choice(
        name="direction",
        label=_("Direction"),
        choices=Direction.choices,
        usual=Direction.IN,
        folded=True,
        **_NEVER,
    ),
    _Url(
        name="url",
        label=_("Bucket and path"),
        help=_(
            "s3://bucket/folder, gs://bucket/folder, hdfs:///folder or mlflow-artifacts:///folder"
        ),
        example="s3://bucket/folder",
        longest=policies.MAX_KEY + 300,
        rule=lambda text: policies.parse_url(text).url,
        argument=True,
        **_NEVER,
    ),
    _Credential(name="credential", label=_("Credential"), longest=63),
    _Volume(name="volume", label=_("Volume"), longest=63, **_NEVER),
    _CacheSize(
        name="cache_size_mib",
        label=_("Size of a new cache in GiB"),
        help=_("Only for a cache of this source that is not there yet."),
        unit=f.Unit.GIB,
        low=1,
        high=MAX_SIZE_MIB,
        option="cache-size",
        quiet=True,
        **_NEVER,
    ),
    Checked(
        name="folder",
        label=_("Folder in the volume"),
        longest=policies.MAX_KEY,
        example="data/images",
        rule=policies.clean_folder,
        private=True,
        folded=True,
        **_NEVER,
    ),
    f.Choice(
        name="mode",
        label=_("What happens to what is there"),
        help=_("Both copy only what is new or changed."),
        choices=Mode.choices,
        usual=Mode.COPY,
        folded=True,
    ),
    f.Flag(
        name="delete_extra",
        label=_("Delete in the target what is not in the source"),
        help=_("Only with “Make the target the same”. This can't be undone."),
        folded=True,
    ),
    f.Lines(
        name="include",
        label=_("Only these"),
        help=_("One pattern a line, like *.parquet or 2024/**."),
        rule=_patterns("include"),
        **_KEPT,
    ),
    f.Lines(name="exclude", label=_("Leave out"), rule=_patterns("exclude"), **_KEPT),
    f.Lines(
        name="objects",
        column="objects_listed",
        label=_("Only these objects"),
        help=_("Whole keys, one a line. Empty: everything below the path."),
        most=policies.MAX_OBJECTS,
        longest=policies.MAX_KEY,
        rule=policies.clean_objects,
        private=True,
        option="object",
        **_OF_BUCKET,
    ),
    _Bandwidth(
        name="bandwidth_bytes_s",
        label=_("At most MiB a second"),
        help=_("Empty: as fast as it goes."),
        unit=f.Unit.MIB,
        high=policies.MAX_BANDWIDTH,
        empty=0,
        option="bandwidth",
        quiet=True,
        folded=True,
    ),
    Checked(
        name="version",
        label=_("Version"),
        help=_("A word of yours. The same source in another version is loaded anew."),
        longest=policies.MAX_NAME,
        rule=policies.clean_version,
        **_OF_BUCKET,
    ),
    Checked(
        name="endpoint",
        label=_("Address of a public S3-compatible store"),
        example="https://store.example.org",
        rule=policies.clean_endpoint,
        **_OF_BUCKET,
    ),
    Checked(
        name="region",
        label=_("Region of a public bucket"),
        longest=63,
        rule=policies.clean_region,
        **_OF_BUCKET,
    ),
    f.Flag(name="path_style", label=_("Addresses with the bucket in the path"), **_OF_BUCKET),
    _Schedule(
        name="schedule",
        label=_("Schedule"),
        help=_("Minute, hour, day, month, day of the week. Empty: only when asked."),
        example="30 2 * * *",
        longest=100,
        rule=_as_said,
        edit=f.Edit.ALWAYS,
        quiet=True,
        folded=True,
    ),
    Checked(
        name="time_zone",
        label=_("Time zone"),
        help=_("Of the schedule; UTC when left empty."),
        longest=63,
        rule=_as_said,
        edit=f.Edit.ALWAYS,
        quiet=True,
        folded=True,
    ),
)
