# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The pages of runs: those of a job, those of a project, two side by side, one of them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib import messages
from django.http import HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from common.errors import BerthError, Conflict, Forbidden, Invalid
from common.paging import paginate
from common.ui.responses import go, refuse
from jobs import goodput, runs
from jobs.choices import State
from jobs.replicas import moment
from jobs.tensorboard import MOST, is_offered, tensorboard_open
from projects.access import roles_kept
from work.selectors import (
    form_values,
    given_words,
    may_change,
    offers_for,
    reads_private,
)
from work.services.resolve import edited
from work.ui.acts import Act
from work.ui.base import OneView, WorkView
from work.ui.forms import WorkForm
from work.ui.launch import changeable
from work.ui.views import READ

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from django.http import HttpRequest, HttpResponse

    from accounts.principal import Principal
    from jobs.models import Run

_PAIR = 2  # are compared
_CHOICE = 12  # of runs, beside the one that is looked at
_MOST_PARTS = 300
_MOVES = 5  # that a table shows


def compared(view: WorkView, pair: Sequence[Run]) -> dict[str, Any]:
    """Return what two runs differ in, or that two are to be chosen; {} where none are."""
    if not pair:
        return {}
    if len(pair) != _PAIR:
        return {"choose_two": True}
    private = all(reads_private(view.principal, run.job) for run in pair)
    one_job = pair[0].job_id == pair[1].job_id
    return {
        "compared": runs.compare(*pair, private=private),
        "one_job": one_job,
        "shows_curves": one_job and is_offered(view.principal, pair[0].job),
        "chosen": [run.launch for run in pair],
    }


def lines(view: WorkView, found: Sequence[Run]) -> list[dict[str, Any]]:
    """Return what a table of runs shows of each; its code to the owner of its job only."""
    return [
        {
            "run": run,
            "badge": _badge(view.pages, run.job, run),
            "took": run.took,
            "moves": _latest(run.moves),
            "counts": _latest(run.counts),
            "code": runs.code_of(run) if reads_private(view.principal, run.job) else "",
            "mine": may_change(view.principal, run.job),
        }
        for run in found
    ]


def _latest(said: Sequence[Any]) -> str:
    """Return the latest few, one after the other: its goodput has when each began."""
    shown = said[-_MOVES:]
    return " → ".join(map(str, (*["…"][: len(said) - len(shown)], *shown)))


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
                (
                    *(moment(p.begin / 1000), moment(p.end / 1000)),
                    *(goodput.WORDS[p.cause][0], p.launch, found.gpus_of(p.launch)),
                )
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


class Runs(OneView):
    """All runs of a job; where two are chosen (``of``), what those differ in."""

    demands: ClassVar[Mapping[str, str]] = {**READ, "POST": "read"}
    template_name = "jobs/runs.html"
    tab = "runs"

    @roles_kept()
    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        chosen = sorted(runs.run_number(text, "of") for text in request.GET.getlist("of"))
        pair = [runs.run_get(row, number) for number in chosen[: _PAIR + 1]]
        page = paginate(request, runs.runs_of(row))
        said = {**compared(self, pair), "page": page, "lines": lines(self, list(page.object_list))}
        return self.render(self.page(row, {**said, "shows_all": is_offered(self.principal, row)}))

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        return _go_on(
            request, self.principal, lambda text: runs.run_get(row, runs.run_number(text, "of"))
        )


def _go_on(request: HttpRequest, principal: Principal, run: Callable[[str], Run]) -> HttpResponse:
    """Go on with the runs that were chosen (``of``): to the page that compares them, or, with
    ``curves``, to a TensorBoard of all of them.
    """
    chosen = request.POST.getlist("of")
    if not chosen:
        messages.info(request, _("Choose runs in the list first."))
    if "curves" not in request.POST or not chosen:
        said = request.POST.copy()
        for name in ("csrfmiddlewaretoken", "curves"):
            said.pop(name, None)
        return HttpResponseRedirect(f"{request.path}?{said.urlencode()}")
    first, *others = [run(text) for text in chosen[: MOST + 1]]
    made = tensorboard_open(
        principal=principal, row=first.job, launches=[first.launch], beside=others, must_fit=True
    )
    return go(request, f"{made.get_absolute_url()}?open=1")


