"""The pages of jobs: those of any kind of work, and their own; where programs fetch their code and
report.
"""

from django.urls import include, path

from jobs import code, hub
from jobs.ui import views
from jobs.ui.artifacts import ArtifactFiles, Artifacts, CopyAgain
from jobs.ui.pages import PAGES
from jobs.ui.runs import RunAgain, RunChanged, RunGoodput, Runs, RunsOfAll, TensorBoard
from work.ui.urls import urls_for

_OWN = {
    "runs": Runs,
    "run-again": RunAgain,
    "goodput": RunGoodput,
    "run-changed": RunChanged,
    "artifacts": Artifacts,
    "artifact-files": ArtifactFiles,
    "copy-again": CopyAgain,
    "tensorboard": TensorBoard,
    "result": views.Result,
    "result-page": views.ResultPage,
}
_pages = [
    path("jobs/from/<slug:workspace>/", views.FromLab.as_view(), name="from-lab"),
    # before any job's own: their ids have ten letters
    path("projects/<slug:project>/jobs/runs/", RunsOfAll.of(PAGES).as_view(), name="all-runs"),
    *urls_for(PAGES, _OWN),
]
urlpatterns = [
    path("hub/api/berth/jobs/<uuid:job>/code", code.code, name="job-code"),
    path("hub/api/berth/jobs/<uuid:job>/report", hub.report, name="job-report"),
    path("", include((_pages, PAGES.routes))),
]
