"""The form of an endpoint: its model is chosen, and its size follows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from django import forms
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _

from common.templatetags.berth import cpus, filesize, mib
from placement.fleet import Fleet
from projects.access import Permission, permissions_of
from serving.choices import Files, Stage
from serving.fields import TABLE
from serving.kind import ENDPOINT
from serving.models import Endpoint
from serving.runtimes import runtimes_for
from serving.selectors import default_of, versions_deployable
from serving.sizing import GpuKind, Size, recommended
from work.ui.forms import key_of, to_form
from work.ui.launch import form_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from accounts.principal import Principal
    from projects.models import Project
    from serving.models import ModelVersion
    from work.ui.forms import WorkForm

_OFFERED = 300  # versions; any other is typed
_METRICS = 3  # of each that are told


@dataclass(frozen=True)
class Offered:
    """A version to choose: what it is called, what is told of it, and what follows from it."""

    value: str
    label: str
    told: str
    size: str  # field of the form → what it gets, as JSON
    servers: str  # that load it


class ModelInput(forms.TextInput):
    """A list of versions by model, and a field for any other. The field is what is sent."""

    template_name = "serving/_model_input.html"

    def __init__(self, attrs: Mapping[str, Any], groups: Sequence[Any], *, follows: bool) -> None:
        super().__init__(dict(attrs))
        self._groups, self._follows = groups, follows

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        found: dict[str, Any] = super().get_context(name, value, attrs)
        found["widget"] |= {"groups": self._groups, "follows": self._follows}
        return found


def endpoint_form(who: Principal, project: Project, data: Any = None, *, row: Endpoint) -> WorkForm:
    """Return the form of a new one, or of what may change; a size follows only for a new one."""
    form = form_of(who, project, ENDPOINT, data, row=row)
    if "model" not in form.fields:
        return form
    kinds = gpu_kinds(form.fleet)
    rows = versions_deployable(who, project)[:_OFFERED]
    groups = [
        (name, [_offered(one, kinds) for one in several])
        for name, several in groupby(rows, lambda one: one.model.name)
    ]
    field = form.fields["model"]
    field.widget = ModelInput(field.widget.attrs, groups, follows=row.pk is None)
    field.help_text = ""
    if not groups and Permission.MODEL_MANAGE in permissions_of(who, project):
        field.help_text = format_html(
            _('No model is registered yet: <a href="{}">register one</a>, or name an image.'),
            reverse("models:new", args=[project.slug]),
        )
    return form


def size_that_follows(who: Principal, project: Project, form: WorkForm) -> dict[str, Any]:
    """Return the size for the model that a link says, where it says no size."""
    model, _slash, name = str(form.given.get("model", "")).partition("/")
    if not model:
        return {}
    rows = versions_deployable(who, project).filter(model__name=model)
    version = rows.filter(name=name).first() if name else default_of(rows)
    if version is None:
        return {}
    return size_said(recommended(version.framework, version.size_bytes, gpu_kinds(form.fleet)))


def gpu_kinds(fleet: Fleet | None) -> list[GpuKind]:
    """Return the kinds of GPU that an endpoint may get where one has looked."""
    offers = fleet.offers({Endpoint.KIND}) if fleet is not None else ()
    found = {kind.name: kind for room, kind, _pools in offers if room.total}
    return [GpuKind(one.name, one.label or one.name, one.memory_mib) for one in found.values()]


def size_said(size: Size) -> dict[str, Any]:
    """Return a size as the API says it."""
    said = {"cpu_milli": size.cpu_milli, "memory_mib": size.memory_mib}
    return said | {"gpus": size.gpus, "gpu_flavor": size.kind}


def _offered(version: ModelVersion, kinds: Sequence[GpuKind]) -> Offered:
    size = recommended(version.framework, version.size_bytes, kinds)
    fields = {key_of(TABLE[name]): str(to_form(TABLE[name], value) or 0)
              for name, value in size_said(size).items() if name != "gpu_flavor"}  # fmt: skip
    needs = f"{cpus(size.cpu_milli)} CPU, {mib(size.memory_mib)}"
    if size.gpus:
        needs += f", {size.gpus} \N{MULTIPLICATION SIGN} {size.kind_label or 'GPU'}"
    told = [str(version.get_framework_display())]
    told += [filesize(version.size_bytes)] * bool(version.size_bytes)
    told += [f"{name} {value:g}" for name, value in list(version.metrics.items())[:_METRICS]]
    parts = [str(version)]
    if version.stage == Stage.SERVING:
        parts.append(str(version.get_stage_display()))
    if version.files == Files.COMING:
        parts.append(str(version.get_files_display()))
    return Offered(
        value=str(version),
        label=" · ".join(parts),
        told=f"{' · '.join(told)}. {needs}: {size.why}",
        size=json.dumps({**fields, "gpu_flavor": size.kind}),
        servers=" ".join(one.word for one in runtimes_for(version.framework)),
    )
