# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The pages of models: the list, a new version, one model with its versions beside each other."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import path, reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django_tables2 import RequestConfig

from common.errors import BerthError, wrong
from common.ids import slugify
from common.paging import paginate
from common.ui.responses import refuse
from credentials.choices import CredentialKind
from credentials.selectors import credentials_named, credentials_usable
from jobs.ui.artifacts import Offer
from projects.access import Permission, permissions_of
from projects.ui.base import ProjectView
from serving import mlflow, selectors
from serving.choices import Files, Framework
from serving.models import Model
from serving.services import models, version_files, versions
from serving.services.sources import MLFLOW
from serving.ui.sending import sending_of, texts_of_sending
from serving.ui.tables import ModelFilter, ModelTable
from serving.ui.versions import VersionPage, deploys, told_of
from volumes.choices import VolumeKind
from volumes.selectors import volumes_mountable

if TYPE_CHECKING:
    from accounts.principal import Principal
    from jobs.models import Run
    from serving.models import ModelVersion

PER_PAGE = 25
FIRST = ("model", "origin", "framework")
LEFT = ("name", "description", "metrics", "credential", "cluster", "read")  # folded away
_LATEST_MS = 4_000_000_000_000  # in the year 2096


class VersionForm(forms.Form):
    """A version, and its model where that is not there yet."""

    model = forms.CharField(
        label=_("Model"),
        max_length=50,
        help_text=_("A model that is there, or the name of a new one: small letters, digits, “-”."),
    )
    origin = forms.CharField(
        label=_("Where its files are"),
        max_length=1024,
        help_text=_(
            "volume:NAME/FOLDER, run:JOB/NUMBER/FOLDER (latest: its newest run), gs://…, s3://…, "
            "mlflow:SERVER/MODEL/VERSION, or upload: for files that you send."
        ),
        widget=forms.TextInput(attrs={"class": "font-monospace", "spellcheck": "false"}),
    )
    framework = forms.ChoiceField(
        label=_("Framework"),
        required=False,
        choices=[("", _("As its files' names say")), *Framework.choices],
    )
    name = forms.CharField(
        label=_("Version"), required=False, max_length=50, help_text=_("Empty: v1, v2 and so on.")
    )
    description = forms.CharField(
        label=_("What the model is good for"),
        required=False,
        max_length=500,
        help_text=_("Of a new one."),
    )
    metrics = forms.CharField(
        label=_("Metrics"),
        required=False,
        max_length=5000,
        widget=forms.Textarea(attrs={"rows": 3, "class": "font-monospace", "spellcheck": "false"}),
        help_text=_("One NAME=NUMBER on each line, such as accuracy=0.98."),
    )
    credential = forms.CharField(
        label=_("Credential"),
        required=False,
        max_length=80,
        help_text=_("That opens the bucket; a public one needs none."),
    )
    cluster = forms.CharField(
        label=_("Cluster"),
        required=False,
        max_length=63,
        help_text=_("Where files from a bucket are kept. Empty: the usual one."),
    )

    read = forms.BooleanField(
        label=_("Have a job read its files once they are there"),
        required=False,
        initial=True,
        help_text=_(
            "It tells digest and signature. Up to 2 GiB, where queue, limits and budget have room "
            "at once; on a cluster it may still wait for a free node."
        ),
    )

    @property
    def first(self) -> list[forms.BoundField]:
        return [self[name] for name in FIRST]

    @property
    def left(self) -> list[forms.BoundField]:
        return [self[name] for name in LEFT]

    @property
    def is_open(self) -> bool:
        said = [field for field in self.left if field.name != "read"]
        return any(field.errors or field.value() for field in said)

    def clean_metrics(self) -> dict[str, float]:
        metrics = {}
        for line in filter(None, map(str.strip, self.cleaned_data["metrics"].splitlines())):
            name, _sign, value = line.partition("=")
            try:
                metrics[name.strip()] = float(value)
            except ValueError:
                text = _t("Write NAME=NUMBER on each line; this is not: %(line)s")
                raise forms.ValidationError(text % {"line": line[:80]}) from None
        return metrics

    def said(self) -> dict[str, Any]:
        return {k: v for k, v in self.cleaned_data.items() if k not in {"model", "description"}}


