"""What the pages say of a piece of work of any kind: facts in words, ready for the templates."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Self

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from budgets.selectors import beyond
from clusters.models import Cluster
from common.clock import now
from common.templatetags.berth import cpus, duration, mib
from runtime import reasons
from runtime.protocol import Desired, Phase
from runtime.reasons import Fault
from work import fields as f
from work.reclaim import giving_back
from work.selectors import may_change, may_end, reads_private, share_candidates, shares_of
from work.services import extension_left
from work.services.time_limit import longest_words
from work.standard_fields import IN_ONE_LINE
from work.ui.pages import Fact, Pages, pages_of
from work.ui.timeline import is_far, timeline
from work.waits import turn_in_words, wait_of
from work.way_back import way_back
from work.why import Why

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import QuerySet

    from accounts.models import User
    from accounts.principal import Principal
    from volumes.models import Volume
    from work.models import Share
    from work.reclaim import GivesBack
    from work.ui.timeline import Line
    from work.waits import Wait
    from work.way_back import WayBack


@dataclass(frozen=True)
class Shown:
    """Everything the part of its page needs that changes by itself."""

    row: Any
    pages: Pages
    state: Any
    is_owner: bool
    reads_private: bool
    is_over: bool
    may_start: bool
    may_end: bool
    may_change: bool
    may_share: bool
    why: Why
    advice: str
    fault: str  # whose move it is, in words
    level: str  # of the note that tells why; "": nothing is to be told
    position: int | None
    wait: Callable[[], Wait | None]  # asked by the page that shows it
    gives_back: Callable[[], GivesBack | None]
    way_back: Callable[[], WayBack | None]
    lines: list[Line]
    took: timedelta | None
    extension_left: int | None

    @classmethod
    def of(cls, who: Principal, row: Any, **own: Any) -> Self:
        """``own`` are the fields of a kind that shows more."""
        pages = pages_of(row)
        state = pages.states.of(row)
        is_over = state in pages.states.over
        changes, ends = may_change(who, row), may_end(who, row)
        here = row.desired != Desired.ABSENT
        info = reasons.info(row.reason)
        queue = row.external_ref.get("queue") or {}
        whose = {
            Fault.USER: _("This is for you to solve."),
            Fault.PLATFORM: _("This was not your fault."),
            Fault.NOBODY: "",
        }
        return cls(
            row=row,
            pages=pages,
            state=state,
            is_owner=row.owner_id == who.user.pk,
            reads_private=reads_private(who, row),
            is_over=is_over,
            may_start=here and is_over and changes and not row.project.archived_at,
            may_end=here and ends,
            may_change=here and changes and not row.project.archived_at,
            may_share=here and changes and pages.kind.shared,
            why=why_of(row),
            advice=pages.states.advice(row),
            fault=whose[info.fault],
            level=_level(row, is_over=is_over, waits=bool(queue)),
            position=queue.get("position"),
            wait=cache(partial(wait_of, who, row)),
            gives_back=partial(giving_back, who.user, row),
            way_back=cache(partial(way_back, row)),
            lines=timeline(row, row.shown_phase, pages.ahead[is_far(row)], pages.step_words),
            took=took(row),
            extension_left=extension_left(row),
            **own,
        )

    @property
    def settled(self) -> bool:
        """Whether nothing will change by itself."""
        return self.is_over and bool(self.row.is_seen)

    @property
    def beyond_budget(self) -> str:
        """What is said of one that runs while GPU-hours are spent; a wait says it itself."""
        if not self.row.over_budget or self.row.phase not in {Phase.STARTING, Phase.RUNNING}:
            return ""
        return str(beyond(self.row.project, self.row.owner) or "")

    @property
    def longest_words(self) -> str:
        """Who bounds how long it runs."""
        return longest_words(self.row)

    @property
    def shares(self) -> QuerySet[Share]:
        """Who may open it besides its owner."""
        return shares_of(self.row)

    @property
    def candidates(self) -> QuerySet[User]:
        return share_candidates(self.row)

    @property
    def says_why(self) -> bool:
        """Whether the head tells what it waits for: no note does."""
        return not self.level and (not self.is_over or not self.row.is_seen)


def _level(row: Any, *, is_over: bool, waits: bool) -> str:
    """Return how loud the reason is told; the place in a queue is told in the head."""
    info = reasons.info(row.reason)
    if not row.is_seen or not row.reason:
        return ""
    if row.reason == reasons.Reason.FINISHED:  # the word of its state says it
        return ""
    if is_over:
        return "error" if row.phase == "failed" else "info"
    if waits and row.reason != reasons.Reason.DOES_NOT_FIT:
        return ""
    return "warning" if info.fault != Fault.NOBODY else ""


def took(row: Any) -> timedelta | None:
    """Return how long its latest start has run, or ran."""
    if row.started_at is None:
        return None
    return max(timedelta(0), (row.stopped_at or now()) - row.started_at)


def why_of(row: Any) -> Why:
    """Return why it is as it is, as it was changed last."""
    states = pages_of(row).states
    return states.why(row) if row.is_seen or states.early else Why(_("A moment, please."))


def reason_of(row: Any) -> str:
    """Return why it is as it is and when its turn comes, in one line; '': nothing to say."""
    if not row.is_seen and not pages_of(row).states.early:
        return why_of(row).text
    return f"{why_of(row).text} {turn_in_words(row)}".strip()


@dataclass(frozen=True)
class SeenVolume:
    volume: Volume
    read_only: bool


def volumes_of(row: Any) -> list[SeenVolume]:
    mounts = row.mounts.select_related("volume__project")
    return [SeenVolume(mount.volume, mount.read_only) for mount in mounts]


def facts(row: Any, *, private: bool) -> list[Fact]:
    """Return what it is, line by line, from its table; what says nothing is left out.

    ``private``: what its owner alone may read.
    """
    pages = pages_of(row)
    table = pages.kind.own.but("name", *(field.name for field in IN_ONE_LINE))
    found = [
        Fact(field.fact or field.label, text, code=_is_typed(field))
        for field in table
        if (private or not field.private)
        and (not field.quiet or field.says(field.read(row)))
        and (text := _text(field, row))
    ]
    return [*found, *pages.facts_of(row), *_given_back(row)]


def _given_back(row: Any) -> list[Fact]:
    """Return how often its GPUs were asked back, and how long it waited for others since."""
    told = row.external_ref.get("given_back") or {}
    if not told:
        return []
    waited = told["waited_s"] + (now().timestamp() - told["since"] if "since" in told else 0.0)
    said = {"n": told["times"], "waited": duration(timedelta(seconds=int(waited)))}
    text = ngettext("%(n)d time; waited %(waited)s", "%(n)d times; waited %(waited)s", said["n"])
    return [Fact(_("GPUs given back"), text % said)]


def _is_typed(field: f.Field) -> bool:
    return isinstance(field, f.Words) or (isinstance(field, f.Line) and bool(field.example))


def _text(field: f.Field, row: Any) -> str:  # noqa: PLR0911 - one per type
    value = field.read(row)
    if value in (None, 0, "", [], {}):
        return _("none") if isinstance(field, f.Minutes) else ""
    match field:
        case f.Minutes():
            return duration(timedelta(minutes=value))
        case f.Count(unit=f.Unit.GIB):
            return mib(value)
        case f.Count(unit=f.Unit.CORES):
            return cpus(value)
        case f.Choice():
            return str(dict(field.choices).get(value, value))
        case f.Flag():
            return _("yes")
        case f.Words():
            return shlex.join(value)
        case f.Environment():
            return ", ".join(sorted(value))  # names: the values may be secrets
        case f.Line(name="cluster"):
            return _cluster_label(value)
        case _:
            return str(value)


def _cluster_label(key: str) -> str:
    row = Cluster.objects.filter(key=key).first()
    return row.label if row is not None else key
