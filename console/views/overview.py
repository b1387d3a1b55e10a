"""The first page of the console."""

from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse

from console.overview import overview
from console.views.base import ConsoleView


class Overview(ConsoleView):
    """What is used, what waits, what is unwell and what somebody should do; kept fresh."""

    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "console/overview.html"
    partial_name = "console/_overview.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return self.render({"seen": overview()})
