"""Models and versions that somebody may see."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Case, Count, Exists, OuterRef, Prefetch, Q, QuerySet, Subquery, When
from django.utils.translation import gettext as _

from common.clock import now
from common.errors import NotFound
from jobs.kind import JOB
from jobs.models import Told
from jobs.replicas import moment
from projects.access import Permission, scoped
from runtime.models import ObservedWorkload
from runtime.protocol import observation_read
from runtime.reasons import Reason
from serving.choices import Files, Stage
from serving.gateway.tallies import LIVES_S
from serving.models import BatchPrediction, Endpoint, Model, ModelVersion, Pressure
from volumes import references as volumes
from work.kinds import kind_of
from work.selectors import visible_to

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from accounts.principal import Principal
    from projects.models import Project
    from volumes.models import Volume

_NAMED = 20
_SERVING = 100
# What a gateway that ended had in hand keeps nothing in use for ever. Not shorter than LIVES_S: as
# long as it counts as one that tells, so does what it told.
FRESH = timedelta(seconds=LIVES_S)
_LATELY_MS = 60_000  # over which a speed is


def pressed(at: datetime) -> QuerySet[Pressure]:
    """Return what gateways have in hand of requests that wait or are being answered."""
    return Pressure.objects.filter(seen_at__gt=at - FRESH).exclude(answering=0, waiting=0)


def called_at(uids: Collection[UUID]) -> Mapping[UUID, datetime]:
    """Return when each endpoint was last called; one and its canary are used as one.

    A request is counted when it ends: one that is still being answered is a call of now.
    """
    at = now()
    mine = Q(uid__in=uids) | Q(canary_of__uid__in=uids) | Q(canaries__uid__in=uids)
    rows = list(
        Endpoint.objects.filter(mine)
        .annotate(in_hand=Exists(pressed(at).filter(endpoint=OuterRef("pk"))))
        .values_list("pk", "canary_of_id", "called_at", "in_hand")
        .distinct()
    )
    last: dict[int, datetime] = {}
    for pk, first, called, in_hand in rows:
        if (used := at if in_hand else called) is not None:
            last[first or pk] = max(used, last.get(first or pk, used))
    if not last:
        return {}
    both = Endpoint.objects.filter(Q(pk__in=last) | Q(canary_of__in=last), uid__in=uids)
    told = both.values_list("uid", "pk", "canary_of_id")
    return {uid: last[first or pk] for uid, pk, first in told}


def models_visible_to(who: Principal, project: Project) -> QuerySet[Model]:
    """Return the models of a project by name, each with its newest version and some counts."""
    newest = ModelVersion.objects.filter(model=OuterRef("pk")).order_by("-id")
    rows = Model.objects.filter(project=project).select_related("project", "created_by")
    rows = rows.annotate(
        version_count=Count("versions", distinct=True),
        newest=Subquery(newest.values("name")[:1]),
        newest_framework=Subquery(newest.values("framework")[:1]),
        newest_at=Subquery(newest.values("created_at")[:1]),
        endpoint_count=Count(
            "versions__endpoints",
            filter=Q(
                versions__endpoints__deleted_at__isnull=True,
                versions__endpoints__canary_of__isnull=True,
            ),
            distinct=True,
        ),
    )
    return scoped(rows, who, Permission.MODEL_READ).order_by("name")


def model_get(who: Principal, project: Project, name: str) -> Model:
    row = models_visible_to(who, project).filter(name=name).first()
    if row is None:
        raise NotFound(_("There is no such model, or you may not see it."))
    return row


def versions_of(who: Principal, model: Model) -> QuerySet[ModelVersion]:
    """Return its versions, newest first, each with what serves it and ``who`` may see."""
    serving = visible_to(who, kind_of(Endpoint.KIND), model.project)
    rows = ModelVersion.objects.filter(model=model)
    rows = rows.select_related("model__project", "volume", "load", "created_by", "read_by__project")
    served = Prefetch("endpoints", queryset=serving.order_by("name"), to_attr="served_by")
    return rows.prefetch_related(served).order_by("-id")


def serving_of(who: Principal, version: ModelVersion) -> list[Endpoint]:
    """Return the endpoints that serve it, also as a canary, which ``who`` may see."""
    seen = visible_to(who, kind_of(Endpoint.KIND), version.model.project)
    mine = Q(pk__in=seen.values("pk")) | Q(canary_of__in=seen.values("pk"))
    rows = Endpoint.objects.filter(mine, version=version, deleted_at=None)
    rows = rows.select_related("project", "owner", "canary_of__project")
    return list(rows.order_by("canary_of__name", "name")[:_SERVING])


def versions_deployable(who: Principal, project: Project) -> QuerySet[ModelVersion]:
    """Return the versions that an endpoint may serve, by model: the newest that serves first."""
    mine = scoped(Model.objects.filter(project=project), who, Permission.MODEL_READ)
    rows = ModelVersion.objects.filter(model__in=mine).exclude(framework="")
    rows = rows.exclude(stage=Stage.RETIRED).exclude(files=Files.FAILED).select_related("model")
    serving = Case(When(stage=Stage.SERVING, then=0), default=1)
    return rows.order_by("model__name", serving, "-id")


def version_get(who: Principal, model: Model, name: str) -> ModelVersion:
    row = versions_of(who, model).filter(name=name).first()
    if row is None:
        raise NotFound(_("There is no such version of “%(name)s”.") % {"name": model.name})
    return row


def default_of(versions: QuerySet[ModelVersion]) -> ModelVersion | None:
    """Return the version that is meant where none is named: the newest that serves, else the
    newest that is not retired and whose files are there, or may come.
    """
    usable = ~Q(stage=Stage.RETIRED)
    rank = Case(
        When(stage=Stage.SERVING, then=0),
        When(usable & Q(files=Files.THERE), then=1),
        When(usable & ~Q(files=Files.FAILED), then=2),
        default=3,
    )
    return versions.order_by(rank, "-id").first()


def replicas_of(row: Endpoint) -> list[dict[str, Any]]:
    """Return each replica of its latest launch as it was last seen."""
    seen = ObservedWorkload.objects.filter(uid=row.uid, cluster_key=row.cluster_key).first()
    if seen is None or seen.launch != row.launch:
        return []
    told = observation_read(seen.data).replicas
    return [
        {
            "index": one.index,
            "state": one.seen,
            "address": one.address,
            "node": one.node,
            "reason": one.reason,
            "restarts": one.restarts,
            "started_at": moment(one.started_at),
        }
        for one in told
    ]


def missing(version: ModelVersion | None) -> tuple[str, str] | None:
    """Return reason and sentence of why it can't be loaded yet; None: its files are there."""
    if version is None or version.files == Files.THERE:
        return None
    if version.files == Files.COMING:
        said = _("The files of %(name)s are being brought.")
        return Reason.DATA, said % {"name": version}
    return Reason.DATA_MISSING, version.problem


