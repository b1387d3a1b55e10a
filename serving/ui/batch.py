# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The pages of batch predictions: the list, a new one, and the card on the page of its job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils.translation import gettext_lazy as _

from common.errors import BerthError
from common.ids import is_uid
from common.paging import paginate
from common.ui.responses import refuse
from jobs.fields import MAX_REPLICAS
from jobs.models import Job
from jobs.states import OVER, state_of
from jobs.ui.pages import PAGES
from projects.access import Permission, permissions_of
from projects.ui.base import ProjectView
from serving import selectors
from serving.models import BatchPrediction, Endpoint
from serving.selectors import versions_deployable
from serving.services.batch import (
    AT_ONCE,
    BATCH,
    MAX_AT_ONCE,
    MAX_BATCH,
    PROGRAM,
    batch_again,
    batch_create,
)
from serving.services.batch_places import kept_until
from serving.ui.tables import BatchFilter
from work.fields import MAX_GPUS
from work.kinds import kind_of
from work.selectors import visible_to
from work.ui.panels import Panel, Slot

if TYPE_CHECKING:
    from accounts.principal import Principal
    from projects.models import Project

FIRST = ("model", "endpoint", "input", "output")
MOST_NAMED = 500
PER_PAGE = 25
_WIDE = {"class": "font-monospace", "spellcheck": "false"}


class BatchForm(forms.Form):
    """Three fields; the rest is folded away and has good values."""

    model = forms.CharField(
        label=_("Model"),
        required=False,
        max_length=101,
        widget=forms.TextInput(attrs={"list": "batch-models", "autocomplete": "off"}),
        help_text=_("MODEL, or MODEL/VERSION: it runs model servers of its own."),
    )
    endpoint = forms.ChoiceField(
        label=_("Or a live endpoint"),
        required=False,
        help_text=_("It is asked through the gateway, and woken where it sleeps."),
    )
    input = forms.CharField(
        label=_("Input"),
        max_length=1024,
        widget=forms.TextInput(attrs=_WIDE),
        help_text=_("volume:NAME/FOLDER, gs://… or s3://…, with .jsonl, .csv or .parquet files."),
    )
    output = forms.CharField(
        label=_("Output"),
        max_length=1024,
        widget=forms.TextInput(attrs=_WIDE),
        help_text=_("volume:NAME/FOLDER, gs://… or s3://…; each run has a folder there."),
    )
    credential = forms.CharField(label=_("Credential of the input"), required=False, max_length=80)
    output_credential = forms.CharField(
        label=_("Credential of the output"), required=False, max_length=80
    )
    format = forms.ChoiceField(
        label=_("Format of the predictions"),
        choices=[("jsonl", "JSON lines"), ("parquet", "Parquet")],
        required=False,
    )
    encoding = forms.ChoiceField(
        label=_("Letters of CSV files"),
        choices=[("utf-8", "UTF-8"), ("cp932", "Shift-JIS (CP932)"), ("euc_jp", "EUC-JP")],
        required=False,
    )
    batch = forms.IntegerField(
        label=_("Instances in one request"), min_value=1, max_value=MAX_BATCH, initial=BATCH
    )
    at_once = forms.IntegerField(
        label=_("Requests at once"), min_value=1, max_value=MAX_AT_ONCE, initial=AT_ONCE
    )
    replicas = forms.IntegerField(
        label=_("Replicas"),
        min_value=1,
        max_value=MAX_REPLICAS,
        initial=1,
        help_text=_("Each predicts its share, with a model server of its own."),
    )
    gpus = forms.IntegerField(
        label=_("GPUs of each replica"), min_value=0, max_value=MAX_GPUS, initial=0
    )
    instances = forms.BooleanField(
        label=_("Each prediction has its instance beside it"), required=False, initial=True
    )

    def __init__(self, *args: Any, who: Principal, project: Project, **more: Any) -> None:
        super().__init__(*args, **more)
        rows = visible_to(who, kind_of(Endpoint.KIND), project).order_by("name")
        endpoints = rows.values_list("name", flat=True)[:MOST_NAMED]
        self.versions = [str(one) for one in versions_deployable(who, project)[:MOST_NAMED]]
        named = [(name, name) for name in endpoints]
        cast("forms.ChoiceField", self.fields["endpoint"]).choices = [("", "-"), *named]

    def clean(self) -> dict[str, Any]:
        data = self.cleaned_data
        if not (
            data.get("model") or data.get("endpoint") or self.errors.keys() & {"model", "endpoint"}
        ):
            self.add_error("model", _("Say a model, or an endpoint."))
        return data

    @property
    def first(self) -> list[forms.BoundField]:
        return [self[name] for name in FIRST]

    @property
    def left(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name not in FIRST]

    @property
    def is_open(self) -> bool:
        return any(field.errors for field in self.left)


