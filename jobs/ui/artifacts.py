# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The page of what a run left: how far its copy is, its files, and to copy it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.principal import Principal
from common.errors import BerthError
from common.hooks import Hook
from jobs import output_copies, output_states, runs
from jobs.choices import OutputState
from jobs.models import Run
from jobs.tensorboard import is_offered
from work.ui.acts import Act
from work.ui.views import READ, OneView

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.http import HttpRequest, HttpResponse
    from django.utils.functional import Promise

    from jobs.output_states import Output

CHOSEN_FROM = 50  # the latest runs
SHOWN = 200  # of its files; the rest is counted
_LOAD = "output_load"


@dataclass(frozen=True)
class Offer:
    """A button beside what a run left."""

    label: str | Promise
    url: str
    icon: str


# What apps above do with it; None: nothing with this one.
offers: Hook[[Principal, Run], Offer | None] = Hook()
_RELATED = ("output_volume", _LOAD, f"{_LOAD}__volume", f"{_LOAD}__credential")
# state → tone and shape of its badge
_BADGES = {
    OutputState.WRITING: ("starting", "loader-2"),
    OutputState.KEPT: ("good", "circle-check"),
    OutputState.NOTHING: ("quiet", "circle-x"),
    OutputState.WAITING: ("pending", "hourglass"),
    OutputState.COPYING: ("starting", "loader-2"),
    OutputState.COMPLETE: ("good", "circle-check"),
    OutputState.PARTIAL: ("warning", "alert-circle"),
    OutputState.FAILED: ("failed", "alert-triangle"),
}


class Artifacts(OneView):
    """What a run left, of the latest where none is chosen; its owner's alone, as its log."""

    demands: ClassVar[Mapping[str, str]] = READ
    template_name = "jobs/artifacts.html"
    tab = "artifacts"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.inside()
        has_output = runs.runs_of(row).exclude(output_folder="").select_related(*_RELATED)
        text = request.GET.get("run", "")
        run = runs.run_get(row, runs.run_number(text, "run")) if text else has_output.first()
        found = output_states.output_of(run) if run else None
        said: dict[str, Any] = {"run": run, "output": found}
        if run is not None and found is not None and found.state != OutputState.NONE:
            numbers = list(has_output.values_list("launch", flat=True)[:CHOSEN_FROM])
            said |= {"numbers": numbers, "badge": (found.state.label, *_BADGES[found.state])}
            said |= self._files(found)
            said |= {"offers": [one for one in offers(self.principal, run) if one is not None]}
            said |= {"chosen": [run.launch], "shows_curves": is_offered(self.principal, row)}
        return self.render(self.page(row, said))

    def _files(self, found: Output) -> dict[str, Any]:
        """Return its files, each with where it can be looked at."""
        here = browser_of(found.run) if found.is_here else ""
        folder_url = f"{here}{quote(found.run.output_folder)}" if here else ""
        lines = lines_of(found.run, found.named, here)
        more = max(0, found.files - len(lines)) if lines else 0
        return {"lines": lines, "folder_url": folder_url, "more": more}


class ArtifactFiles(OneView):
    """What lies in the folder of a run now: part of its page, asked again until it is open."""

    demands: ClassVar[Mapping[str, str]] = {"POST": "read"}
    template_name = "jobs/_artifact_files.html"

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.inside()
        run = runs.run_get(row, runs.run_number(request.POST.get("run", ""), "run"))
        try:
            found = output_states.files_of(self.principal, run)
        except BerthError as error:
            return self.render({"row": row, "run": run, "problem": error.message})
        lines = lines_of(run, found.files, browser_of(run))
        said = {"row": row, "run": run, "found": found, "lines": lines}
        return self.render({**said, "more": len(found.files) - len(lines)})


def browser_of(run: Run) -> str:
    """Return where the volume that a run writes to is looked into; "": it is gone."""
    if run.output_volume is None:
        return ""
    keys = {"project": run.job.project.slug, "volume": run.output_volume.uid}
    return f"{reverse('files:browse', kwargs=keys)}#"


def lines_of(run: Run, files: Sequence[tuple[str, int]], here: str) -> list[tuple[str, int, str]]:
    """Return path, size and address of the first of its files; ``here``: of the file browser."""
    lines = []
    for path, size in files[:SHOWN]:
        folder = f"{run.output_folder}/{path}".rpartition("/")[0]
        lines.append((path, size, f"{here}{quote(folder)}" if here else ""))
    return lines


class CopyAgain(Act):
    """What is not there yet; a bucket that denied may have been mended."""

    def act(self, row: Any, request: HttpRequest) -> str:
        number = runs.run_number(request.POST.get("run", ""), "run")
        output_copies.output_again(principal=self.principal, row=row, launch=number)
        return _("What run %(n)d left is copied again.") % {"n": number}
