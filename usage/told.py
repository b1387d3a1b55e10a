"""What a program tells of itself in its file of events: read with limits, kept in little. Pure.

A line is a JSON object with the keys that ``ml-goodput-measurement`` writes, times in seconds
since 1970. Of any number of lines a few hundred numbers are kept. Nothing that is told moves the
wall time: what lies outside of the launch, or is no number, is counted and left out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

LINE = 4096  # bytes; a longer one is not an event
# What is kept, all of it no more than 64 KiB: marks of one start, and of all of them.
_SPANS, _MARKS, _ALL_MARKS, _STARTS, _SLOWEST = 300, 256, 600, 100, 10
_WIDTH = 60_000  # within which spans of one cause are first drawn together
_BINS = 8  # of step times, for each doubling
_REASONS, _REASON = 5, 200  # of what failed: how many, and characters of one
_AGAIN = 10_000  # within which how far it is may be told again of one step
_SKEW = 5000  # that another machine's clock may be before ours, or behind
_BEYOND = 1e12  # seconds that no clock shows
OUTLIER = 3.0  # so many times as long as usual
# What stands before ``_start_time`` and ``_end_time`` → what that time is.
_CAUSES = {
    "tpu_init": "accelerator",
    "accelerator_init": "accelerator",
    "training_prep": "prepare",
    "data_loading": "data",
    "checkpoint_save": "checkpoint",
    "checkpoint_restore": "restore",
    "custom_badput_event": "other",
}
_KEYS = {
    "step_start_time": ("step", False),
    "job_start_time": ("job", False),
    "job_end_time": ("job", True),
    **{f"{name}_start_time": (cause, False) for name, cause in _CAUSES.items()},
    **{f"{name}_end_time": (cause, True) for name, cause in _CAUSES.items()},
}
# As Orbax logs it: the kind of event → cause, and the keys of its begin and its length.
_LOGGED = {
    "save": ("checkpoint", "checkpoint_manager_blocking"),
    "restore": ("restore", "checkpoint_manager"),
}
_EVENT = re.compile(rb'\A\s*\{.*"(?:step_count|event_type|[a-z_]{1,40}_(?:start|end)_time)"')


class Start(NamedTuple):
    """One start of the program: its first word, and some of its steps with their begin."""

    begin: int
    steps: Sequence[Sequence[int]]  # number, milliseconds; the first and the last are among them

    def began(self, step: int) -> int | None:
        """Return when it began a step, between two that are known evenly; None: it did not."""
        before = None
        for number, at in self.steps:
            if number >= step:
                if before is None or number == step:
                    return at
                share = (step - before[0]) / (number - before[0])
                return round(before[1] + share * (at - before[1]))
            before = (number, at)
        return None


class Told(NamedTuple):
    """What goodput takes of it: spans (begin, end, cause), and starts in their order."""

    spans: Sequence[Sequence[Any]] = ()
    starts: Sequence[Start] = ()


@dataclass(frozen=True)
class Steps:
    """How long steps took, in milliseconds. ``slowest``: those that stand out, step and length."""

    count: int
    mean: float
    usual: float
    slowest: Sequence[tuple[int, int]]


def feed(kept: Mapping[str, Any], data: bytes, *, begin: int, until: int) -> dict[str, Any]:
    """Return what is kept once these whole lines are read. ``begin``, ``until``: of the launch."""
    state: dict[str, Any] = json.loads(json.dumps({**_EMPTY, **kept}))  # of its own
    for line in data.splitlines():
        if len(line) > LINE or not _EVENT.match(line):
            continue
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict) or not _take(state, said, begin, until):
            state["unused"] += 1
    return state


def is_news(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether something was told between the two."""
    return any(before.get(name, 0) != after.get(name, 0) for name in ("at", "count"))