class ModelList(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.MODEL_READ}
    template_name = "serving/models.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        filters = ModelFilter(request.GET)
        table = ModelTable(
            filters.narrowed(selectors.models_visible_to(self.principal, self.project))
        )
        RequestConfig(request, paginate={"per_page": PER_PAGE, "silent": True}).configure(table)
        return self.render({"table": table, "filters": filters})


class VersionNew(ProjectView):
    """One form for the first version of a model and for the next one."""

    required_permissions: ClassVar = {
        "GET": Permission.MODEL_MANAGE,
        "POST": Permission.MODEL_MANAGE,
    }
    template_name = "serving/version_new.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        given = {name: request.GET[name][:1024] for name in (*FIRST, *LEFT) if name in request.GET}
        return self._shown(VersionForm(initial=given))

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        form = VersionForm(request.POST)
        if not form.is_valid():
            return self._shown(form, status=422)
        try:
            row = self._add(form)
        except BerthError as error:
            return self._shown(form, status=refuse(request, form, error))
        if request.headers.get("Accept") == "application/json":  # who sends its files now
            return JsonResponse(sending_of(self.principal, row))
        if row.awaits_upload:
            return HttpResponseRedirect(row.get_absolute_url())
        if request.POST.get("then") == "deploy":
            row = version_files.version_look(row)
            if row.files != Files.FAILED:
                messages.success(request, _t("%(name)s is registered.") % {"name": row})
                return HttpResponseRedirect(deploys(row))
        said = _t("%(name)s is registered; its files are looked at now.")
        messages.success(request, said % {"name": row})
        return HttpResponseRedirect(row.model.get_absolute_url())

    def _add(self, form: VersionForm) -> ModelVersion:
        """Register it, and its model where there is none. Both, or none."""
        name, said = form.cleaned_data["model"], form.said()
        found = versions.version_wanted(principal=self.principal, project=self.project, said=said)
        with transaction.atomic():
            model = Model.objects.filter(project=self.project, name=name).first()
            is_new = model is None
            if model is None:
                try:
                    model = models.model_create(
                        principal=self.principal,
                        project=self.project,
                        name=name,
                        description=form.cleaned_data["description"],
                    )
                except BerthError as error:
                    named = "description" if "description" in error.fields else "model"
                    raise wrong(named, error.message) from error
            row = versions.version_create(
                principal=self.principal, model=model, said=said, found=found
            )
            if is_new:
                models.made_together(row)
            return row

    def _shown(self, form: VersionForm, *, status: int = 200) -> HttpResponse:
        names = Model.objects.filter(project=self.project).values_list("name", flat=True)[:200]
        usable = volumes_mountable(self.principal, self.project).exclude(kind=VolumeKind.HOME)
        places = [f"volume:{name}/" for name in usable.values_list("name", flat=True)[:50]]
        form.fields["model"].widget.attrs["list"] = "models"
        form.fields["origin"].widget.attrs["list"] = "origins"
        found = {"form": form, "names": names, "places": places, **texts_of_sending()}
        return self.render(found, status=status)


class RegistryPage(ProjectView):
    """What an MLflow server has: its models, and the versions of one that is chosen."""

    required_permissions: ClassVar = {"GET": Permission.MODEL_MANAGE}
    template_name = "serving/mlflow.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        kinds = [CredentialKind.MLFLOW]
        servers = list(credentials_usable(self.principal, self.project, kinds))
        names = credentials_named(self.principal, self.project, servers, kinds)
        said = {name: request.GET.get(name, "")[:300] for name in ("server", "q", "model", "token")}
        said["server"] = said["server"] or (names[0] if names else "")
        told: dict[str, Any] = {"servers": names, "said": said, "problem": ""}
        try:
            if said["server"]:
                told |= self._asked(said)
        except BerthError as error:
            told["problem"] = error.message
        return self.render(told)

    def _asked(self, said: dict[str, str]) -> dict[str, Any]:
        server = mlflow.server_named(self.principal, self.project, said["server"])
        if not said["model"]:
            return dict(mlflow.models(server, said["q"], said["token"]))
        found = mlflow.versions(server, said["model"], said["token"])
        new = reverse("models:new", kwargs={"project": self.project.slug})
        origin = f"{MLFLOW}{said['server']}/{said['model']}"
        for one in found["versions"]:
            query = {"model": slugify(said["model"]), "origin": f"{origin}/{one['version']}"}
            one["url"] = f"{new}?{urlencode(query)}"
            one["at"] = moment_of(one["created"])
        return dict(found)


