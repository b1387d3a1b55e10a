"""The month before the demonstration, as the ledger of GPU time would tell it. Made up."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from common.clock import now
from portal.demo import script
from usage.closing import write_day
from usage.ledger import HELD
from usage.models import LedgerHour, LedgerProgress

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from accounts.models import User
    from clusters.models import Cluster
    from projects.models import Project

_DAYS = 30
_HOUR_S = 3600.0
_WORKING = range(8, 20)
# What became of what was held, in the order of ``HELD``.
_SHARES = {
    "workspace": (0.18, 0.12, 0.58, 0.05, 0.02, 0.04, 0.0, 0.0, 0.01),
    "job": (0.78, 0.12, 0.02, 0.02, 0.01, 0.02, 0.01, 0.02, 0.0),
}


def month_make(
    cluster: Cluster,
    people: Mapping[str, User],
    projects: Mapping[str, Project],
    exists: Mapping[str, int],
) -> None:
    """Write the hours of a month and their days; the hour of now is the ledger's own."""
    random = Random(script.SEED)  # noqa: S311 - a script, no secret
    until = now().replace(minute=0, second=0, microsecond=0)
    hours = [until - timedelta(hours=n) for n in range(_DAYS * 24, 0, -1)]
    rows = []
    for hour in hours:
        for flavor, count in exists.items():
            free = count
            for who in random.sample(sorted(people), 5 if hour.hour in _WORKING else 2):
                if gpus := min(free, random.choice((1, 1, 2))):
                    free -= gpus
                    rows.append(_held(random, hour, cluster, flavor, gpus, people[who], projects))
            seconds = free * _HOUR_S
            unheld = {"supply": count * _HOUR_S, "fragmented": seconds / 5}
            unheld["unasked"] = seconds - seconds / 5
            rows.append(LedgerHour(hour=hour, cluster_key=cluster.key, flavor=flavor, **unheld))
    LedgerHour.objects.bulk_create(rows, batch_size=500)
    for day in {hour.date(): hour for hour in hours}.values():
        write_day(day)
    LedgerProgress.objects.create(until=until)


def _held(
    random: Random,
    hour: datetime,
    cluster: Cluster,
    flavor: str,
    gpus: int,
    owner: User,
    projects: Mapping[str, Project],
) -> LedgerHour:
    kind = random.choice(sorted(_SHARES))
    project, seconds = projects[owner.username], gpus * _HOUR_S
    causes = dict(zip(HELD, (seconds * share for share in _SHARES[kind]), strict=True))
    return LedgerHour(
        hour=hour,
        cluster_key=cluster.key,
        flavor=flavor,
        project_uid=project.uid,
        project_slug=project.slug,
        owner_uid=owner.uid,
        owner_name=owner.username,
        kind=kind,
        waiting=seconds * random.random() if hour.hour in _WORKING else 0.0,
        attached=seconds,
        measured=seconds - causes["unknown"],
        utilised=causes["computing"],
        **causes,
    )
