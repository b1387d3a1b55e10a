"""The list of models, and what it and batch predictions are narrowed by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import django_tables2 as tables
from django import forms
from django.db.models import Q
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from common.templatetags.berth import NOTHING, ago
from common.ui.components import FilterForm, choice, search_field
from jobs.choices import State
from jobs.models import Job
from jobs.states import FILTERS
from serving.choices import Framework
from work.ui.tables import NUMBER

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.utils.safestring import SafeString

    from serving.models import BatchPrediction, Model


class ModelFilter(FilterForm):
    q = search_field(_("Name or what it is good for"))
    framework = choice(_("Framework"), *Framework.choices)
    served = choice(_("Served"), ("1", _("By an endpoint")), ("0", _("By none")))

    def narrowed(self, rows: QuerySet[Model]) -> QuerySet[Model]:
        """Return those that fit; a filter that makes no sense narrows nothing."""
        chosen = self.cleaned_data if self.is_valid() else {}
        wanted = Q()
        if words := chosen.get("q", "").replace("\x00", ""):
            wanted &= Q(name__icontains=words) | Q(description__icontains=words)
        if word := chosen.get("framework"):
            wanted &= Q(("newest_framework", word))
        if served := chosen.get("served"):
            wanted &= Q(("endpoint_count__gt", 0)) if served == "1" else Q(("endpoint_count", 0))
        return rows.filter(wanted)


class BatchFilter(FilterForm):
    q = search_field(_("Job, model or endpoint"))
    state = choice(_("State"), *((word, State(word).label) for word in FILTERS))

    def __init__(self, said: Any) -> None:
        super().__init__(said)
        for name in ("model", "endpoint"):  # whose they are stays
            self.fields[name] = forms.CharField(required=False, widget=forms.HiddenInput)

    @property
    def narrows(self) -> bool:
        return any(self.data.get(name) for name in ("q", "state"))

    def narrowed(self, rows: QuerySet[BatchPrediction]) -> QuerySet[BatchPrediction]:
        """Return those that fit; a filter that makes no sense narrows nothing."""
        chosen = self.cleaned_data if self.is_valid() else {}
        if words := chosen.get("q", "").replace("\x00", ""):
            rows = rows.filter(Q(job__name__icontains=words) | Q(asked__icontains=words))
        if word := chosen.get("state"):
            rows = rows.filter(job__in=Job.objects.filter(FILTERS[word]))
        return rows


class ModelTable(tables.Table):
    name = tables.Column(verbose_name=_("Name"), attrs={"td": {"class": "name-cell"}})
    framework = tables.Column(verbose_name=_("Framework"), accessor="newest_framework")
    newest = tables.Column(verbose_name=_("Newest"), orderable=False)
    versions = tables.Column(verbose_name=_("Versions"), accessor="version_count", attrs=NUMBER)
    endpoints = tables.Column(verbose_name=_("Endpoints"), accessor="endpoint_count", attrs=NUMBER)
    by = tables.Column(
        verbose_name=_("Registered by"), accessor="created_by", order_by="created_by__username"
    )
    changed = tables.Column(verbose_name=_("Latest version"), accessor="newest_at")

    class Meta:
        default = NOTHING
        order_by = "name"
        attrs: ClassVar[dict[str, Any]] = {"aria_label": _("Models")}

    def render_name(self, record: Model) -> SafeString:
        about = format_html('<span class="text-secondary d-block">{}</span>', record.description)
        named = format_html('<a href="{}">{}</a>', record.get_absolute_url(), record.name)
        return format_html("<div>{}{}</div>", named, about if record.description else "")

    def render_framework(self, value: str) -> str:
        return str(Framework(value).label) if value in Framework else NOTHING

    def render_by(self, record: Model) -> str:
        return record.created_by.label if record.created_by else NOTHING

    def render_changed(self, value: Any) -> SafeString | str:
        return ago(value)