def read_anew(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept where the same lines come once more: what is known is passed over."""
    return {**_EMPTY, **kept, "known": kept.get("at", 0)}


_EMPTY: Mapping[str, Any] = {
    "at": 0,  # of the newest event
    "known": 0,  # up to when events are passed over
    "open": {},  # cause → begin
    "spans": [],
    "width": 0,
    "starts": [],  # [begin, stride, [[step, at], …], [last step, at, milliseconds of spans in it]]
    "count": 0,
    "sum": 0,
    "bins": {},
    "slow": [],
    "behind": None,  # the step before, which began earlier than what was told until then
    "unused": 0,
    "progress": None,  # how far it says that it is: [share, step, what failed, why]
}


def _take(state: dict[str, Any], said: Mapping[str, Any], begin: int, until: int) -> bool:
    """Take one event; False: it can't be used."""

    def length(name: str) -> float:
        value = said.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return math.nan
        return float(value) * 1000 if abs(value) < _BEYOND else math.nan

    def moment(name: str) -> int | None:
        at = length(name)
        # One that is ahead stays so: then it is right how long steps took. Parts end with a run.
        return max(round(at), begin) if begin - _SKEW <= at <= until + _SKEW else None

    if (logged := _LOGGED.get(str(said.get("event_type")))) is not None:
        cause, key = logged
        at, took = moment(f"{key}_start_time"), length(f"{key}_duration_secs")
        whole = at is not None and 0 <= took <= until + _SKEW - at
        return whole and _span(state, int(at or 0), int(at or 0) + round(took), cause)
    name = next((key for key in said if key in _KEYS), "")
    what, ends = _KEYS.get(name, ("", False))
    at = moment(name)
    if at is None:
        return False
    if what == "step":
        step = said.get("step_count")
        return _is_count(step) and _step(state, int(step or 0), at, said)
    if what == "job":
        return _job(state, at, begins=not ends)
    if not ends:
        if _is_new(state, at):
            state["open"][what] = at
        return True
    opened = state["open"].pop(what, None)
    return opened is not None and _span(state, opened, at, what)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53


def _is_new(state: dict[str, Any], at: int) -> bool:
    """Whether it was not read before; the program has said its first word by then."""
    if at <= state["known"]:
        return False
    state["at"] = max(state["at"], at)
    if not state["starts"]:
        state["starts"].append([at, 1, [], None])
    return True


def _job(state: dict[str, Any], at: int, *, begins: bool) -> bool:
    if not _is_new(state, at):
        return True
    start = state["starts"][-1]
    if begins:
        state["open"] = {}
        if start[2] or start[0] < at:
            _begin(state, at)
    elif start[3] is not None and at >= start[3][1]:
        _done(state, start[3], at)
        start[3] = None
    return True


def _begin(state: dict[str, Any], at: int) -> None:
    """Another start of the program; of very many, those in the middle are not kept."""
    state["starts"].append([at, 1, [], None])
    if len(state["starts"]) > _STARTS:
        del state["starts"][_STARTS // 2]


def _step(state: dict[str, Any], step: int, at: int, said: Mapping[str, Any]) -> bool:
    since = at - state["at"]
    if not _is_new(state, at):
        return True
    _begin_number, _stride, marks, last = state["starts"][-1]
    newest = last or (marks[-1] if marks else None)
    is_again = newest is not None and step == newest[0] and since <= _AGAIN
    if _progress(state, step, said) and is_again:
        return True  # only how far it is, told again of the same step
    if newest is not None and at < newest[1]:
        before, state["behind"] = state["behind"], [step, at]
        if before is None or not (before[0] < step and before[1] <= at and newest[0] < step):
            return False
        start = state["starts"][-1]  # two of them: what was before them had been ahead
        marks = start[2] = [mark for mark in marks if mark[1] <= before[1]]
        start[3] = last = [*before, 0]
    elif newest is not None and step <= newest[0]:  # begun anew, without a word
        _begin(state, at)
        marks, last = state["starts"][-1][2], None
    if last is not None:
        _done(state, last, at)
    state["behind"], start = None, state["starts"][-1]
    start[3] = [step, at, 0]
    if not marks or step - marks[0][0] >= start[1] * len(marks):
        marks.append([step, at])
    if len(marks) >= _MARKS:
        _thin(start)
    starts = state["starts"]
    while sum(len(one[2]) for one in starts) > _ALL_MARKS:
        _thin(max(starts, key=lambda one: len(one[2])))
    return True


def _progress(state: dict[str, Any], step: int, said: Mapping[str, Any]) -> bool:
    """Keep how far it says that it is; False: it says nothing of that."""
    share, failed = said.get("progress"), said.get("failed", 0)
    if not isinstance(share, int | float) or not 0 <= share <= 1 or not _is_count(failed):
        return False
    why = said.get("failed_because")
    rows = [one for one in why[:_REASONS] if isinstance(one, list)] if isinstance(why, list) else []
    reasons = [
        ["".join(c if c.isprintable() else "?" for c in reason[:_REASON]), times]
        for reason, times in (one for one in rows if len(one) == 2)  # noqa: PLR2004 - a pair
        if isinstance(reason, str) and _is_count(times)
    ]
    state["progress"] = [float(share), step, failed, reasons]
    return True


def _thin(start: list[Any]) -> None:
    """Keep every second of its marks."""
    start[1], start[2] = start[1] * 2, start[2][::2]


def _done(state: dict[str, Any], last: Sequence[int], at: int) -> None:
    """Count the step that ended: what was told apart in it is not its own time."""
    length = max(0, at - last[1] - last[2])
    state["count"] += 1
    state["sum"] += length
    place = str(round(_BINS * math.log2(max(1, length))))
    state["bins"][place] = state["bins"].get(place, 0) + 1
    state["slow"] = sorted([*state["slow"], [length, last[0]]], reverse=True)[:_SLOWEST]


def _span(state: dict[str, Any], begin: int, end: int, cause: str) -> bool:
    if end < begin or not _is_new(state, end):
        return end >= begin
    last = state["starts"][-1][3]
    if last is not None:
        last[2] += max(0, end - max(begin, last[1]))
    spans = state["spans"]
    spans.append([begin, end, cause])
    if len(spans) > _SPANS:  # very many: those of a while stand together at its begin
        state["width"] = state["width"] or _WIDTH
        spans = _together(spans, state["width"])
        while len(spans) > _SPANS // 2:
            state["width"] *= 2
            spans = _together(spans, state["width"])
        state["spans"] = spans
    return True


def _together(spans: Iterable[Sequence[Any]], width: int) -> list[list[Any]]:
    found: dict[tuple[int, str], list[Any]] = {}
    for begin, end, cause in spans:
        kept = found.setdefault((begin // width, cause), [begin, begin, cause])
        kept[0] = min(kept[0], begin)
        kept[1] += end - begin
    for kept in found.values():
        kept[1] = max(kept[0], kept[1])
    return sorted(found.values())


def told_of(*kept: Mapping[str, Any]) -> Told:
    """Return what several launches told, in their order."""
    spans = [span for state in kept for span in state.get("spans", ())]
    starts = []
    for state in kept:
        for begin, _stride, marks, last in state.get("starts", ()):
            steps = [*marks, last[:2]] if last and (not marks or last[0] > marks[-1][0]) else marks
            starts.append(Start(begin, steps))
    return Told(spans, starts)


def steps_of(*kept: Mapping[str, Any]) -> Steps | None:
    """Return how long steps took; None: none is told that ended."""
    count = sum(state.get("count", 0) for state in kept)
    if not count:
        return None
    bins: dict[int, int] = {}
    for state in kept:
        for place, number in state.get("bins", {}).items():
            bins[int(place)] = bins.get(int(place), 0) + number
    left, usual = count / 2, 0.0
    for place in sorted(bins):
        left -= bins[place]
        if left <= 0:
            usual = 2 ** (place / _BINS)
            break
    slow = sorted((one for state in kept for one in state.get("slow", ())), reverse=True)
    outliers = [(step, length) for length, step in slow if length > OUTLIER * usual]
    mean = sum(state.get("sum", 0) for state in kept) / count
    return Steps(count, mean, usual, outliers[:_SLOWEST])
