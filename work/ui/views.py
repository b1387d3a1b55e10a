# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The pages of any kind of work: the list, and one piece of it with what happens now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django_tables2 import RequestConfig

from clusters.streams import MAX_DOWNLOAD, LogPart, log_tail
from common.errors import BerthError, NotFound
from common.ui.responses import as_file, go, to_yaml
from events import selectors as events
from projects.access import roles_kept
from work import services
from work.logs import launch_log
from work.selectors import reads_private, visible_to
from work.ui import bulk
from work.ui.base import OneView, WorkView
from work.ui.command import command_made_by
from work.ui.present import facts, volumes_of
from work.ui.tables import FilterForm, WorkTable, filtered

PER_PAGE = 25
READ: Mapping[str, str] = {"GET": "read"}
_DIGITS = 9


class List(WorkView):
    """All of the project that one may see; filters live in the URL."""

    demands: ClassVar[Mapping[str, str]] = READ
    template_name = "work/list.html"

    @roles_kept()
    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        form = FilterForm(request.GET, pages=self.pages)
        rows = visible_to(self.principal, self.kind, self.project).defer(*self.pages.unread)
        table = WorkTable(
            filtered(form, rows, self.principal), who=self.principal, pages=self.pages
        )
        RequestConfig(request, paginate={"per_page": PER_PAGE, "silent": True}).configure(table)
        self.pages.seen([one.record for one in table.page.object_list])
        shown = {
            "table": table,
            "filters": form,
            "deeds": bulk.deeds_of(self.pages),
            "bulk_url": self.pages.list_address("bulk", self.project.slug),
            "new_url": self.pages.list_address("new", self.project.slug),
            "links": [
                (reverse(route, kwargs={"project": self.project.slug}), word, icon)
                for route, word, icon in self.pages.links
            ],
        }
        return self.render(shown)


class Detail(OneView):
    """What is happening now, and what it is."""

    demands: ClassVar[Mapping[str, str]] = READ
    template_name = "work/detail.html"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        return self.render(self.page(row, _overview(self, row)))


class State(OneView):
    """The part of the page that changes by itself: all of the overview, or its head."""

    demands: ClassVar[Mapping[str, str]] = READ
    template_name = "work/_overview.html"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        if request.GET.get("part") == "head":
            return self.render(self.page(row), template="work/_head.html")
        return self.render(self.page(row, _overview(self, row)))


def _overview(view: OneView, row: Any) -> dict[str, Any]:
    private = reads_private(view.principal, row)
    return {
        "facts": partial(facts, row, private=private),  # a kind may have a part of its own
        "volumes": volumes_of(row),
        **view.pages.own_part_of(view.principal, row),
    }


class Logs(OneView):
    """The end of what one of its processes wrote, followed live when there is a script."""

    demands: ClassVar[Mapping[str, str]] = READ
    template_name = "work/logs.html"
    tab = "logs"
    numbered: ClassVar[str] = "replica"  # what its number is of

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.inside()
        number, choices = self.chosen(row)
        context: dict[str, Any] = {"choices": choices, "chosen": number, "numbered": self.numbered}
        query = {self.numbered: number} if len(choices) > 1 else {}
        api = {"project": self.project.slug, self.kind.word: self.kind.key_of(row)}
        by_api = reverse(f"api-{self.kind.word}-logs", kwargs=api, query=query)
        context["stream_url"] = self.pages.log_stream(row) or by_api
        context["download_url"] = self.pages.address("log-download", row, query=query)
        try:
            context["log"] = log_tail(self.read(row, number))
        except BerthError as error:
            context["problem"] = error.message
        page = self.page(row, context)
        if page["state"].is_over:
            page["log_empty"] = _("It wrote nothing, or what it wrote is not kept any more.")
        return self.render(page)

    def chosen(self, row: Any) -> tuple[int, list[tuple[int, str]]]:
        """Return which of its logs is asked for, and all that there are."""
        choices = self.pages.logs_of(row)
        text = self.request.GET.get(self.numbered, "")
        if not text:
            return choices[0][0] if choices else 0, choices
        known = text.isascii() and text.isdecimal() and len(text) <= _DIGITS
        if not known or int(text) not in dict(choices):
            raise NotFound(_("It has no such log."))
        return int(text), choices

    def read(self, row: Any, number: int) -> Callable[..., LogPart]:
        return partial(launch_log, row.pk, row.launch, replica=number)


class LogDownload(Logs):
    """All that is kept of one log, as a file."""

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.inside()
        number, choices = self.chosen(row)
        text = log_tail(self.read(row, number), limit=MAX_DOWNLOAD).data
        tail = f"-{number}" if len(choices) > 1 else ""
        return as_file(text, f"{self.kind.key_of(row)}{tail}.log")


class Events(OneView):
    """What people did to it, and the steps of its starts."""

    demands: ClassVar[Mapping[str, str]] = READ
    template_name = "work/events.html"
    tab = "events"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        untold = [word for word, text in self.pages.step_words.items() if not text]
        steps, more_steps = events.newest(row.steps.exclude(word__in=untold).order_by("-id"))
        told, more = events.newest(events.of_target(row.uid))
        said = {"events": told, "more_events": more, "steps": steps, "more_steps": more_steps}
        return self.render(self.page(row, said))


class Yaml(OneView):
    """The document that makes it again."""

    demands: ClassVar[Mapping[str, str]] = READ
    template_name = "work/yaml.html"
    tab = "yaml"

    def get(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        private = reads_private(self.principal, row)
        document = services.manifest_of(row, private=private)
        document["spec"] |= self.pages.named(self.principal, row)
        said = {
            "manifest": to_yaml(document),
            "command": f"berth apply -f {self.kind.word}.yaml",
            "made_by": command_made_by(self.principal, row) if private else "",
            "left_out": not private,
        }
        return self.render(self.page(row, said))


class Delete(OneView):
    """Delete it behind its typed name; its owner, or who may manage: services decide."""

    demands: ClassVar[Mapping[str, str]] = {"POST": "read"}

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:
        row = self.row()
        services.workload_delete(
            principal=self.principal,
            row=row,
            typed_name=request.POST.get("confirm", ""),
            said=request.POST.get("reason", ""),
        )
        messages.success(request, _("“%(name)s” is being deleted.") % {"name": row.name})
        return go(request, self.pages.list_address("list", self.project.slug))
