"""What a gateway counted and what it has now, as rows."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction
from django.db.models import Sum

from common.clock import now
from runtime.models import Lease
from serving.gateway.counts import SUMS, Count, Slice
from serving.models import Calls, Endpoint, EndpointKey, Pressure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.db.models import QuerySet

    from serving.gateway.table import RoutingTable

KEPT_MINUTES = 3
MOST_UNWRITTEN = 100_000  # of minutes while the database is away; the oldest are given up
GATEWAY = "gateway:"  # and its name: the lease of one
LIVES_S = 30.0  # without a word
FORGOTTEN = timedelta(hours=1)  # since the last one
KNOWN_S = 3600.0  # whose a word was, after it has gone
TELLS_WITHIN_S = 10.0  # what it counted; whom somebody holds in that very moment is written next
AGAIN_S = 5.0  # what did not change is said again, so that it isn't taken for a gateway that ended
Key = tuple[int, int, str]  # begin of a minute, row, caller


class Tallies:
    """Writes the rows of one gateway; ``name``: its own, another than before its last start."""

    def __init__(self, name: str) -> None:
        self.name = name
        # Of all tables of the last hour, and when one last had it: callers by word, and uids of
        # first rows by uid of their endpoint.
        self._callers: dict[str, tuple[str, float]] = {}
        self._mains: dict[str, tuple[str, float]] = {}
        self._minutes: dict[Key, Count] = {}
        self._unwritten: dict[Key, float] = {}  # since when; the clock of this process
        self._pressures: dict[int, tuple[int, int]] = {}
        self._said_at = 0.0

    def know(self, table: RoutingTable) -> None:
        """Keep whose words these are: a stream that is cut off is told after its key has gone."""
        at = time.monotonic()
        self._callers |= {one.word: (one.caller, at) for one in table.principals.values()}
        self._mains |= {one.uid: (one.main.uid, at) for one in table.endpoints}
        for known in (self._callers, self._mains):
            gone = [one for one, (_, seen) in known.items() if at - seen > KNOWN_S]
            for one in gone:
                del known[one]

    def write_calls(self, counted: Mapping[Slice, Count], *, waits: bool = False) -> None:
        """Add what was counted to its minutes. A row holds what this gateway counted in it.

        An endpoint that somebody changes just now is written the next time, or waited for
        (``waits``): who holds some and waits for another might be waited for in turn.
        """
        at = time.monotonic()
        for part, count in counted.items():
            row = part.row or self._mains.get(part.endpoint, ("",))[0]
            caller = self._callers.get(part.word, ("",))[0]
            if row and caller:
                key = part.minute, int(row), caller
                minute = self._minutes.setdefault(key, Count())
                minute.join(count)
                minute.latest = max(minute.latest, count.latest)
                self._unwritten.setdefault(key, at)
        self._unwritten = dict(sorted(self._unwritten.items())[-MOST_UNWRITTEN:])
        newest = max((minute for minute, _row, _caller in self._minutes), default=0)
        self._minutes = {
            key: count
            for key, count in self._minutes.items()
            if key[0] > newest - 60 * KEPT_MINUTES or key in self._unwritten
        }
        if self._unwritten:  # also what the database had no answer to before
            changed = {key: self._minutes[key] for key in self._unwritten}
            later = self._write(changed, waits=waits)
            self._unwritten = {k: since for k, since in self._unwritten.items() if k[1] in later}

    @transaction.atomic
    def _write(self, changed: Mapping[Key, Count], *, waits: bool) -> set[int]:
        """Write it, and return the endpoints that somebody else holds."""
        asked = {row for _minute, row, _caller in changed}
        wanted = Endpoint.objects.filter(pk__in=asked)
        # no_key: another gateway that writes its own of this endpoint refers to it, no more
        held: Any = {"of": ("self",), "skip_locked": not waits, "no_key": True}
        free = wanted.select_for_update(**held).order_by("pk")
        # A column of each of its two tables: of which none is read, none is locked.
        there = {row.pk: row for row in free.only("uid", "called_at")}
        later: set[int] = set()
        if len(there) < len(asked):
            later = set(wanted.values_list("pk", flat=True)) - there.keys()
        rows = [
            Calls(
                endpoint_id=row,
                minute=datetime.fromtimestamp(minute, UTC),
                gateway=self.name,
                caller=caller,
                histogram={str(bucket): n for bucket, n in sorted(count.histogram.items())},
                **{name: getattr(count, name) for name in SUMS},
            )
            for (minute, row, caller), count in changed.items()
            if row in there
        ]
        if not rows:
            return later
        Calls.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["endpoint", "minute", "gateway", "caller"],
            update_fields=[*SUMS, "histogram"],
        )
        keys = {
            f"k{key.pk}": key
            for key in EndpointKey.objects.filter(
                pk__in={int(one.caller[1:]) for one in rows if one.caller.startswith("k")}
            ).only("last_used_at")
        }
        for (_minute, pk, caller), count in changed.items():
            at = datetime.fromtimestamp(count.latest, UTC)
            if (row := there.get(pk)) is not None:
                row.called_at = max(row.called_at or at, at)
            if (key := keys.get(caller)) is not None:
                key.last_used_at = max(key.last_used_at or at, at)
        Endpoint.objects.bulk_update(there.values(), ["called_at"])
        EndpointKey.objects.bulk_update(keys.values(), ["last_used_at"])
        return later

    def write_pressures(
        self, answering: Mapping[str, int], waiting: Mapping[str, int], *, moment: float
    ) -> None:
        """Say what is answered and what waits now, where that is news or was said long ago."""
        told = {
            int(uid): (answering.get(uid, 0), waiting.get(uid, 0)) for uid in {*answering, *waiting}
        }
        told = {pk: both for pk, both in told.items() if any(both)}
        ended = dict.fromkeys(self._pressures.keys() - told.keys(), (0, 0))
        is_all = moment - self._said_at >= AGAIN_S
        said = {pk: both for pk, both in told.items() if is_all or self._pressures.get(pk) != both}
        there = Endpoint.objects.filter(pk__in={*said, *ended}).values_list("pk", flat=True)
        at = now()
        Pressure.objects.bulk_create(
            [
                Pressure(
                    endpoint_id=pk,
                    gateway=self.name,
                    answering=both[0],
                    waiting=both[1],
                    seen_at=at,
                )
                for pk, both in {**ended, **said}.items()
                if pk in there
            ],
            update_conflicts=True,
            unique_fields=["endpoint", "gateway"],
            update_fields=["answering", "waiting", "seen_at"],
        )
        self._pressures = told
        if not is_all:
            return
        waits_since = min(self._unwritten.values(), default=moment)
        # It has looked, and told all that it knows; what was written with the last turn is no lack.
        if self._said_at and moment - waits_since < TELLS_WITHIN_S:
            word = {"until": at + timedelta(seconds=LIVES_S), "worked_at": at}
            first = {**word, "turned_at": at}
            Lease.objects.update_or_create(name=self._lease, defaults=word, create_defaults=first)
        self._said_at = moment

    def others(self) -> int:
        """How many gateways carry requests besides."""
        return live_gateways(now()).exclude(name=self._lease).count()

    @property
    def _lease(self) -> str:
        return GATEWAY + self.name

    def leave(self) -> None:
        """A gateway that ended has nothing."""
        Pressure.objects.filter(gateway=self.name).delete()
        Lease.objects.filter(name=self._lease).delete()


@dataclass(frozen=True)
class Told:
    """A gateway as it was last heard of, and what it carries."""

    name: str
    since: datetime | None
    latest: datetime | None
    is_live: bool
    requests: int  # within the last hour
    answering: int
    waiting: int


def gateways() -> list[Told]:
    """Return those that were heard of within the hour, who tells now first: three questions."""
    at = now()
    lately = Calls.objects.filter(minute__gte=at - FORGOTTEN).order_by()
    counts = dict(lately.values_list("gateway").annotate(n=Sum("requests")))
    busy = Pressure.objects.filter(seen_at__gte=at - timedelta(seconds=LIVES_S)).order_by()
    sums = busy.values_list("gateway").annotate(a=Sum("answering"), w=Sum("waiting"))
    now_open = {name: (answering, waiting) for name, answering, waiting in sums}
    rows = Lease.objects.filter(name__startswith=GATEWAY).order_by("-until", "name")
    found = []
    for row in rows:
        name = row.name.removeprefix(GATEWAY)
        answering, waiting = now_open.get(name, (0, 0))
        is_live = row.until is not None and row.until > at
        told = (row.turned_at, row.worked_at, is_live, counts.get(name, 0))
        found.append(Told(name, *told, answering, waiting))
    return found


def some_gateway_tells(at: datetime) -> bool:
    """Whether any gateway has lately told all that it carries."""
    return live_gateways(at).exists()


def live_gateways(at: datetime) -> QuerySet[Lease]:
    return Lease.objects.filter(name__startswith=GATEWAY, until__gt=at)


def tallies_prune() -> None:
    """Forget what was called long ago, and gateways that ended without a word."""
    at = now()
    Calls.objects.filter(minute__lt=at - timedelta(days=settings.BERTH_CALLS_DAYS)).delete()
    Pressure.objects.filter(seen_at__lt=at - FORGOTTEN).delete()
    Lease.objects.filter(name__startswith=GATEWAY, until__lt=at - FORGOTTEN).delete()
