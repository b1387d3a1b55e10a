"""What a gateway counted and what it has now, as rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from django.db import transaction

from common.clock import now
from serving.gateway.counts import Count, Slice
from serving.models import Calls, Endpoint, EndpointKey, Pressure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from serving.gateway.table import RoutingTable

KEPT_MINUTES = 3
AGAIN_S = 5.0  # what did not change is said again, so that it isn't taken for a gateway that ended
_SUMS = (
    "requests",
    "refused",
    "client_errors",
    "server_errors",
    "seconds",
    "bytes_in",
    "bytes_out",
)


class Tallies:
    """Writes the rows of one gateway; ``name``: its own, another than before its last start."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._minutes: dict[tuple[int, int, str], Count] = {}  # begin, row, caller
        self._pressures: dict[int, tuple[int, int]] = {}
        self._said_at = 0.0

    def write_calls(self, counted: Mapping[Slice, Count], known: RoutingTable) -> None:
        """Add what was counted to its minutes. A row holds what this gateway counted in it."""
        callers = {one.word: one.caller for one in known.principals.values()}
        mains = {one.uid: one.main.uid for one in known.endpoints}
        changed = {}
        for part, count in counted.items():
            row = part.row or mains.get(part.endpoint, "")
            if row and (caller := callers.get(part.word)):
                key = part.minute, int(row), caller
                changed[key] = _sum(self._minutes.get(key), count)
                self._minutes[key] = changed[key]
        newest = max((minute for minute, _row, _caller in self._minutes), default=0)
        self._minutes = {
            key: count
            for key, count in self._minutes.items()
            if key[0] > newest - 60 * KEPT_MINUTES
        }
        self._write(changed)

    @transaction.atomic
    def _write(self, changed: Mapping[tuple[int, int, str], Count]) -> None:
        there = set(
            Endpoint.objects.filter(pk__in={row for _minute, row, _caller in changed})
            .select_for_update()
            .values_list("pk", flat=True)
        )
        rows = [
            Calls(
                endpoint_id=row,
                minute=datetime.fromtimestamp(minute, UTC),
                gateway=self.name,
                caller=caller,
                histogram={str(bucket): n for bucket, n in sorted(count.histogram.items())},
                **{name: getattr(count, name) for name in _SUMS},
            )
            for (minute, row, caller), count in changed.items()
            if row in there
        ]
        if not rows:
            return
        Calls.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["endpoint", "minute", "gateway", "caller"],
            update_fields=[*_SUMS, "histogram"],
        )
        at = max(one.minute for one in rows)
        Endpoint.objects.filter(pk__in=there).update(called_at=at)
        keys = [int(one.caller[1:]) for one in rows if one.caller.startswith("k")]
        EndpointKey.objects.filter(pk__in=keys).update(last_used_at=at)

    def write_pressures(
        self, answering: Mapping[str, int], waiting: Mapping[str, int], *, moment: float
    ) -> None:
        """Say what is answered and what waits now, where that is news or was said long ago."""
        told = {
            int(uid): (answering.get(uid, 0), waiting.get(uid, 0)) for uid in {*answering, *waiting}
        }
        told = {pk: both for pk, both in told.items() if any(both)}
        ended = dict.fromkeys(self._pressures.keys() - told.keys(), (0, 0))
        if moment - self._said_at < AGAIN_S:
            said = {pk: both for pk, both in told.items() if self._pressures.get(pk) != both}
        else:
            said, self._said_at = told, moment
        self._pressures = told
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

    def leave(self) -> None:
        """A gateway that ended has nothing."""
        Pressure.objects.filter(gateway=self.name).delete()


def _sum(before: Count | None, count: Count) -> Count:
    if before is None:
        return replace(count, histogram=dict(count.histogram))
    histogram = dict(before.histogram)
    for bucket, number in count.histogram.items():
        histogram[bucket] = histogram.get(bucket, 0) + number
    sums = {name: getattr(before, name) + getattr(count, name) for name in _SUMS}
    return Count(**sums, histogram=histogram)
