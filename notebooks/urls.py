"""Home and the pages of workspaces: those of any kind, and their own."""

from django.urls import path

from notebooks.ui import home, views
from notebooks.ui.pages import PAGES
from work.ui.urls import urls_for

app_name = PAGES.routes
_OWN = {
    "detail": views.Detail,
    "state": views.State,
    "usage": views.Usage,
}
urlpatterns = [
    path("", home.Home.as_view(), name="home"),
    path("workspaces/<slug:workspace>/", home.Find.as_view(), name="find"),
    *urls_for(PAGES, _OWN),
]
