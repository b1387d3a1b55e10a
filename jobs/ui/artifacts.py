# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The page of what a run left: how far its copy is, its files, and to copy it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from django.urls import reverse
from django.utils.translation import gettext as _

from jobs import outputs, runs
from jobs.choices import OutputState
from jobs.tensorboard import is_offered
from work.ui.acts import Act
from work.ui.views import READ, OneView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import HttpRequest, HttpResponse

    from jobs.outputs import Output

CHOSEN_FROM = 50  # the latest runs
SHOWN = 200  # of its files; the rest is counted
_LOAD = "output_load"
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
        found = outputs.output_of(run) if run else None
        said: dict[str, Any] = {"run": run, "output": found}
        if run is not None and found is not None and found.state != OutputState.NONE:
            numbers = list(has_output.values_list("launch", flat=True)[:CHOSEN_FROM])
            said |= {"numbers": numbers, "badge": (found.state.label, *_BADGES[found.state])}
            said |= self._files(found)
            said |= {"chosen": [run.launch], "shows_curves": is_offered(self.principal, row)}
        return self.render(self.page(row, said))

    def _files(self, found: Output) -> dict[str, Any]:
        """Return its files, each with where it can be looked at."""
        run, volume = found.run, found.run.output_volume
        here = ""
        if found.is_here and volume is not None:
            keys = {"project": self.project.slug, "volume": volume.uid}
            here = f"{reverse('files:browse', kwargs=keys)}#"
        lines = []
        for path, size in found.named[:SHOWN]:
            folder = f"{run.output_folder}/{path}".rpartition("/")[0]
            lines.append((path, size, f"{here}{quote(folder)}" if here else ""))
        folder_url = f"{here}{quote(run.output_folder)}" if here else ""
        more = found.files - len(lines) if lines else 0
        return {"lines": lines, "folder_url": folder_url, "more": max(0, more)}


class CopyAgain(Act):
    """What is not there yet; a bucket that denied may have been mended."""

    def act(self, row: Any, request: HttpRequest) -> str:
        number = runs.run_number(request.POST.get("run", ""), "run")
        outputs.output_again(principal=self.principal, row=row, launch=number)
        return _("What run %(n)d left is copied again.") % {"n": number}
