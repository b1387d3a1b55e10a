"""Searches when a project or a cluster goes: what Katib has of them is not left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Count, Q
from django.utils.translation import ngettext

from clusters import hooks as clusters
from clusters.services.detach import silent
from experiments.choices import LIVE, Engine, Reason, State
from experiments.models import Experiment, Trial
from jobs.listeners import is_told_with
from jobs.models import Job
from projects import hooks as projects
from projects.hooks import ContentSummary
from runtime import orphans
from runtime.protocol import Desired

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.db.models import QuerySet

    from accounts.principal import Principal
    from projects.models import Project


def connect() -> None:
    projects.register_contents(
        Experiment.KIND, _summarize, request_delete=_request_stop, request_stop=_request_stop
    )
    clusters.cluster_held.register(_held_by)
    is_told_with.register(_is_of_a_search)
    orphans.stands_for.register(_known_to_katib)


def _summarize(project: Project) -> list[ContentSummary]:
    """All of them are lost with it; a project that is being deleted waits for those in Katib."""
    rows = Experiment.objects.filter(project=project)
    alive = Count("pk", filter=Q(state__in=LIVE))
    count, running = rows.aggregate(all=Count("pk"), alive=alive).values()
    if project.desired == Desired.ABSENT:  # all that is outside of rows, where anybody answers
        rows = rows.filter(in_katib=True).exclude(cluster_key__in=silent())
        count = rows.count()
    names = tuple(rows.order_by("name").values_list("name", flat=True)[:20]) if count else ()
    return [ContentSummary(Experiment.KIND, _words(count), count, running, names, _words(running))]


def _request_stop(project: Project, _who: Principal | None) -> None:
    """Of one that is stopping the trials end, and what Katib has of it is taken away."""
    rows = Experiment.objects.filter(project=project, state=State.RUNNING)
    rows.update(state=State.STOPPING, reason=Reason.PROJECT, message="")


def _held_by(cluster_key: str) -> Mapping[str, int]:
    """Those whose values are chosen there; of ended ones the namespace goes with the cluster."""
    rows: QuerySet[Experiment] = Experiment.objects.filter(cluster_key=cluster_key)
    count = rows.filter(state__in=LIVE, engine=Engine.KATIB).count()
    return {Experiment.KIND: count} if count else {}


def _known_to_katib(uids: set[str]) -> set[str]:
    """Those whose turns still take away what Katib has; all else there is nobody's."""
    known = Experiment.objects.filter(in_katib=True).values_list("uid", flat=True)
    return uids & {str(uid) for uid in known} if uids else set()


def _is_of_a_search(job: Job) -> bool:
    return Trial.objects.filter(job=job).exists()


def _words(count: int) -> str:
    return ngettext("%(n)d search", "%(n)d searches", count) % {"n": count}
