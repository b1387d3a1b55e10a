"""Reading what a test printed, and comparing two of them; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.errors import wrong
from perftests.choices import Backend

if TYPE_CHECKING:
    from perftests.models import PerfTest

MOST_LINES = 64
TOLERANCE = 0.05  # what is nearer to its baseline is as good
MOST_VARIABLES = 20
_VARIABLE = re.compile(r"NCCL_[A-Z0-9_]{1,60}")
_HEAD = "# perftest "
_AFTER_COUNT = 2  # columns: size, count
_COLUMNS = range(7, 14)
_LEAST, _MOST = 1e-12, 1e15
_DIGITS = re.compile(r"[0-9]{1,18}")


def printed(text: str) -> tuple[str, list[dict[str, float]]]:
    """Return the backend that a log names, and the lines of its table."""
    backend = ""
    found: list[dict[str, float]] = []
    for line in text.splitlines():
        if line.startswith(_HEAD):
            backend = _backend(line.removeprefix(_HEAD)) or backend
        elif (told := _collective(line) or _scaling(line)) and len(found) < MOST_LINES:
            found.append(told)
    return backend, found


def _backend(text: str) -> str:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    name = told.get("backend") if isinstance(told, dict) else ""
    return name if name in Backend.values else ""


def _collective(line: str) -> dict[str, float] | None:
    """Return a line of nccl-tests: size, count, type, redop, root; then time, algbw, busbw, #wrong
    once or twice. Versions before 2.12 have no root, and some have no redop; what is N/A is passed.
    """
    words = line.split()
    numbers = len(words) in _COLUMNS and all(_DIGITS.fullmatch(word) for word in words[:2])
    if not numbers:
        return None
    after = words[_AFTER_COUNT:]
    while after and _number(after[0]) is None and after[0] != "N/A":
        after = after[1:]  # type and redop
    if len(after) % 4 == 1:
        after = after[1:]  # root
    for at in range(0, len(after) - 3, 4):
        time_us, algbw, busbw = (_number(word) for word in after[at : at + 3])
        if time_us is not None and algbw is not None and busbw is not None:
            errors = _number(after[at + 3]) or 0.0
            told = {"size": int(words[0]), "time_us": time_us, "algbw": algbw, "busbw": busbw}
            return {**told, "wrong": errors}
    return None


def _scaling(line: str) -> dict[str, float] | None:
    words = line.split()
    if len(words) != 5 or words[0] != "scaling":  # noqa: PLR2004 - columns
        return None
    numbers = [_number(word) for word in words[1:]]
    if any(number is None or number <= 0 for number in numbers):
        return None
    names = ("replicas", "ranks", "step_ms", "steps_per_s")
    return {name: number or 0.0 for name, number in zip(names, numbers, strict=True)}


def _number(word: str) -> float | None:
    """Return a number that is written in full, and that something measured can have.

    Python's own reads more than numbers.
    """
    if not re.fullmatch(r"[+-]?\d{1,30}(\.\d{0,30})?([eE][+-]?\d{1,3})?", word, re.ASCII):
        return None
    found = float(word)
    return found if found == 0 or _LEAST < found < _MOST else None


def require_variables(variables: Mapping[str, Any]) -> None:
    """Raise Invalid that names the one that is none of NCCL's."""
    if len(variables) > MOST_VARIABLES:
        raise wrong("variables", _("At most %(n)d variables.") % {"n": MOST_VARIABLES})
    for name, value in variables.items():
        good = _VARIABLE.fullmatch(name) and isinstance(value, str) and value.isprintable()
        if not good or len(value) > 200:  # noqa: PLR2004
            said = _("%(name)s: only variables of NCCL, such as NCCL_ALGO=Ring, go here.")
            raise wrong("variables", said % {"name": name[:80]})


@dataclass(frozen=True)
class Compared:
    """``change``: 0.1 is a tenth more than the baseline."""

    row: PerfTest
    baseline: PerfTest
    change: float
    is_same_nodes: bool

    @property
    def is_regression(self) -> bool:
        return self.change < -TOLERANCE

    @property
    def is_better(self) -> bool:
        return self.change > TOLERANCE

    @property
    def short(self) -> str:
        sign = "+" if self.change > 0 else "\N{MINUS SIGN}"
        return f"{sign}{self._percent}"

    @property
    def _percent(self) -> str:
        return f"{abs(self.change):.0%}".replace("%", "\N{NO-BREAK SPACE}%")

    @property
    def sentence(self) -> str:
        what = _("Efficiency") if self.row.is_scaling else "busbw"
        said = {
            "what": what,
            "percent": self._percent,
            "day": f"{localtime(self.baseline.created_at):%Y-%m-%d}",
            "where": self._where(),
        }
        if self.is_regression:
            return _("%(what)s is %(percent)s under the baseline of %(day)s %(where)s.") % said
        if self.is_better:
            return _("%(what)s is %(percent)s over the baseline of %(day)s %(where)s.") % said
        return _("%(what)s is as the baseline of %(day)s %(where)s.") % said

    def _where(self) -> str:
        n = len(self.row.nodes)
        if not self.is_same_nodes:
            return _("on other nodes")
        return ngettext("on the same node", "on the same %(n)d nodes", n) % {"n": n}


def compare(row: PerfTest, baseline: PerfTest) -> Compared | None:
    """Return how a test stands beside its baseline; None: nothing they both measured."""
    if row.is_scaling:
        mine, theirs = row.headline, baseline.headline
    else:
        by_size = {line["size"]: line["busbw"] for line in baseline.lines}
        both = [line for line in row.lines if line["size"] in by_size]
        if not both:
            return None
        mine, theirs = both[-1]["busbw"], by_size[both[-1]["size"]]
    if mine is None or not theirs:
        return None
    same = bool(row.nodes) and sorted(row.nodes) == sorted(baseline.nodes)
    return Compared(row, baseline, mine / theirs - 1, same)


def spread_words(spread: Mapping[str, Sequence[str]], labels: Mapping[str, Any]) -> str:
    """Return in how many parts of each level it ran, the widest first."""
    return ", ".join(
        f"{len(names)}\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN} {labels.get(level, level)}"
        for level, names in spread.items()
    )