class BatchList(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.JOB_READ}
    template_name = "serving/batches.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        name = request.GET.get("model", "")
        model = selectors.model_get(self.principal, self.project, name) if name else None
        endpoint = request.GET.get("endpoint", "")[:63]
        rows = selectors.predictions_visible_to(self.principal, self.project, model, endpoint)
        filters = BatchFilter(request.GET)
        page = paginate(request, filters.narrowed(rows), per_page=PER_PAGE)
        found: list[BatchPrediction] = list(page.object_list)
        how_far = selectors.progress_of(found)
        shown = [
            (row, (state.label, *PAGES.shapes[state]), how_far.get(row.job_id))
            for row in found
            for state in (state_of(row.job),)
        ]
        said: dict[str, Any] = {"page": page, "rows": shown, "filters": filters}
        said |= {"model": model, "endpoint": endpoint}
        return self.render(said)


class BatchNew(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.JOB_CREATE, "POST": Permission.JOB_CREATE}
    template_name = "serving/batch_new.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        given = {name: request.GET[name][:1024] for name in FIRST if name in request.GET}
        if uid := request.GET.get("like", ""):
            given |= _like(self.principal, self.project, uid)
        form = BatchForm(initial=given, who=self.principal, project=self.project)
        return self.render({"form": form})

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        form = BatchForm(request.POST, who=self.principal, project=self.project)
        if not form.is_valid():
            return self.render({"form": form}, status=422)
        try:
            row = batch_create(
                principal=self.principal, project=self.project, said=form.cleaned_data
            )
        except BerthError as error:
            return self.render({"form": form}, status=refuse(request, form, error))
        return HttpResponseRedirect(row.get_absolute_url())


class BatchAgain(ProjectView):
    """Begin the same once more, or only what it could not predict."""

    required_permissions: ClassVar = {"POST": Permission.JOB_CREATE}

    def post(self, request: HttpRequest, project: str, prediction: UUID) -> HttpResponse:
        row = selectors.prediction_get(self.principal, self.project, prediction)
        errors_only = request.POST.get("errors_only") == "1"
        try:
            made = batch_again(principal=self.principal, row=row, errors_only=errors_only)
        except BerthError as error:
            messages.error(request, error.message)
            return HttpResponseRedirect(row.get_absolute_url())
        return HttpResponseRedirect(made.get_absolute_url())


def _like(who: Principal, project: Project, uid: str) -> dict[str, Any]:
    """Return what was said of another one."""
    if not is_uid(uid):
        return {}
    row = selectors.prediction_get(who, project, UUID(uid))
    return row.again


def predicts(row: Job) -> bool:
    """Whether it is a batch prediction; its program says so, without a question."""
    return tuple(row.command) == PROGRAM


def panel(who: Principal, row: Any, slot: Slot) -> Panel | None:
    """Return how far a batch prediction is, on the page of its job."""
    if row.kind != Job.KIND or slot is not Slot.CARD or not predicts(row):
        return None
    rows = BatchPrediction.objects.filter(job=row.pk)
    found = rows.select_related("errors_of__job__project", "endpoint__project", "load").first()
    if found is None:
        return None
    over = state_of(row) in OVER
    said = {
        "batch": found,
        "how_far": selectors.progress_of([found]).get(row.pk),
        "over": over,
        "kept_until": kept_until(found) if over else None,
        "files_url": PAGES.address("artifacts", row) if row.owner_id == who.user.pk else "",
        "may_begin": Permission.JOB_CREATE in permissions_of(who, row.project),
    }
    return Panel("serving/_batch.html", said)


app_name = "batches"
_HERE = "projects/<slug:project>/batch-predictions"
urlpatterns = [
    path(f"{_HERE}/", BatchList.as_view(), name="list"),
    path(f"{_HERE}/new", BatchNew.as_view(), name="new"),
    path(f"{_HERE}/<uuid:prediction>/again", BatchAgain.as_view(), name="again"),
]
