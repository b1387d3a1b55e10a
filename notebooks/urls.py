"""Home and the pages of workspaces. In URLs the word is ``workspaces``."""

from django.urls import path

from notebooks.ui import acts, bulk, home, launch, views

app_name = "notebooks"

_ALL = "projects/<slug:project>/workspaces/"
_ONE = f"{_ALL}<slug:workspace>/"

urlpatterns = [
    path("", home.Home.as_view(), name="home"),
    path("workspaces/<slug:workspace>/", home.Find.as_view(), name="find"),
    path(_ALL, launch.List.as_view(), name="list"),
    path(f"{_ALL}act/", bulk.BulkAct.as_view(), name="bulk"),
    path(f"{_ALL}launch/", launch.Launch.as_view(), name="launch"),
    path(f"{_ALL}launch/plan/", launch.LaunchPlan.as_view(), name="plan"),
    path(_ONE, views.Detail.as_view(), name="detail"),
    path(f"{_ONE}state/", views.State.as_view(), name="state"),
    path(f"{_ONE}start/", acts.Start.as_view(), name="start"),
    path(f"{_ONE}stop/", acts.Stop.as_view(), name="stop"),
    path(f"{_ONE}repin/", acts.Repin.as_view(), name="repin"),
    path(f"{_ONE}extend/", acts.Extend.as_view(), name="extend"),
    path(f"{_ONE}delete/", acts.Delete.as_view(), name="delete"),
    path(f"{_ONE}share/", acts.ShareWith.as_view(), name="share"),
    path(f"{_ONE}unshare/", acts.Unshare.as_view(), name="unshare"),
    path(f"{_ONE}logs/", views.Logs.as_view(), name="logs"),
    path(f"{_ONE}logs/download/", views.LogDownload.as_view(), name="log-download"),
    path(f"{_ONE}events/", views.Events.as_view(), name="events"),
    path(f"{_ONE}usage/", views.Usage.as_view(), name="usage"),
    path(f"{_ONE}yaml/", views.Yaml.as_view(), name="yaml"),
    path(f"{_ONE}settings/", views.Settings.as_view(), name="settings"),
]
