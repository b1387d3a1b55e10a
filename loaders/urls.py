"""The pages of loads, and where running loads report."""

from django.urls import include, path

from loaders import hub
from loaders.ui import views
from loaders.ui.pages import PAGES
from work.ui.urls import urls_for

_OWN = {
    "new": views.New,
    "logs": views.Logs,
    "log-download": views.LogDownload,
    "bar": views.Bar,
    "history": views.History,
}
urlpatterns = [
    path("hub/api/berth/loads/<uuid:load>/report", hub.report, name="load-report"),
    path("", include((urls_for(PAGES, _OWN), PAGES.routes))),
]
