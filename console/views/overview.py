"""The first page of the console."""

from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from console.views.base import ConsoleView


class Overview(ConsoleView):
    required_platform: ClassVar[Any] = {"GET": "auditor"}

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return HttpResponseRedirect(reverse("console:machines"))
