"""What a running load tells of itself: parsed by our own list, kept at most once a second.

Whoever holds the token of a launch is that launch: what it says is about itself only, and is
shown to people; it decides nothing but how its own run is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Q

from common.clock import now
from common.errors import Conflict, Invalid, NotFound
from loaders.choices import Stage
from loaders.models import Load
from runtime.bus import publish
from runtime.hints import hint_uids
from runtime.protocol import Desired

if TYPE_CHECKING:
    from collections.abc import Mapping

PURPOSE = "load-report"  # of the derived token
EVERY = timedelta(seconds=0.9)  # a clock of one second is never exact
MAX_ERRORS = 50
MAX_NUMBER = 2**53 - 1
MAX_TEXT = 300
MAX_KEY = 1024
MAX_FILES = 1000
_FILES = ("found", "done", "unchanged", "skipped", "failed", "deleted")
_BYTES = ("found", "done", "read")
_VERIFIED = (
    *("crc32c", "md5", "sha256", "length"),
    *("crc64nvme", "crc32", "sha1", "multipart-md5", "md5-of-crcs"),
)


@dataclass(frozen=True)
class Report:
    """One report, every value checked. ``columns`` are those of the row."""

    launch: int
    seq: int
    columns: Mapping[str, Any]
    is_final: bool


def parse(body: Mapping[str, Any]) -> Report:
    """Return the report, or raise Invalid. What an older portal does not know is left out."""
    stage = body.get("phase")
    if stage not in Stage.values:
        raise _wrong("phase")
    final = _final(body.get("final"))
    columns: dict[str, Any] = {
        "stage": stage,
        "listed": _flag(body, "listed"),
        "rate_bytes_s": _number(body.get("rate_bytes_s"), "rate_bytes_s"),
        "eta_s": None if body.get("eta_s") is None else _number(body["eta_s"], "eta_s"),
        "concurrency": min(_number(body.get("concurrency"), "concurrency"), 10_000),
        "errors": _errors(body.get("errors", [])),
        "verified": _counts(body, "verified", _VERIFIED, every=False),
    }
    for name, value in _counts(body, "files", _FILES).items():
        columns[f"files_{name}"] = value
    for name, value in _counts(body, "bytes", _BYTES).items():
        columns[f"bytes_{name}"] = value
    if final is not None:
        columns["final"] = final
    return Report(
        launch=_number(body.get("launch"), "launch"),
        seq=_number(body.get("seq"), "seq"),
        columns=columns,
        is_final=final is not None,
    )


def report_store(uid: UUID, report: Report) -> bool:
    """Keep it; False when it says nothing new or came too soon after the one before.

    Raises NotFound for a load that is gone, Conflict for an older run or one that is over.
    """
    at = now()
    rows = Load.objects.filter(
        uid=uid, launch=report.launch, seq__lt=report.seq, deleted_at__isnull=True, result=""
    ).exclude(desired=Desired.ABSENT)
    if not report.is_final:
        rows = rows.filter(Q(reported_at__isnull=True) | Q(reported_at__lte=at - EVERY))
    if not rows.update(seq=report.seq, reported_at=at, **report.columns):
        return _why_not(uid, report)
    publish([f"load:{uid}"], {"kind": Load.KIND, "uid": str(uid)})
    if report.is_final:
        hint_uids(Load.KIND, [uid])  # it ends now: look before the next watch tells
    return True


def _why_not(uid: UUID, report: Report) -> bool:
    rows = Load.objects.filter(uid=uid, deleted_at__isnull=True).exclude(desired=Desired.ABSENT)
    found = rows.values_list("launch", "result").first()
    if found is None:
        raise NotFound("There is no such load.")
    launch, result = found
    if launch != report.launch:
        raise Conflict("This run is not the load's latest one.", code="older-run")
    if result:
        raise Conflict("This run is over.", code="run-over")
    return False


# --- single values ------------------------------------------------------------------------------


def _wrong(name: str) -> Invalid:
    return Invalid(f"{name} is not what it should be.", fields={name: ["invalid"]})


def _number(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(name)
    if not 0 <= value <= MAX_NUMBER:  # nor is what is no number, or endless, between them
        raise _wrong(name)
    return int(value)


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise _wrong(name)
    return value


def _text(value: Any, name: str, limit: int) -> str:
    """Return printable text of bounded length, fit for a database and a page."""
    if not isinstance(value, str):
        raise _wrong(name)
    plain = value[: limit * 2].encode(errors="replace").decode()
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in plain)[:limit]


def _counts(
    body: Mapping[str, Any], name: str, known: tuple[str, ...], *, every: bool = True
) -> dict[str, int]:
    value = body.get(name, {})
    if not isinstance(value, dict):
        raise _wrong(name)
    found = {key: _number(value.get(key, 0), f"{name}.{key}") for key in known}
    return found if every else {key: number for key, number in found.items() if number}


def _errors(value: Any) -> list[dict[str, str]]:
    if not isinstance(value, list):
        raise _wrong("errors")
    found = []
    for item in value[-MAX_ERRORS:]:
        if not isinstance(item, dict):
            raise _wrong("errors")
        found.append(
            {
                "key": _text(item.get("key", ""), "errors.key", MAX_KEY),
                "code": _text(item.get("code", ""), "errors.code", 32),
                "message": _text(item.get("message", ""), "errors.message", MAX_TEXT),
            }
        )
    return found


def _files(value: Any) -> list[list[Any]]:
    """Return path and size of each file that is named."""
    if not isinstance(value, list) or any(not isinstance(x, list) or len(x) != 2 for x in value):  # noqa: PLR2004
        raise _wrong("final.files")
    return [
        [_text(path, "final.files", MAX_KEY), _number(size, "final.files")]
        for path, size in value[:MAX_FILES]
    ]


def _final(value: Any) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _wrong("final")
    return {
        "exit": _number(value.get("exit"), "final.exit"),
        "code": _text(value.get("code", ""), "final.code", 32),
        "message": _text(value.get("message", ""), "final.message", 500),
        "manifest": _text(value.get("manifest") or "", "final.manifest", 1024),
        "uploads": _number(value.get("uploads", 0), "final.uploads"),
        "files": _files(value.get("files", [])),
    }
