"""A day of 200 people who hold a GPU each, with and without the contract; and who was wronged.

Made up and seeded, no clock and no database: minutes of figures as roll-ups tell them, judged by
the product's own functions each minute. Some train by kernels, some by scripts in a terminal whose
GPU rests for up to half the rule's time, some load data, some wait in silent kernels; figures go
missing now and then, and once for twenty minutes. In the evening most leave everything running.

Idle-held is what nobody uses and no program of theirs uses. False is a workspace that is ended
while a program of its owner runs in it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from benchmarks.lib import Result, sized
from parking.judgement import Course, Do, Notice, Rule, Signs, Span, due, follow, judge

PEOPLE = 200
DAYS = sized(10, 1)
SEED = 24
MINUTES = 24 * 60
RULE = Rule(minutes=40, notice=10, least=10, act="park", extension=60, extensions=2)
SLOW = replace(RULE, minutes=75, notice=15, least=15)  # as a new policy is
MORNING = datetime(2026, 3, 2, 9, tzinfo=UTC)
_MINUTE = timedelta(minutes=1)
_EXTENDS = 0.9  # of those who sit there when they are warned
_UNKNOWN, _OUTAGE = 0.01, range(300, 320)


class Moment(NamedTuple):
    """One minute. ``program``: something of theirs runs; ``person``: they sit there."""

    gpu: float
    cpu: float
    kernels: int
    person: bool
    program: bool


REST = Moment(0.0, 8.0, 0, person=False, program=False)


def day(dice: random.Random) -> list[Moment]:
    """Return one person's minutes, from nine in the morning until the next."""
    course: list[Moment] = []
    leaves = dice.randint(7 * 60, 10 * 60)
    lunch = dice.randint(170, 240)
    while len(course) < leaves:
        if lunch <= len(course) < lunch + 60:
            course += [REST] * dice.randint(35, 70)
            lunch = MINUTES
            continue
        for _ in range(dice.randint(5, 35)):  # they edit, and run a cell now and then
            course.append(Moment(0.0, 20.0, 0, person=True, program=False))
        course += _program(dice, with_them=dice.random() < 0.5)
    if dice.random() < 0.4:  # one more for the night
        course += _program(dice, with_them=False, long=True)
    course += [REST] * max(0, MINUTES - len(course))
    return course[:MINUTES]


def _program(dice: random.Random, *, with_them: bool, long: bool = False) -> Iterator[Moment]:
    """Yield a run of something; ``with_them``: its owner sits there meanwhile."""
    of, length = dice.random(), dice.randint(20, 90) * (5 if long else 1)
    for minute in range(length):
        if of < 0.4:  # a kernel trains
            figures = (dice.uniform(40, 99), 900.0, 1)
        elif of < 0.6:  # a script in a terminal: bursts, and rests without a sign
            rest = minute % 25 >= 6 and minute < length - 2
            figures = (0.0, 12.0, 0) if rest else (dice.uniform(30, 90), 700.0, 0)
        elif of < 0.8:  # data is loaded
            figures = (0.0, dice.uniform(300, 1500), 0)
        else:  # a kernel waits and prints nothing
            figures = (0.0, 10.0, 1)
        yield Moment(*figures, person=with_them and dice.random() < 0.6, program=True)


@dataclass
class Tally:
    """Minutes of GPUs that were held idle; of runs, how many there were and were ended."""

    idle: int = 0
    ended: int = 0
    wronged: int = 0
    runs: int = 0


def hold(course: list[Moment], dice: random.Random, rule: Rule | None) -> Tally:
    """Go through a day; who finds it parked when they come back resumes it at once."""
    tally, quiet, notice = Tally(), None, Notice()
    used: datetime | None = None
    held, ready, late = True, MORNING, deque[Span]()
    for number, now in enumerate(course):
        at = MORNING + number * _MINUTE
        tally.runs += now.program and not course[number - 1].program
        if not held:
            if not (now.person or now.program):
                continue
            held, ready, quiet, notice = True, at, None, Notice()
        tally.idle += not (now.person or now.program)
        if rule is None:
            continue
        used = at if now.person else used
        missing = number in _OUTAGE or dice.random() < _UNKNOWN
        late.append(Span(at, _MINUTE, None if missing else now.gpu, None if missing else now.cpu))
        spans = [late.popleft()] if len(late) > 1 else []  # roll-ups come a minute late
        followed: Course = follow(rule, spans, quiet, gpus=1)
        quiet = followed.quiet
        signs = Signs(ready, followed, now.kernels, answered=True, used_at=used)
        verdict = judge(signs, at + _MINUTE)
        if verdict.since is None:
            notice = Notice()
            continue
        found = due(rule, verdict.since, notice, at + _MINUTE)
        if found.do == Do.WARN:
            notice = replace(notice, warned_at=at + _MINUTE)
            if now.person and dice.random() < _EXTENDS:
                notice = Notice(None, at + timedelta(minutes=rule.extension))
        elif found.do == Do.ACT and not missing and now.gpu < rule.gpu_below:
            tally.ended += 1
            tally.wronged += now.program
            held, quiet, late = False, None, deque()
    return tally


def run() -> list[Result]:
    """Return idle-held hours with the contract against those without, and who was wronged."""
    with_it, slow, without, share = [], [], [], []
    for number in range(DAYS):
        dice = random.Random(SEED + number)
        courses = [day(dice) for _ in range(PEOPLE)]
        ours = [hold(one, dice, RULE) for one in courses]
        with_it.append(sum(one.idle for one in ours) / 60)
        slow.append(sum(hold(one, dice, SLOW).idle for one in courses) / 60)
        without.append(sum(hold(one, dice, None).idle for one in courses) / 60)
        share.append(100 * sum(one.wronged for one in ours) / sum(one.runs for one in ours))
    note = f"{PEOPLE} people, {DAYS} days, seed {SEED}, made up; {RULE.minutes} min with the notice"
    peer = "the same days without a policy"
    return [
        Result("idle day, idle-held GPU-hours", "h", with_it, without, peer, 0.1, 0.2, note=note),
        Result(
            "idle day, idle-held GPU-hours, as a new policy is",
            "h",
            slow,
            without,
            peer,
            note=f"{SLOW.minutes} min with the notice",
        ),
        Result("idle day, programs that were ended", "%", share, [], "", 0.1, 0.5, note=note),
    ]


if __name__ == "__main__":
    for result in run():
        print(result.line())
