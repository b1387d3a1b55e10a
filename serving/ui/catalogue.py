# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The catalogue: models with the size that each is likely to need, and what can serve which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from django.db.models import OuterRef, Subquery
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from common.paging import paginate
from placement.clusters import clusters_of
from placement.fleet import Fleet
from projects.access import Permission, scoped
from serving.choices import Files, Framework, Stage
from serving.models import Endpoint, Model, ModelVersion
from serving.runtimes import CUSTOM, RUNTIMES, Runtime, runtimes_for
from serving.sizing import GpuKind, Size, recommended
from serving.ui.form import gpu_kinds, size_said
from work.ui.base import WorkView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusters.models import Cluster

PER_PAGE = 24


@dataclass(frozen=True)
class Card:
    """One model: its version that would be deployed. ``problem``: why that can't be here."""

    model: Model
    version: ModelVersion | None
    runtime: Runtime | None
    size: Size | None
    url: str
    problem: str
    served_by: Sequence[Endpoint]


@dataclass(frozen=True)
class Server:
    """One line of the table of model servers."""

    runtime: Runtime
    loads: str
    speaks: str
    place: str


_SPOKEN = {"v1": "KServe v1", "v2": "Open Inference v2", "openai": "OpenAI"}


class Catalogue(WorkView):
    demands: ClassVar[Mapping[str, str]] = {"GET": "read"}
    template_name = "serving/catalogue.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        page = paginate(request, self._models(), per_page=PER_PAGE)
        clusters = clusters_of(self.project)
        kinds = gpu_kinds(Fleet(clusters, self.project.uid))
        shown = {one.newest: one for one in page if one.newest}
        versions = ModelVersion.objects.in_bulk(shown.keys())
        served = Endpoint.objects.filter(version__model__in=list(page), deleted_at=None)
        served = served.filter(canary_of=None).select_related("project", "version")
        by_model: dict[int, list[Endpoint]] = {}
        for row in served.order_by("name"):
            if row.version is not None:
                by_model.setdefault(row.version.model_id, []).append(row)
        return self.render(
            {
                "page": page,
                "cards": [
                    self._card(
                        one, versions.get(one.newest), kinds, clusters, by_model.get(one.pk, [])
                    )
                    for one in page
                ],
                "servers": [_server(one) for one in RUNTIMES],
                "new_url": self.pages.list_address("new", self.project.slug),
            }
        )

    def _models(self) -> Any:
        """Return those of the project, each with its newest version that can be served."""
        usable = ModelVersion.objects.filter(model=OuterRef("pk"), files=Files.THERE)
        newest = usable.exclude(stage=Stage.RETIRED).order_by("-id").values("pk")[:1]
        rows = Model.objects.filter(project=self.project).select_related("project")
        rows = rows.annotate(newest=Subquery(newest)).order_by("name")
        return scoped(rows, self.principal, Permission.MODEL_READ)

    def _card(
        self,
        model: Model,
        version: ModelVersion | None,
        kinds: Sequence[GpuKind],
        clusters: Sequence[Cluster],
        served: Sequence[Endpoint],
    ) -> Card:
        if version is None:
            none = _("None of its versions has its files here.")
            return Card(model, None, None, None, "", none, served)
        size = recommended(version.framework, version.size_bytes, kinds)
        runtime = runtimes_for(version.framework)[0]
        problem = ""
        if runtime.needs_gpu and not kinds:
            problem = _("%(name)s needs a GPU, and there is none here.") % {"name": runtime.label}
        elif not size.fits:
            problem = size.why
        elif not runtime.environment and not any(one.runs_images for one in clusters):
            problem = _("%(name)s runs on clusters only.") % {"name": runtime.label}
        said = {"model": f"{model.name}/{version.name}", **size_said(size)}
        query = {field: value for field, value in said.items() if value}
        url = self.pages.list_address("new", self.project.slug, query=query)
        return Card(model, version, runtime, size, url, problem, served)


def _server(one: Runtime) -> Server:
    if one.word == CUSTOM:
        loads = _("whatever its image or command has")
    else:
        loads = ", ".join(str(Framework(word).label) for word in one.loads)
    speaks = ", ".join(_SPOKEN[word] for word in one.speaks) or _("its own")
    here = one.environment or one.word == CUSTOM
    return Server(one, loads, speaks, _("one machine, clusters") if here else _("clusters"))
