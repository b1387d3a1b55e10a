"""The fleet at a glance: every GPU as a cell, and the same as a table."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from django import forms
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from clusters.models import Flavor, Pool
from fleet.asked import asked_of, moment_of
from fleet.counts import counts
from fleet.render import drawn, memory_percent
from fleet.selectors import CLOSED, CORDONED, DOWN, UP, clusters_seen, look
from placement.levels import LABELS
from projects.access import projects_visible_to
from projects.ui.base import PlatformView

PAGE = 15  # nodes of the table on one page
TABLE = "table"
STATE_WORDS = {
    UP: _("up"),
    CORDONED: _("takes nothing new"),
    CLOSED: _("closed to work"),
    DOWN: _("does not answer"),
}


class FilterForm(forms.Form):
    """Which part of the fleet; its state lives in the address."""

    view = forms.CharField(required=False, widget=forms.HiddenInput)
    colour = forms.CharField(required=False, widget=forms.HiddenInput)
    cluster = forms.ChoiceField(label=_("Cluster"), required=False)
    kind = forms.ChoiceField(label=_("Kind of GPU"), required=False)
    pool = forms.ChoiceField(label=_("Pool"), required=False)
    project = forms.ChoiceField(label=_("Project"), required=False)

    def __init__(self, view: PlatformView, data: Any) -> None:
        super().__init__(data)
        clusters = clusters_seen(view.principal)
        pools = Pool.objects.filter(cluster__in=clusters).order_by("name")
        projects = projects_visible_to(view.principal).order_by("name")
        offered = {
            "cluster": [(one.key, one.label) for one in clusters],
            "kind": Flavor.objects.order_by("position", "name").values_list("name", "label"),
            "pool": [(n, n) for n in dict.fromkeys(pools.values_list("name", flat=True))],
            "project": projects.values_list("slug", "name"),
        }
        for name, choices in offered.items():
            field: Any = self.fields[name]
            field.choices = [("", _t("All")), *choices]


class Page(PlatformView):
    """The page; htmx gets what stands above the cells, which refreshes itself."""

    required_platform: ClassVar = "user"
    template_name = "fleet/page.html"
    partial_name = "fleet/_now.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        asked = asked_of(request.GET)
        fleet = look(self.principal, asked)
        made = counts(self.principal, fleet, asked)
        params = request.GET.copy()
        for name in ("view", "page", "colour"):
            params.pop(name, None)
        context: dict[str, Any] = {
            "fleet": fleet,
            "counts": made,
            "largest": [(LABELS[level], number) for level, number in made.largest.items()],
            "query": params.urlencode(),
            "data_url": f"{reverse('fleet:data')}?{params.urlencode()}",
        }
        if getattr(request, "htmx", False):
            return self.render(context)
        context |= {"form": FilterForm(self, request.GET), "states": STATE_WORDS}
        if request.GET.get("view") == TABLE:
            page = Paginator(fleet.places, PAGE).get_page(request.GET.get("page"))
            rows = [
                {
                    "place": place,
                    "state": STATE_WORDS[place.state],
                    "cells": [
                        {
                            "cell": cell,
                            "kind": fleet.flavors.get(cell.flavor, cell.flavor),
                            "holder": fleet.holders.get(cell.uid) if cell.uid else None,
                            "memory": memory_percent(cell),
                        }
                        for cell in place.cells
                    ],
                }
                for place in page.object_list
            ]
            return self.render({**context, "page": page, "rows": rows}, template="fleet/table.html")
        return self.render(context)


class Data(PlatformView):
    """What the page draws, now or as it was."""

    required_platform: ClassVar = "user"

    def get(self, request: HttpRequest) -> HttpResponse:
        fleet = look(self.principal, asked_of(request.GET), moment_of(request.GET))
        body = json.dumps(drawn(fleet), separators=(",", ":"), ensure_ascii=False)
        return HttpResponse(body, content_type="application/json")


app_name = "fleet"
urlpatterns = [
    path("fleet/", Page.as_view(), name="page"),
    path("fleet/data", Data.as_view(), name="data"),
]
