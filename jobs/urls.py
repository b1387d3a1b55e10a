"""The pages of jobs: those of any kind of work; where programs fetch their code."""

from django.urls import include, path

from jobs import code
from jobs.ui.pages import PAGES
from jobs.ui.runs import RunAgain, Runs
from work.ui.urls import urls_for

urlpatterns = [
    path("hub/api/berth/jobs/<uuid:job>/code", code.code, name="job-code"),
    path("", include((urls_for(PAGES, {"runs": Runs, "run-again": RunAgain}), PAGES.routes))),
]
