"""What the pages say of a load: facts in words, ready for the templates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.templatetags.berth import duration, filesize
from loaders import concurrency, selectors, services
from loaders.choices import Result, State, Task
from loaders.codes import VERIFIED
from loaders.messages import in_words
from loaders.states import MOVING, SETTLED, state_of
from loaders.words import advice_of, percent_of, why_of
from runtime.protocol import Desired
from runtime.reasons import Reason
from work.selectors import may_change, may_end
from work.waits import wait_of
from work.why import Why

if TYPE_CHECKING:
    from collections.abc import Callable

    from accounts.principal import Principal
    from loaders.models import Load
    from work.waits import Wait


@dataclass(frozen=True)
class Bar:
    """``percent`` None: not known yet, the bar only says that something moves."""

    moves: bool
    percent: int | None
    words: str
    detail: str


def bar_of(row: Load) -> Bar:
    state = state_of(row)
    files = row.files_done + row.files_unchanged
    if state in MOVING:
        return Bar(True, percent_of(row), _count(row, files), _speed(row))
    if state == State.STARTING:
        return Bar(True, None, "", "")
    if state not in SETTLED or not row.launch:
        return Bar(False, None, "", "")
    if row.task == Task.DRY_RUN:
        return Bar(False, None, dry_words(row.dry_run) if row.result == Result.DONE else "", "")
    return Bar(False, None, _count(row, files) if row.files_found or files else "", "")


def _count(row: Load, files: int) -> str:
    names = {
        "done": f"{files:,}",
        "found": f"{row.files_found:,}",
        "size": filesize(row.bytes_done),
        "total": filesize(row.bytes_found),
    }
    if row.listed and row.files_found:
        return _("%(done)s of %(found)s files, %(size)s of %(total)s") % names
    if row.result:
        return _("%(done)s files, %(size)s") % names
    return _("%(done)s files, %(size)s; still listing: %(found)s found") % names


def _speed(row: Load) -> str:
    parts = [_("%(size)s/s") % {"size": filesize(row.rate_bytes_s)}]
    if row.eta_s is not None:
        parts.append(_("about %(time)s left") % {"time": duration(row.eta_s)})
    return ", ".join(parts)


@dataclass(frozen=True)
class Shown:
    """Everything the state part of a load's page needs."""

    row: Load
    state: State
    settled: bool
    bar: Bar
    why: Why
    advice: str
    position: int | None
    wait: Callable[[], Wait | None]
    errors: list[dict[str, str]]
    inside: bool  # names of folders and files may be shown
    hidden: bool  # there are errors, and they are not
    verified: list[tuple[str, int]]
    dry_run: dict[str, Any] | None
    dry_words: str
    may_start: bool
    may_resume: bool
    may_pause: bool
    may_cancel: bool
    may_retry: int
    may_verify: bool
    may_change: bool
    may_end: bool


@dataclass(frozen=True)
class Possible:
    """What somebody can do to a load as it is now."""

    start: bool
    resume: bool
    pause: bool
    cancel: bool


def possible(who: Principal, row: Load) -> Possible:
    state = state_of(row)
    settled = state in SETTLED
    changes, ends = may_change(who, row), may_end(who, row)
    here = row.desired != Desired.ABSENT
    cut = row.result in {Result.PAUSED, Result.FAILED, Result.STOPPED} or (
        state in {State.PAUSED, State.STOPPED, State.FAILED} and row.launch > 0
    )
    now = here and changes and row.goes_on  # it would by itself, in a moment
    idle = here and settled and changes
    moves = not settled and row.desired == Desired.RUNNING
    return Possible(
        start=idle,
        resume=now or (idle and cut),
        pause=here and ends and moves,
        cancel=here and ends and (state == State.PAUSED or moves),
    )


def shown(who: Principal, row: Load) -> Shown:
    state = state_of(row)
    settled = state in SETTLED
    changes, ends = may_change(who, row), may_end(who, row)
    can = possible(who, row)
    failed = services.failed_last(row) if settled and changes else 0
    copied = row.loaded_at is not None or bool(row.manifest)
    inside = selectors.sees_inside(who, row)
    return Shown(
        row=row,
        state=state,
        settled=settled,
        bar=bar_of(row),
        why=why_of(row),
        advice=advice_of(row),
        position=_position(row),
        wait=cache(partial(wait_of, who, row)),
        errors=[_shown_error(error) for error in row.errors] if inside else [],
        inside=inside,
        hidden=bool(row.errors) and not inside,
        verified=[(str(VERIFIED.get(way, way)), n) for way, n in row.verified.items()],
        dry_run=row.dry_run if row.task == Task.DRY_RUN and row.result else None,
        dry_words=dry_words(row.dry_run),
        may_start=can.start,
        may_resume=can.resume,
        may_pause=can.pause,
        may_cancel=can.cancel,
        may_retry=failed if can.start else 0,
        may_verify=can.start and copied,
        may_change=changes,
        may_end=row.desired != Desired.ABSENT and ends,
    )


def _shown_error(error: dict[str, str]) -> dict[str, str]:
    return {**error, "message": in_words(error.get("message", ""))}


def _position(row: Load) -> int | None:
    """Return its place in the line as it is now, not as it was when it was looked at."""
    queue = row.external_ref.get("queue")
    if queue:
        return int(queue.get("position", 1))
    if state_of(row) != State.WAITING or row.reason != Reason.QUEUED or row.asked_at is None:
        return None
    turn = concurrency.turn_of(row)
    return None if turn.is_now else turn.position


def dry_words(found: dict[str, Any] | None) -> str:
    """Return what a dry run counted, in one sentence."""
    if not found:
        return ""
    files = int(found.get("files", 0))
    said = ngettext(
        "%(n)s object, %(size)s would be copied.", "%(n)s objects, %(size)s would be copied.", files
    ) % {"n": f"{files:,}", "size": filesize(found.get("bytes", 0))}
    if found.get("seconds"):
        said += " " + _("It would take about %(time)s.") % {"time": duration(found["seconds"])}
    if skipped := int(found.get("skipped", 0)):
        said += " " + (
            ngettext("%(n)d object can't be copied.", "%(n)d objects can't be copied.", skipped)
            % {"n": skipped}
        )
    return said
