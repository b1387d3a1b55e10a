# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The page of a job's runs: each with how it ended, two of them side by side, one of them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.utils.translation import gettext as _

from common.paging import Paginator
from jobs import goodput, runs
from jobs.choices import State
from jobs.replicas import moment
from work.selectors import reads_private
from work.ui.acts import Act
from work.ui.views import READ, OneView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import HttpRequest, HttpResponse

PER_PAGE = 50
_CHOICE = 12  # of runs, beside the one that is looked at
_MOST_PARTS = 300


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


class RunGoodput(OneView):
    """What the time of one run came to (``run``; the latest where none is named), and when."""

    demands: ClassVar[Mapping[str, str]] = READ
    template_name = "jobs/goodput.html"
    tab = "goodput"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        named = request.GET.get("run", "")
        run = runs.run_get(row, runs.run_number(named, "run")) if named else None
        run = run or runs.runs_of(row).first()
        found = goodput.goodput_of(row, run)
        said: dict[str, Any] = {"run": run, "latest": list(runs.runs_of(row)[:_CHOICE])}
        if found is not None:
            said |= goodput.shown(found)
            said["parts"] = [
                (moment(p.begin / 1000), moment(p.end / 1000), goodput.WORDS[p.cause][0], p.launch)
                for p in found.parts[:_MOST_PARTS]
            ]
            said["more_parts"] = max(0, len(found.parts) - _MOST_PARTS)
        return self.render(self.page(row, said))


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
