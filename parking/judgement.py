"""Whether work is idle, since when, and what follows. Pure: nothing here asks anything.

Three answers, never two: idle since a moment, in use, or not known. What is not known is never
idle, and a time of which nobody knows ends a stretch of idleness: missing data gives no GPU back.
The live duty and the dry run use the same functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import NamedTuple

MINUTE = timedelta(minutes=1)
GAP = timedelta(minutes=3)  # the longest time of which nothing is known that ends no stretch
LATE = timedelta(minutes=5)  # older figures say nothing of now; roll-ups are a little late
_DAYS_AHEAD = 31


@dataclass(frozen=True)
class Hours:
    """The hours of the week in which idle time counts. ``weekdays``: 1 is Monday."""

    weekdays: str = "1234567"
    first: int = 0
    last: int = 24
    zone: tzinfo = UTC

    @property
    def is_always(self) -> bool:
        return (self.first, self.last) == (0, 24) and len(set(self.weekdays)) == 7  # noqa: PLR2004

    def windows(self, since: datetime, days: int) -> Iterable[tuple[datetime, datetime]]:
        """Yield the windows from the day of ``since`` on."""
        local = since.astimezone(self.zone)
        for number in range(days + 1):
            day = local.date() + timedelta(days=number)
            if str(day.isoweekday()) in self.weekdays:
                midnight = datetime(day.year, day.month, day.day, tzinfo=self.zone)
                yield midnight + timedelta(hours=self.first), midnight + timedelta(hours=self.last)


ALWAYS = Hours()


@dataclass(frozen=True)
class Rule:
    """What counts as idle, and what follows.

    ``minutes``: idle for so long it is acted upon. Its owner is told ``notice`` minutes before,
    and has ``least`` minutes at the very least. Thresholds are those below which a figure is
    quiet; None: the figure is not asked.
    """

    minutes: int
    notice: int
    least: int
    act: str
    gpu_below: float = 5.0  # percent
    cpu_below: int | None = 50  # thousandths of a CPU
    memory_below: int | None = None  # MiB of the GPUs
    network_below: float | None = None  # bytes a second, both ways together
    hours: Hours = ALWAYS
    extension: int = 0  # minutes of one extension; 0: there is none
    extensions: int = 0  # so many need no reason


class Span(NamedTuple):
    """What was measured in one span: the highest of each figure; None: it was not told."""

    at: datetime
    length: timedelta
    gpu: float | None
    cpu: float | None
    memory: float | None = None
    network: float | None = None

    @property
    def end(self) -> datetime:
        return self.at + self.length


class Because(StrEnum):
    """Why something is in use, or why nobody knows whether it is."""

    STARTING = "starting"
    KERNEL = "kernel"
    USED = "used"  # somebody is at it: an answer of a kernel, a terminal, SSH, a transfer
    GPU = "gpu"
    CPU = "cpu"
    MEMORY = "memory"
    NETWORK = "network"
    NO_KERNELS = "no-kernels"  # its server does not say what its kernels do
    NO_FIGURES = "no-figures"  # its processor or GPUs are not measured


UNKNOWN = frozenset({Because.STARTING, Because.NO_KERNELS, Because.NO_FIGURES})


def disturbed(rule: Rule, span: Span, *, gpus: int) -> Because | None:
    """Return what a span shows that is not quiet; NO_FIGURES: it can't be said; None: it is quiet.

    Network counts where it is measured. A figure that shows use does so, whatever else is missing.
    """
    asked = (
        (span.gpu, rule.gpu_below if gpus else None, Because.GPU),
        (span.cpu, rule.cpu_below, Because.CPU),
        (span.memory, rule.memory_below if gpus else None, Because.MEMORY),
        (span.network, rule.network_below, Because.NETWORK),
    )
    for value, below, word in asked:
        if value is not None and below is not None and value >= below:
            return word
    for value, below, word in asked:
        told = value is not None and value >= 0  # not a negative one, and not NaN
        if below is not None and not told and word != Because.NETWORK:
            return Because.NO_FIGURES
    return None


class Quiet(NamedTuple):
    """A time in which every figure was quiet, without a gap."""

    since: datetime
    until: datetime


class Course(NamedTuple):
    """``quiet``: what the last spans are part of; ``because``: what ended it last."""

    quiet: Quiet | None
    because: Because | None = None


def follow(rule: Rule, spans: Iterable[Span], before: Quiet | None = None, *, gpus: int) -> Course:
    """Go through spans in their order. ``before``: what those before them came to."""
    quiet: Quiet | None = before
    because: Because | None = None
    for span in spans:
        if quiet is not None and span.end <= quiet.until:
            continue  # it was counted
        found = disturbed(rule, span, gpus=gpus)
        if found == Because.NO_FIGURES:
            because = found  # the gap grows; what comes after it is measured against the gap
        elif found is not None:
            quiet, because = None, found
        elif quiet is None or span.at - quiet.until > GAP:
            quiet, because = Quiet(span.at, span.end), None
        else:
            quiet, because = Quiet(quiet.since, span.end), None
    return Course(quiet, because)


@dataclass(frozen=True)
class Signs:
    """What is known of one piece of work at a moment.

    ``kernels`` None: there is no server in it that could be asked. ``answered``: that server told
    of its kernels lately. ``used_at``: the last sign of somebody at it.
    """

    ready_at: datetime | None
    course: Course
    kernels: int | None = None  # that are busy
    answered: bool = False
    used_at: datetime | None = None


@dataclass(frozen=True)
class Verdict:
    """``since``: idle since then; None: in use, or not known, and ``because`` of what."""

    since: datetime | None = None
    because: Because | None = None

    @property
    def is_known(self) -> bool:
        return self.because not in UNKNOWN


def judge(signs: Signs, at: datetime) -> Verdict:
    """Return whether work is idle at a moment."""
    quiet = signs.course.quiet
    because: Because | None = None
    if signs.ready_at is None:
        because = Because.STARTING
    elif signs.kernels and signs.answered:
        because = Because.KERNEL
    elif signs.used_at is not None and at - signs.used_at < MINUTE:
        because = Because.USED
    elif signs.kernels is not None and not signs.answered:
        because = Because.NO_KERNELS
    elif quiet is None:
        because = signs.course.because or Because.NO_FIGURES
    elif not -GAP <= at - quiet.until <= LATE:  # also of a clock that went back
        because = Because.NO_FIGURES
    if because is not None or quiet is None:
        return Verdict(because=because)
    since = max(t for t in (quiet.since, signs.used_at, signs.ready_at) if t is not None)
    return Verdict(since=since) if since <= at else Verdict(because=Because.USED)


def reached(since: datetime, minutes: int, hours: Hours = ALWAYS) -> datetime | None:
    """Return when so many minutes that count have passed; None: not within a month."""
    left = timedelta(minutes=minutes)
    if hours.is_always:
        return since + left
    for begin, end in hours.windows(since, _DAYS_AHEAD):
        start = max(begin.astimezone(UTC), since)
        length = end.astimezone(UTC) - start
        if length <= timedelta():
            continue
        if length >= left:
            return start + left
        left -= length
    return None


class Do(StrEnum):
    """What is due now."""

    WAIT = "wait"
    WARN = "warn"
    ACT = "act"


@dataclass(frozen=True)
class Notice:
    """What an owner was told in this stretch, and by how much they put it off."""

    warned_at: datetime | None = None
    extended_until: datetime | None = None


class Next(NamedTuple):
    """``at``: when it is acted upon as things are; None: never, as the hours are."""

    do: Do
    at: datetime | None


def due(rule: Rule, since: datetime, notice: Notice, at: datetime) -> Next:
    """Return what follows for work that is idle since a moment. Nobody is acted upon unwarned."""
    end = reached(since, rule.minutes, rule.hours)
    if end is None:
        return Next(Do.WAIT, None)
    ahead = timedelta(minutes=rule.notice)
    if notice.extended_until is not None and notice.extended_until >= end:
        end = notice.extended_until
        ahead = min(ahead, timedelta(minutes=rule.extension) / 2)
    least = timedelta(minutes=rule.least)
    if notice.warned_at is None:
        if at < end - ahead:
            return Next(Do.WAIT, end)
        return Next(Do.WARN, max(end, at + least))
    end = max(end, notice.warned_at + least)
    return Next(Do.ACT if at >= end else Do.WAIT, end)
