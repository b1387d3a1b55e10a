"""The work of the past as a replay of the queues reads it: what it asked for, when, how long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Min

from clusters.models import Flavor
from common.clock import now
from placement.decision import names_in
from queues.choices import Purpose
from queues.effect import Past
from queues.works import Priorities, purpose_of
from usage.models import Interval
from work.models import Step, Workload

if TYPE_CHECKING:
    from datetime import datetime

MOST = 10_000  # launches; of more, the latest


def past_work(cluster_key: str, since: datetime) -> list[Past]:
    """Return the launches with GPUs since then on a cluster, in four queries.

    A launch asked when its timeline begins; where its workload is gone, when it started. What
    still runs is taken to end now, and what had another size meanwhile to be other work then.
    """
    rows = list(
        Interval.objects.filter(cluster_key=cluster_key, gpus__gt=0, started_at__gte=since)
        .order_by("-started_at", "-pk")
        .values_list(
            *("uid", "launch", "part", "kind", "project_uid", "flavor", "gpus", "started_at"),
            "ended_at",
        )[:MOST]
    )
    begun = (
        Step.objects.filter(at__gte=since, workload__cluster_key=cluster_key, workload__gpus__gt=0)
        .order_by()
        .values_list("workload__uid", "launch")
    )
    asked = {(uid, launch): at for uid, launch, at in begun.annotate(first=Min("at"))}
    names = Workload.objects.filter(cluster_key=cluster_key).exclude(priority="")
    named = dict(names.values_list("uid", "priority"))
    priorities, at = Priorities(), now()
    every = tuple(Flavor.objects.order_by("position", "name").values_list("name", flat=True))
    found = []
    for uid, launch, part, kind, project, flavor, gpus, started, ended in rows:
        purpose = purpose_of(kind)
        begin = started if part else min(started, asked.get((uid, launch), started))
        found.append(
            Past(
                uid=f"{uid}/{launch}/{part}" if part else f"{uid}/{launch}",
                part=str(project),
                kinds=names_in(flavor) or every,
                count=gpus,
                asked_at=begin.timestamp(),
                seconds=((ended or at) - started).total_seconds(),
                priority=priorities.value(named.get(uid, ""), purpose),
                builds=purpose == Purpose.BUILD,
            )
        )
    return found
