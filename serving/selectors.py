"""Models and versions that somebody may see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Count, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.utils.translation import gettext as _

from common.errors import NotFound
from jobs.kind import JOB
from jobs.models import Told
from projects.access import Permission, scoped
from runtime.reasons import Reason
from serving.choices import Files, Stage
from serving.models import BatchPrediction, Endpoint, Model, ModelVersion
from volumes import references as volumes
from work.kinds import kind_of
from work.selectors import visible_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from uuid import UUID

    from accounts.principal import Principal
    from projects.models import Project
    from volumes.models import Volume

_NAMED = 20


def models_visible_to(who: Principal, project: Project) -> QuerySet[Model]:
    """Return the models of a project by name, each with its newest version and some counts."""
    newest = ModelVersion.objects.filter(model=OuterRef("pk")).order_by("-id")
    rows = Model.objects.filter(project=project).select_related("project", "created_by")
    rows = rows.annotate(
        version_count=Count("versions", distinct=True),
        newest=Subquery(newest.values("name")[:1]),
        newest_framework=Subquery(newest.values("framework")[:1]),
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


def version_get(who: Principal, model: Model, name: str) -> ModelVersion:
    row = versions_of(who, model).filter(name=name).first()
    if row is None:
        raise NotFound(_("There is no such version of “%(name)s”.") % {"name": model.name})
    return row


def default_of(versions: QuerySet[ModelVersion]) -> ModelVersion | None:
    """Return the version that is meant where none is named: the newest that serves, else the
    newest that is not retired.
    """
    rows = versions.order_by("-id")
    serving = rows.filter(stage=Stage.SERVING).first()
    if serving is not None:
        return serving
    usable = rows.exclude(stage=Stage.RETIRED).exclude(files=Files.FAILED)
    return usable.first() or rows.first()


def missing(version: ModelVersion | None) -> tuple[str, str] | None:
    """Return reason and sentence of why it can't be loaded yet; None: its files are there."""
    if version is None or version.files == Files.THERE:
        return None
    if version.files == Files.COMING:
        said = _("The files of %(name)s are being brought.")
        return Reason.DATA, said % {"name": version}
    return Reason.DATA_MISSING, version.problem


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
    who: Principal, project: Project, model: Model | None = None
) -> QuerySet[BatchPrediction]:
    """Return the batch predictions of a project, or of one model, newest first."""
    rows = BatchPrediction.objects.filter(job__in=visible_to(who, JOB, project))
    if model is not None:
        rows = rows.filter(version__model=model)
    return rows.select_related("project", "job__project", "job__owner").order_by("-id")


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

    @property
    def percent(self) -> int:
        return int(self.share * 100)


def progress_of(rows: Iterable[BatchPrediction]) -> dict[int, Progress]:
    """Return how far each is, by the key of its job; in one query."""
    told = Told.objects.filter(job__in=[row.job_id for row in rows]).order_by("launch")
    found = told.values_list("job", "state__progress")
    return {job: Progress(*progress) for job, progress in found if progress}


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