def lacks_files(version: ModelVersion | None) -> str:
    """Say that a replica more could not begin, and what to do; "": it can."""
    if (found := missing(version)) is None:
        return ""
    reason, why = found
    if reason == Reason.DATA_MISSING:
        why = _("The files of %(version)s are not there: %(why)s") % {
            "version": version,
            "why": why or "…",
        }
    said = _(
        "%(why)s What answers goes on with as many replicas as it has: put the files back and "
        "check the version, or serve another one."
    )
    return said % {"why": why}


@dataclass(frozen=True)
class Measured:
    """One metric of several versions side by side; None where it was not measured."""

    name: str
    values: tuple[float | None, ...]

    @property
    def differs(self) -> bool:
        return len(set(self.values)) > 1


def compared(versions: Sequence[ModelVersion]) -> list[Measured]:
    """Return every metric that any of them has."""
    names = sorted({name for version in versions for name in version.metrics})
    return [Measured(name, tuple(v.metrics.get(name) for v in versions)) for name in names]


def predictions_visible_to(
    who: Principal, project: Project, model: Model | None = None, endpoint: str = ""
) -> QuerySet[BatchPrediction]:
    """Return the batch predictions of a project, of one model or one endpoint, newest first."""
    rows = BatchPrediction.objects.filter(job__in=visible_to(who, JOB, project))
    if model is not None:
        rows = rows.filter(version__model=model)
    if endpoint:
        rows = rows.filter(endpoint__name=endpoint)
    with_ = ("project", "job__project", "job__owner", "endpoint", "errors_of__job", "load")
    return rows.select_related(*with_).order_by("-id")


def prediction_get(who: Principal, project: Project, uid: UUID) -> BatchPrediction:
    row = predictions_visible_to(who, project).filter(uid=uid).first()
    if row is None:
        raise NotFound(_("There is no such thing, or you may not see it."))
    return row


@dataclass(frozen=True)
class Progress:
    """How far a batch prediction says that it is. ``share``: from 0 to 1."""

    share: float = 0.0
    done: int = 0
    failed: int = 0
    per_second: float | None = None  # instances, lately; None: not known yet
    reasons: Sequence[Sequence[Any]] = ()  # why, of the most first, and how many; "": others

    @property
    def percent(self) -> int:
        return int(self.share * 100)

    @property
    def is_whole(self) -> bool:
        return self.share == 1

    @property
    def seconds_left(self) -> int | None:
        """How long it takes from here, if it goes on like this; None: nobody knows."""
        if not self.per_second or not self.share or self.is_whole:
            return None
        return round(self.done * (1 - self.share) / self.share / self.per_second)


def progress_of(rows: Iterable[BatchPrediction]) -> dict[int, Progress]:
    """Return how far each is, by the key of its job; in one query."""
    told = Told.objects.filter(job__in=[row.job_id for row in rows]).order_by("launch")
    found = {}
    for job, progress, starts in told.values_list("job", "state__progress", "state__starts"):
        if progress:
            share, done, failed, *why = progress
            found[job] = Progress(share, done, failed, told_speed(starts or ()), *why)
    return found


def told_speed(starts: Sequence[Sequence[Any]]) -> float | None:
    """Return how many steps a second a program makes lately, by what it told (``usage.told``)."""
    if not starts:
        return None
    _begin, _stride, marks, last = starts[-1]
    moments = [*marks, last[:2]] if last else list(marks)
    if len(moments) < 2:  # noqa: PLR2004 - a speed is between two
        return None
    newest = moments[-1]
    fresh = [one for one in moments[:-1] if newest[1] - one[1] <= _LATELY_MS] or moments[-2:-1]
    took = newest[1] - fresh[0][1]
    return (newest[0] - fresh[0][0]) * 1000 / took if took > 0 else None


def held_by(volume: Volume) -> list[volumes.Holder]:
    """Return the versions whose files lie in a volume: it is not deleted, nor put back."""
    rows = ModelVersion.objects.filter(volume=volume).exclude(files=Files.FAILED)
    rows = rows.select_related("model__project", "created_by").order_by("model__name", "name")
    return [
        volumes.Holder(
            Model.KIND,
            str(row.uid),
            str(row),
            row.model.get_absolute_url(),
            row.created_by.label if row.created_by else "",
        )
        for row in rows[:_NAMED]
    ]