class RunFilter(forms.Form):
    """The filters of the runs of a project; their state lives in the URL."""

    job = forms.CharField(
        label=gettext_lazy("Job"),
        required=False,
        max_length=80,
        widget=forms.TextInput(attrs={"type": "search", "placeholder": gettext_lazy("Name or id")}),
    )
    state = forms.ChoiceField(label=gettext_lazy("State"), required=False)
    by = forms.CharField(label=gettext_lazy("Asked for by"), required=False, max_length=150)
    since = forms.DateField(
        label=gettext_lazy("Since"), required=False, widget=forms.DateInput(attrs={"type": "date"})
    )
    until = forms.DateField(
        label=gettext_lazy("Until"), required=False, widget=forms.DateInput(attrs={"type": "date"})
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        how = [(word, State(word).label) for word in (runs.GOES_ON, *runs.ENDS)]
        self.fields["state"].choices = [("", gettext_lazy("Any")), *how]  # type: ignore[attr-defined]
        self.fields["by"].widget.attrs["placeholder"] = gettext_lazy("User name")


class RunsOfAll(WorkView):
    """All runs of a project, filtered; two of them, of any of its jobs, side by side."""

    demands: ClassVar[Mapping[str, str]] = {**READ, "POST": "read"}
    template_name = "jobs/all_runs.html"

    @roles_kept()
    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        form = RunFilter(request.GET)
        form.is_valid()  # a filter that makes no sense narrows nothing, and says so
        wanted = runs.Wanted(**{name: value for name, value in form.cleaned_data.items() if value})
        page = paginate(request, runs.runs_in(self.principal, self.kind, self.project, wanted))
        pair = [self._run(text) for text in request.GET.getlist("of")[: _PAIR + 1]]
        kept = [(name, text) for name, text in request.GET.items() if name in form.fields and text]
        said = {
            "filters": form,
            "kept": kept,
            "page": page,
            "lines": lines(self, list(page.object_list)),
            "shows_all": any(is_offered(self.principal, run.job) for run in page.object_list),
        }
        return self.render({**said, **compared(self, pair)})

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        return _go_on(request, self.principal, self._run)

    def _run(self, text: str) -> Run:
        return runs.run_named(self.principal, self.kind, self.project, text, "of")


class RunAgain(Act):
    """Exactly what a run was, with the same bytes."""

    def act(self, row: Any, request: HttpRequest) -> str:
        number = runs.run_number(request.POST.get("run", ""), "run")
        runs.run_again(principal=self.principal, row=row, launch=number)
        return _("Run %(n)d of “%(name)s” starts again.") % {"n": number, "name": row.name}


class TensorBoard(OneView):
    """A press that opens TensorBoard on one run, or on several beside each other (``run``)."""

    demands: ClassVar[Mapping[str, str]] = {"POST": "read"}

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        launches = [runs.run_number(text, "run") for text in request.POST.getlist("run")]
        who = {"principal": self.principal, "row": self.row()}
        made = tensorboard_open(**who, launches=launches, must_fit=True)
        return go(request, f"{made.get_absolute_url()}?open=1")


class RunChanged(OneView):
    """A form that begins as a run was; what it says is what the job then runs."""

    demands: ClassVar[Mapping[str, str]] = {"GET": "create", "POST": "create"}
    template_name = "jobs/run_changed.html"
    tab = "runs"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.inside()
        if "run" not in request.GET:
            return HttpResponseRedirect(self.pages.address("runs", row))
        run = runs.run_get(row, runs.run_number(request.GET["run"], "run"))
        form, problem = self._form(row, run)
        return self._page(row, run, form, problem=problem)

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.inside()
        run = runs.run_get(row, runs.run_number(request.POST.get("run", ""), "run"))
        form, _problem = self._form(row, run, request.POST)
        if not form.is_valid():
            return self._page(row, run, form, status=422)
        who = {"principal": self.principal, "row": row}
        try:
            row = runs.run_again(**who, launch=run.launch, changes=form.said())
        except (Invalid, Conflict, Forbidden) as error:
            return self._page(row, run, form, refuse(request, form, error, form.names))
        return go(request, self.pages.address("detail", row))

    def _form(self, row: Any, run: Run, data: Any = None) -> tuple[WorkForm, str]:
        """Return the form and, where what it was is not there any more, what of it is not."""
        kind = self.kind
        shown, given, problem = row, None, ""
        try:
            said = runs.said_by(row, run)
            found = edited(principal=self.principal, row=row, kind=kind, said=said)
            shown, given = found.row, found.attached
        except BerthError as error:
            problem = error.message
        table, offers = changeable(kind, row), offers_for(self.principal, self.project, kind, row)
        own = kind.own.read(shown, private=True)
        values = form_values(row) if given is None else own | given_words(given)
        return WorkForm(data, table=table, offers=offers, values=values), problem

    def _page(
        self, row: Any, run: Run, form: WorkForm, status: int = 200, *, problem: str = ""
    ) -> HttpResponse:
        check = self.pages.image_check_address(self.project.slug, row.cluster_key)
        said = {"form": form, "run": run, "image_check_url": check, "problem": problem}
        return self.render(self.page(row, said), status=status)
