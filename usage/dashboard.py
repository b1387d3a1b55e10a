"""What the pages of usage show of ratios and losses, ready to be drawn and to be read as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from django.utils import timezone
from django.utils.translation import gettext as _text
from django.utils.translation import gettext_lazy as _

from common.clock import now
from common.errors import wrong
from usage import ratio_history, ratios
from usage.ledger import CAUSES
from usage.ratio_history import SHOWN, History, Loss
from usage.ratios import By, Group, Ratio, Scope
from usage.words import CAUSES as WORDS

if TYPE_CHECKING:
    from django.utils.functional import Promise

    from usage.selectors import Range

SPANS = (7, 30, 90)  # days, one press each
MOST_LOSSES = 20
WIDTH, HEIGHT = 240, 48  # of a sparkline, in its own units
_HOUR_S = 3600

BY_WORDS: dict[By, Promise] = {
    By.PROJECT: _("Project"),
    By.PERSON: _("Person"),
    By.FLAVOR: _("Kind of GPU"),
    By.KIND: _("Kind of work"),
    By.CLUSTER: _("Cluster"),
    By.NODE: _("Node"),
}


@dataclass(frozen=True)
class Number:
    """One ratio: now, over the span, and its line. None: nobody knows."""

    word: str  # of the ratio, for ids
    now: float | None
    mean: float | None
    lines: list[str]  # points of SVG; one line for each stretch that is known

    @property
    def percent(self) -> float | None:
        return None if self.now is None else self.now * 100

    @property
    def mean_percent(self) -> float | None:
        return None if self.mean is None else self.mean * 100


@dataclass(frozen=True)
class Row:
    """One step as a row of the table behind the chart, in GPU-hours."""

    at: datetime
    supply: float
    requested: float
    attached: float
    utilisation: float | None  # percent
    of: list[float]  # of the shown groups, and what is left


@dataclass(frozen=True)
class Cause:
    name: Promise
    text: Promise
    hours: float
    share: float  # of all GPU time that is told of


@dataclass(frozen=True)
class LostRow:
    name: Promise
    owner: str
    hours: float
    cost: Decimal
    share: float  # of the greatest


@dataclass(frozen=True)
class Dashboard:
    by: By
    choices: list[tuple[By, Promise]]
    now: Ratio
    numbers: list[Number]
    history: History
    groups: list[Group]
    has_rest: bool
    rows: list[Row]
    causes: list[Cause]
    losses: list[LostRow]
    spans: list[tuple[int, str]]

    @property
    def by_hour(self) -> bool:
        return self.history.step < timedelta(days=1)

    @property
    def is_under_way(self) -> bool:
        """Whether the last step is not over: less is told of it than of the others."""
        return bool(self.rows) and self.rows[-1].at + self.history.step > now()

    @property
    def by_word(self) -> Promise:
        return BY_WORDS[self.by]

    @property
    def is_empty(self) -> bool:
        return not self.rows and not self.now.requested and not self.now.supply


def dashboard(
    params: Mapping[str, str], scope: Scope, span: Range, choices: tuple[By, ...]
) -> Dashboard:
    """Return all that a page shows; groups are the first of ``choices`` where none is asked for."""
    word = params.get("by") or choices[0]
    if word not in choices:
        raise wrong("by", _text("One of: %(words)s.") % {"words": ", ".join(choices)})
    by = By(word)
    found = ratio_history.history(scope, span, by, drawn=True)
    present, _groups = ratios.at_present(scope)
    shown, has_rest = found.shown, len(found.groups) > SHOWN
    whole = sum(found.causes.values())
    greatest = found.losses[0].gpu_hours if found.losses else 0.0
    today = timezone.localdate(now())
    return Dashboard(
        by=by,
        choices=[(one, BY_WORDS[one]) for one in choices],
        now=present,
        numbers=[
            _number("requested", present, found, "requested_ratio"),
            _number("attached", present, found, "attached_ratio"),
            _number("utilised", present, found, "utilisation"),
        ],
        history=found,
        groups=shown,
        has_rest=has_rest,
        rows=[_row(step, has_rest=has_rest) for step in found.steps],
        causes=[
            Cause(*WORDS[cause], found.causes[cause], found.causes[cause] / whole)
            for cause in CAUSES
            if found.causes[cause]
        ],
        losses=[_lost(loss, greatest) for loss in found.losses[:MOST_LOSSES]],
        spans=[(days, (today - timedelta(days=days - 1)).isoformat()) for days in SPANS],
    )


def _number(word: str, present: Ratio, found: History, name: str) -> Number:
    values = [getattr(step.ratio, name) for step in found.steps]
    return Number(word, getattr(present, name), getattr(found.total, name), _lines(values))


def _lines(values: list[float | None]) -> list[str]:
    """Return the points of a line from 0 to its highest, or 100 %; broken where nobody knows."""
    top = max([1.0, *(value for value in values if value is not None)])
    wide = WIDTH / max(1, len(values) - 1)
    lines: list[list[str]] = [[]]
    for n, value in enumerate(values):
        if value is None:
            lines.append([])
        else:
            y = HEIGHT - 1 - value / top * (HEIGHT - 2)
            lines[-1].append(f"{n * wide:.1f},{y:.1f}")
    # a single point is a short line
    whole = [line if len(line) > 1 else [*line, *line] for line in lines if line]
    return [" ".join(line) for line in whole]


def _row(step: ratio_history.Step, *, has_rest: bool) -> Row:
    ratio, of = step.ratio, [amount / _HOUR_S for amount in step.of]
    if has_rest:
        of.append(max(0.0, ratio.attached / _HOUR_S - sum(of)))
    percent = None if ratio.utilisation is None else ratio.utilisation * 100
    return Row(
        at=step.at,
        supply=ratio.supply / _HOUR_S,
        requested=ratio.requested / _HOUR_S,
        attached=ratio.attached / _HOUR_S,
        utilisation=percent,
        of=of,
    )


def _lost(loss: Loss, greatest: float) -> LostRow:
    owner = loss.name or loss.label
    return LostRow(
        WORDS[loss.cause][0], owner, loss.gpu_hours, loss.cost, loss.gpu_hours / greatest
    )