def moment_of(millis: object) -> datetime | None:
    """Return the moment that so many milliseconds since 1970 are; None where it is none."""
    if type(millis) is not int or not 0 < millis < _LATEST_MS:
        return None
    return datetime.fromtimestamp(millis / 1000, tz=UTC)


class ModelPage(ProjectView):
    """A model: its versions, and what those that are chosen have in common."""

    required_permissions: ClassVar = {"GET": Permission.MODEL_READ}
    template_name = "serving/model.html"

    def get(self, request: HttpRequest, project: str, model: str) -> HttpResponse:
        row = selectors.model_get(self.principal, self.project, model)
        all_of_it = selectors.versions_of(self.principal, row)
        page = paginate(request, all_of_it, per_page=PER_PAGE)
        default = selectors.default_of(all_of_it)
        rows = list(page.object_list)
        asked = request.GET.getlist("compare")[:10]
        chosen = list(all_of_it.filter(name__in=asked)) if asked else []
        mine = row.created_by_id in {None, self.principal.user.pk}
        said = {
            "row": row,
            "page": page,
            "rows": [told_of(self.principal, one) for one in rows],
            "default": default,
            "chosen": [one.name for one in chosen],
            "compared": selectors.compared(chosen),
            "owner": "" if mine or row.created_by is None else row.created_by.label,
            "comes": any(one.files == Files.COMING for one in rows),
            "served": bool(getattr(row, "endpoint_count", 0)),
        }
        return self.render(said)


class ModelDelete(ProjectView):
    required_permissions: ClassVar = {"POST": Permission.MODEL_MANAGE}
    stands_on = ModelPage

    def post(self, request: HttpRequest, project: str, model: str) -> HttpResponse:
        row = selectors.model_get(self.principal, self.project, model)
        if request.POST.get("confirm", "").strip() != row.name:
            raise wrong("confirm", _t("Type “%(name)s” to confirm.") % {"name": row.name})
        said = request.POST.get("reason", "")
        models.model_delete(principal=self.principal, row=row, said=said)
        messages.success(request, _t("%(name)s is deleted.") % {"name": row.name})
        return HttpResponseRedirect(reverse("models:list", args=[self.project.slug]))


def offer_of_run(who: Principal, run: Run) -> Offer | None:
    """The button on a run's page: register what it left."""
    project = run.job.project
    if run.ended_at is None or not run.output_folder:
        return None
    if Permission.MODEL_MANAGE not in permissions_of(who, project):
        return None
    origin = f"run:{run.job.short_id}/{run.launch}"
    query = urlencode({"model": slugify(run.job.name), "origin": origin})
    url = f"{reverse('models:new', kwargs={'project': project.slug})}?{query}"
    return Offer(_("Register as model"), url, "package")


app_name = "models"
_HERE = "projects/<slug:project>/models"
urlpatterns = [
    path(f"{_HERE}/", ModelList.as_view(), name="list"),
    path(f"{_HERE}/new", VersionNew.as_view(), name="new"),
    path(f"{_HERE}/mlflow", RegistryPage.as_view(), name="mlflow"),
    path(f"{_HERE}/<slug:model>/", ModelPage.as_view(), name="detail"),
    path(f"{_HERE}/<slug:model>/delete", ModelDelete.as_view(), name="delete"),
    path(f"{_HERE}/<slug:model>/<slug:version>", VersionPage.as_view(), name="version"),
]
