"""The pages of loads, and where running loads report."""

from django.urls import include, path

from loaders import hub
from loaders.ui import acts, bulk, form, logs, views

_ALL = "projects/<slug:project>/loads/"
_ONE = f"{_ALL}<uuid:load>/"

_pages = [
    path(_ALL, views.List.as_view(), name="list"),
    path(f"{_ALL}act/", bulk.BulkAct.as_view(), name="bulk"),
    path(f"{_ALL}new/", form.New.as_view(), name="new"),
    path(f"{_ALL}new/plan/", form.NewPlan.as_view(), name="plan"),
    path(_ONE, views.Detail.as_view(), name="detail"),
    path(f"{_ONE}state/", views.State.as_view(), name="state"),
    path(f"{_ONE}bar/", views.Bar.as_view(), name="bar"),
    path(f"{_ONE}history/", views.History.as_view(), name="history"),
    path(f"{_ONE}logs/", logs.Logs.as_view(), name="logs"),
    path(f"{_ONE}logs/download/", logs.LogDownload.as_view(), name="log-download"),
    path(f"{_ONE}events/", views.Events.as_view(), name="events"),
    path(f"{_ONE}yaml/", views.Yaml.as_view(), name="yaml"),
    path(f"{_ONE}settings/", form.Settings.as_view(), name="settings"),
    *(path(f"{_ONE}{n}/", acts.Act.as_view(name=n), name=n) for n in acts.STARTS),
    *(path(f"{_ONE}{n}/", acts.Ending.as_view(name=n), name=n) for n in acts.ENDS),
    path(f"{_ONE}delete/", acts.Delete.as_view(), name="delete"),
]

urlpatterns = [
    path("hub/api/berth/loads/<uuid:load>/report", hub.report, name="load-report"),
    path("", include((_pages, "loaders"))),
]
