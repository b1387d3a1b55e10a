# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The pages of batch predictions: the list, a new one, and the card on the page of its job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path
from django.utils.translation import gettext_lazy as _

from common.errors import BerthError
from common.paging import paginate
from common.ui.responses import refuse
from jobs.fields import MAX_REPLICAS
from jobs.models import Job
from jobs.states import state_of
from jobs.ui.pages import PAGES
from projects.access import Permission
from projects.ui.base import ProjectView
from serving import selectors
from serving.models import BatchPrediction
from serving.services.batch import AT_ONCE, BATCH, MAX_AT_ONCE, MAX_BATCH, batch_create
from work.fields import MAX_GPUS
from work.ui.panels import Panel, Slot

if TYPE_CHECKING:
    from accounts.principal import Principal

FIRST = ("model", "input", "output")
_WIDE = {"class": "font-monospace", "spellcheck": "false"}


class BatchForm(forms.Form):
    """Three fields; the rest is folded away and has good values."""

    model = forms.CharField(
        label=_("Model"), max_length=101, help_text=_("MODEL, or MODEL/VERSION.")
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
        rows = selectors.predictions_visible_to(self.principal, self.project, model)
        page = paginate(request, rows)
        found: list[BatchPrediction] = list(page.object_list)
        how_far = selectors.progress_of(found)
        shown = [
            (row, (state.label, *PAGES.shapes[state]), how_far.get(row.job_id))
            for row in found
            for state in (state_of(row.job),)
        ]
        return self.render({"page": page, "rows": shown, "model": model})


class BatchNew(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.JOB_CREATE, "POST": Permission.JOB_CREATE}
    template_name = "serving/batch_new.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        given = {name: request.GET[name][:1024] for name in FIRST if name in request.GET}
        return self.render({"form": BatchForm(initial=given)})

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        form = BatchForm(request.POST)
        if not form.is_valid():
            return self.render({"form": form}, status=422)
        try:
            row = batch_create(
                principal=self.principal, project=self.project, said=form.cleaned_data
            )
        except BerthError as error:
            return self.render({"form": form}, status=refuse(request, form, error))
        return HttpResponseRedirect(row.get_absolute_url())


def panel(_who: Principal, row: Any, slot: Slot) -> Panel | None:
    """Return how far a batch prediction is, on the page of its job."""
    if row.kind != Job.KIND or slot is not Slot.CARD:
        return None
    found = BatchPrediction.objects.filter(job=row.pk).first()
    if found is None:
        return None
    told = selectors.progress_of([found]).get(row.pk)
    return Panel("serving/_batch.html", {"batch": found, "how_far": told})


app_name = "batches"
_HERE = "projects/<slug:project>/batch-predictions"
urlpatterns = [
    path(f"{_HERE}/", BatchList.as_view(), name="list"),
    path(f"{_HERE}/new", BatchNew.as_view(), name="new"),
]
