"""Machines with their GPUs and who holds them; the queue."""

from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse

from console import selectors
from console.forms import MachineFilter
from console.views.base import ConsoleView


class Machines(ConsoleView):
    """What is there, what is used, by whom; refreshed while somebody looks."""

    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "console/machines.html"
    partial_name = "console/_machines.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        form = MachineFilter(request.GET or None)
        words = form.cleaned_data["q"] if form.is_valid() else ""
        found = selectors.machines_matching(words.strip())
        return self.render({"machines": found, "form": form, "sought": words.strip()})


class Queue(ConsoleView):
    """Who waits, in order, each with its one sentence."""

    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "console/queue.html"
    partial_name = "console/_queue.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return self.render({"waiting": selectors.queue(), "flavors": selectors.flavors()})
