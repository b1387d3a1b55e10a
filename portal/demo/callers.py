"""Programs outside that call an endpoint of the demonstration through the gateway, each by its key.

The hour before is made up, so that lines over time have a beginning.
"""

from __future__ import annotations

import math
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

import httpx
import structlog

from accounts.principal import Principal
from common import trust
from common.clock import now
from portal.demo import script
from runtime.protocol import Phase
from serving.address import address_of
from serving.latency import bucket_of
from serving.models import Calls, Endpoint
from serving.services import key_make, key_revoke

if TYPE_CHECKING:
    from datetime import datetime

    from serving.models import EndpointKey

log = structlog.get_logger(__name__)

# Who calls, and how many times a minute on average.
CALLERS = {"inspection line": 90, "nightly report": 20}
WAVE_S = 1500.0  # one calls more, then less
ANSWERS_WITHIN_S = 2.0
WAKES_WITHIN_S = 8.0
_BODY = {"instances": [[0.2, 0.7, 0.1]]}
_PAST_MINUTES = 60
_USUAL_S = 0.014


class Callers:
    """Calls ``script.CALLED`` as time goes on, as long as it is there and answers."""

    def __init__(self) -> None:
        self._random = Random(script.SEED)  # noqa: S311 - a script, no secret
        self._keys: dict[str, str] = {}
        self._since: datetime | None = None
        self._client = httpx.Client(trust_env=False, verify=trust.authorities())

    def tick(self) -> None:
        """Send what is due since the last turn."""
        row = _endpoint(script.CALLED)
        if row is None or row.phase != Phase.RUNNING:
            return
        if not self._keys:
            self._keys = self._made(row)
        at, before = now(), self._since
        self._since = at
        took_s = (at - before).total_seconds() if before else 0.0
        for name, rate in CALLERS.items():
            due = min(took_s, 10.0) / 60 * rate * _wave(at)
            for _one in range(int(due) + (self._random.random() < due % 1)):
                self._call(row, self._keys[name], ANSWERS_WITHIN_S)

    def wake(self, name: str) -> None:
        """One request for what may sleep, by a key that is void right after."""
        if row := _endpoint(name):
            key, secret = key_make(principal=Principal(row.owner), row=row, name="newsletter")
            try:
                self._call(row, secret, WAKES_WITHIN_S)
            finally:
                key_revoke(principal=Principal(row.owner), row=row, uid=key.uid)

    def _call(self, row: Endpoint, secret: str, within_s: float) -> None:
        url = f"{address_of(row)}/v1/models/{row.model.partition('/')[0]}:predict"
        headers = {"Authorization": f"Bearer {secret}"}
        try:
            self._client.post(url, json=_BODY, headers=headers, timeout=within_s)
        except httpx.HTTPError as problem:  # a gateway that is not there yet, or restarts
            log.info("demo.not_answered", endpoint=row.name, why=type(problem).__name__)

    def _made(self, row: Endpoint) -> dict[str, str]:
        """Make their keys anew: nobody keeps the secret of one that a start before made."""
        who, found = Principal(row.owner), {}
        for key in row.access_keys.filter(name__in=CALLERS, revoked_at=None):
            key_revoke(principal=who, row=row, uid=key.uid)
        had_calls = Calls.objects.filter(endpoint=row).exists()
        for name, rate in CALLERS.items():
            key, found[name] = key_make(principal=who, row=row, name=name)
            if not had_calls:
                self._remember(key, rate)
        return found

    def _remember(self, key: EndpointKey, rate: int) -> None:
        """Write the hour before. Made up."""
        this_minute = now().replace(second=0, microsecond=0)
        rows = []
        for ago in range(_PAST_MINUTES, 0, -1):
            minute = this_minute - timedelta(minutes=ago)
            count = int(rate * _wave(minute) * self._random.uniform(0.9, 1.1))
            times = [_USUAL_S * self._random.lognormvariate(0, 0.4) for _one in range(count)]
            histogram: dict[str, int] = {}
            for seconds in times:
                bucket = str(bucket_of(seconds))
                histogram[bucket] = histogram.get(bucket, 0) + 1
            told = {"requests": count, "seconds": sum(times), "histogram": histogram}
            sizes = {"bytes_in": 180 * count, "bytes_out": 140 * count}
            whose = {"endpoint": key.endpoint, "gateway": "demo", "caller": f"k{key.pk}"}
            rows.append(Calls(minute=minute, **whose, **told, **sizes))
        Calls.objects.bulk_create(rows)


def _wave(at: datetime) -> float:
    return 1 + 0.5 * math.sin(at.timestamp() / WAVE_S * 2 * math.pi)


def _endpoint(name: str) -> Endpoint | None:
    rows = Endpoint.objects.filter(name=name, canary_of=None, deleted_at=None)
    rows = rows.filter(project__slug__in=[team.slug for team in script.TEAMS])
    return rows.select_related("project", "owner", "version").first()
