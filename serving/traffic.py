"""What was called, and by whom: sums of ``Calls``. A canary's calls are its endpoint's too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Q, Sum
from django.utils.translation import gettext as _

from accounts.models import User
from common.clock import now
from serving.gateway.counts import SUMS, Sums
from serving.latency import percentile
from serving.models import BatchPrediction, Calls, Endpoint, EndpointKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet

Series = Sequence[tuple[datetime, "Traffic"]]
LATELY = timedelta(minutes=5)  # what is said of an endpoint as of now
# Over how long a page looks back → in steps of how many minutes.
SPANS = {"hour": (60, 1), "day": (24 * 60, 15), "week": (7 * 24 * 60, 120), "month": (43_200, 480)}


@dataclass
class Traffic(Sums):
    """Sums of some minutes."""

    minutes: int = 0  # that these are of
    latest: datetime | None = None

    def add(self, told: dict[str, Any]) -> None:
        """Add a minute."""
        sums = {name: told[name] for name in (*SUMS, "histogram")}
        self.join(Traffic(**sums, latest=told["minute"]))

    def join(self, other: Sums) -> None:
        super().join(other)
        if isinstance(other, Traffic):
            self.latest = max(filter(None, (self.latest, other.latest)), default=None)

    @property
    def per_minute(self) -> float:
        return self.requests / self.minutes if self.minutes else 0.0

    @property
    def p50(self) -> float | None:
        return percentile(self.histogram, 50)

    @property
    def p99(self) -> float | None:
        return percentile(self.histogram, 99)

    @property
    def failed_share(self) -> float | None:
        """The part of its requests that the server failed; None without any."""
        return self.server_errors / self.requests if self.requests else None


@dataclass(frozen=True)
class Caller:
    """A key or a person; ``note`` recognises a key, or says that one is gone."""

    word: str
    name: str
    is_key: bool
    note: str = ""


def lately(rows: Iterable[Endpoint], *, apart: bool = False) -> dict[int, Traffic]:
    """Return what each was called in the last full minutes, by its number: one question for all.

    A canary counts for what it stands beside; ``apart``: only for itself.
    """
    minutes = round(LATELY.total_seconds() / 60)
    found = {row.pk: Traffic(minutes=minutes) for row in rows}
    until = _minute(now())
    told = _of(list(found)).filter(minute__gte=until - LATELY, minute__lt=until)
    for one in _read(told, "endpoint_id", "endpoint__canary_of_id"):
        first = one["endpoint__canary_of_id"]
        pk = one["endpoint_id"] if apart or first is None else first
        if pk in found:
            found[pk].add(one)
    return found


def requests_since(row: Endpoint, since: datetime) -> int:
    """Return how often it was called: added up by the database, for a page that is read often."""
    told = _of([row.pk]).filter(minute__gte=since).aggregate(n=Sum("requests"))
    return int(told["n"] or 0)


def series(row: Endpoint, span: str) -> list[tuple[datetime, Traffic]]:
    """Return what it was called in each step of a span, the oldest first; none is left out.

    The last one goes on: it has the minutes that are over.
    """
    minutes, step = SPANS[span]
    width = step * 60
    at = int(now().timestamp())
    last = at // width * width
    begins = range(last - minutes * 60 + width, last + width, width)
    found = {begin: Traffic(minutes=step) for begin in begins}
    found[last].minutes = (at - last) // 60
    since = datetime.fromtimestamp(begins[0], tz=UTC)
    for one in _read(_of([row.pk]).filter(minute__gte=since)):
        begin = int(one["minute"].timestamp()) // width * width
        if begin in found:
            found[begin].add(one)
    return [(datetime.fromtimestamp(begin, tz=UTC), found[begin]) for begin in begins]


def total(parts: Series) -> Traffic:
    found = Traffic(minutes=sum(part.minutes for _begin, part in parts))
    for _begin, part in parts:
        found.join(part)
    return found


def by_caller(row: Endpoint, span: str) -> list[tuple[Caller, Traffic]]:
    """Return who called it within a span, who called most first."""
    sums: dict[str, Traffic] = defaultdict(Traffic)
    for one in _read(_since(row, span)):
        sums[one["caller"]].add(one)
    named = _callers(sums)
    found: dict[Caller, Traffic] = defaultdict(lambda: Traffic(minutes=SPANS[span][0]))
    for word, part in sums.items():
        found[named[word]].join(part)
    return sorted(found.items(), key=lambda item: (-item[1].requests, item[0].word))


def by_hour(row: Endpoint, span: str) -> list[tuple[datetime, Caller, Traffic]]:
    """Return who called it in which hour, the latest first."""
    sums: dict[tuple[datetime, str], Traffic] = defaultdict(Traffic)
    for one in _read(_since(row, span)):
        sums[one["minute"].replace(minute=0, second=0, microsecond=0), one["caller"]].add(one)
    named = _callers(word for _hour, word in sums)
    found: dict[tuple[datetime, Caller], Traffic] = defaultdict(lambda: Traffic(minutes=60))
    for (hour, word), part in sums.items():
        found[hour, named[word]].join(part)
    lines = [(hour, caller, part) for (hour, caller), part in found.items()]
    return sorted(lines, key=lambda one: (-one[0].timestamp(), -one[2].requests, one[1].word))


def _of(endpoints: Sequence[int]) -> QuerySet[Calls]:
    return Calls.objects.filter(
        Q(endpoint__in=endpoints) | Q(endpoint__canary_of__in=endpoints)
    ).order_by()


def _since(row: Endpoint, span: str) -> QuerySet[Calls]:
    return _of([row.pk]).filter(minute__gte=now() - timedelta(minutes=SPANS[span][0]))


def _read(calls: QuerySet[Calls], *more: str) -> Iterable[dict[str, Any]]:
    return calls.values("minute", "caller", "histogram", *SUMS, *more).iterator(2000)


def _callers(words: Iterable[str]) -> dict[str, Caller]:
    """Return whom each word means: k and the number of a key, u and that of a person, b and that
    of a batch prediction.
    """
    wanted = set(words)
    numbers = {word: int(word[1:]) for word in wanted if word[1:].isdecimal()}
    keys = EndpointKey.objects.in_bulk([n for word, n in numbers.items() if word[0] == "k"])
    people = User.objects.in_bulk([n for word, n in numbers.items() if word[0] == "u"])
    batches = BatchPrediction.objects.select_related("job").in_bulk(
        [n for word, n in numbers.items() if word[0] == "b"]
    )
    found = {}
    for word in wanted:
        number, is_key = numbers.get(word, 0), word[:1] == "k"
        key, person = keys.get(number) if is_key else None, people.get(number)
        if key is not None and not key.prefix:  # made for the panel that tries it
            found[word] = Caller(
                f"tried-{key.created_by_id}", key.name, is_key=False, note=_("tried it here")
            )
        elif key is not None:
            found[word] = Caller(word, key.name, is_key=True, note=f"{key.prefix}…")
        elif word[0] == "b" and (batch := batches.get(number)) is not None:
            found[word] = Caller(word, batch.job.name, is_key=False, note=_("batch prediction"))
        elif word[0] == "u" and person is not None:
            found[word] = Caller(word, person.label, is_key=False)
        else:
            gone = _("A key that is gone") if is_key else _("Somebody who is gone")
            found[word] = Caller(word, gone, is_key=is_key)
    return found


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)
