# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The page of a job's runs: each with how it ended, two of them side by side, one of them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.utils.translation import gettext as _

from common.paging import Paginator
from jobs import runs
from jobs.choices import State
from work.selectors import reads_private
from work.ui.acts import Act
from work.ui.views import READ, OneView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import HttpRequest, HttpResponse

PER_PAGE = 50


class Runs(OneView):
    """All runs; where two are chosen (``of``), what those differ in."""

    demands: ClassVar[Mapping[str, str]] = READ
    template_name = "jobs/runs.html"
    tab = "runs"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        chosen = request.GET.getlist("of")
        said: dict[str, Any] = {}
        if len(chosen) == 2:  # noqa: PLR2004 - two are compared
            older, newer = sorted(runs.run_number(text, "of") for text in chosen)
            pair = (runs.run_get(row, older), runs.run_get(row, newer))
            said["compared"] = runs.compare(*pair, private=reads_private(self.principal, row))
        elif chosen:
            said["choose_two"] = True
        page = Paginator(runs.runs_of(row), PER_PAGE).get_page(request.GET.get("page"))
        lines = [(run, *_badge(self.pages, row, run)) for run in page.object_list]
        return self.render(self.page(row, {**said, "page": page, "lines": lines}))


def _badge(pages: Any, row: Any, run: Any) -> tuple[str, str, str]:
    """Return the word of a run, its tone and its shape; of one that goes on, those of the job."""
    if run.how:
        state = State(run.how)
    elif run.launch == row.launch or row.is_on_its_way:
        state = pages.states.of(row)
    else:
        state = State.CANCELLED  # nobody saw its end: a newer one began
    return (str(state.label), *pages.shapes[state])


class RunAgain(Act):
    """Exactly what a run was, with the same bytes."""

    def act(self, row: Any, request: HttpRequest) -> str:
        number = runs.run_number(request.POST.get("run", ""), "run")
        runs.run_again(principal=self.principal, row=row, launch=number)
        return _("Run %(n)d of “%(name)s” starts again.") % {"n": number, "name": row.name}
