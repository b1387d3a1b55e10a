# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The pages of loads that no other kind has, and what is their own in the common ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse

from clusters.streams import LogPart
from loaders import logs, services
from loaders.choices import Task
from loaders.models import Load
from loaders.ui.present import bar_of
from loaders.ui.runs import runs_table
from work.ui import launch, views
from work.ui.base import OneView

_TASKS = {"dry-run": Task.DRY_RUN}  # by the button; any other one loads


class New(launch.New):
    """Three fields and one press."""

    def make(self, said: Mapping[str, Any]) -> Load:
        task = _TASKS.get(self.request.POST.get("start", ""), Task.LOAD)
        nonce = self.request.POST.get("nonce", "")
        new: dict[str, Any] = {"project": self.project, "said": said, "nonce": nonce}
        return services.load_create(principal=self.principal, **new, task=task)


class Bar(OneView):
    """The bar in a list, which changes by itself."""

    demands = views.READ
    template_name = "loaders/_bar.html"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        return self.render({"row": row, "bar": bar_of(row)})


class History(OneView):
    """All runs that are kept."""

    demands = views.READ
    template_name = "loaders/history.html"
    tab = "history"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        return self.render(self.page(row, {"runs": runs_table(self.principal, row, 100)}))


class Logs(views.Logs):
    """The end of what one run wrote; a script asks whether another one began since."""

    template_name = "loaders/logs.html"
    numbered = "run"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        if not getattr(request, "htmx", False):
            return super().get(request, project, **keys)
        row = self.inside()
        number, choices = self.chosen(row)
        newer = {"row": row, "choices": choices, "chosen": number}
        return self.render(newer, template="loaders/_newer.html")

    def read(self, row: Any, number: int) -> Callable[..., LogPart]:
        return read_run(row, number)


class LogDownload(views.LogDownload):
    numbered = "run"

    def read(self, row: Any, number: int) -> Callable[..., LogPart]:
        return read_run(row, number)


def read_run(row: Load, number: int) -> Callable[..., LogPart]:
    run = logs.run_of(row, number or None)
    return partial(logs.run_read, run.pk if run else 0)
