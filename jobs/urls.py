"""The pages of jobs: those of any kind of work."""

from jobs.ui.pages import PAGES
from work.ui.urls import urls_for

app_name = PAGES.routes
urlpatterns = urls_for(PAGES)
