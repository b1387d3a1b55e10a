"""What every page shares; the two families of the product build on it.

``PlatformView`` is for pages outside projects: ``required_platform`` is "user", "auditor" or
"operator", for all verbs or per verb. Pages of a project use ``projects.ui.base``. What is
not declared is refused (405).
"""

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views import View

from common.drf.views import require_platform
from common.errors import BerthError
from common.ui.responses import Refused, status_of


class BerthView(View):
    """What both families share: the principal, refusal of undeclared verbs, rendering."""

    template_name: ClassVar[str] = ""
    partial_name: ClassVar[str] = ""  # what an htmx request gets instead, when set
    # The page that this view's form stands on: it is shown again where the form is refused.
    stands_on: ClassVar["type[BerthView] | None"] = None
    principal: Any  # accounts.principal.Principal, which lies above this module

    @classmethod
    def declared(cls, verb: str) -> Any:
        """Return what ``verb`` demands; None = refused."""
        raise NotImplementedError

    def enter(self, demand: Any) -> None:
        raise NotImplementedError

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        verb = "GET" if request.method == "HEAD" else str(request.method)
        demand = self.declared(verb)
        if demand is None or not hasattr(self, verb.lower()):
            return HttpResponseNotAllowed([v for v in ("GET", "POST") if self.declared(v)])
        self.principal = request.principal  # type: ignore[attr-defined]
        self.enter(demand)
        try:
            return super().dispatch(request, *args, **kwargs)
        except BerthError as error:
            fragment = getattr(request, "htmx", False)
            if self.stands_on is None or verb != "POST" or fragment or status_of(error) >= 500:  # noqa: PLR2004 - HTTP
                raise
            return self._again(self.stands_on, error)

    def _again(self, page: "type[BerthView]", error: BerthError) -> HttpResponseBase:
        """Show the page that the form stands on, with what was typed and, there, what is wrong.

        Templates find it as ``refused``; projects.middleware writes the error down.
        """
        self.request.berth_error = error  # type: ignore[attr-defined]
        self.request.berth_refused = Refused(self.request, error)  # type: ignore[attr-defined]
        shown = page()
        wanted = inspect.signature(shown.get).parameters  # type: ignore[attr-defined]
        takes_all = any(one.kind is one.VAR_KEYWORD for one in wanted.values())
        keys = {k: value for k, value in self.kwargs.items() if takes_all or k in wanted}
        shown.setup(self.request, **keys)
        shown.principal = self.principal
        shown.enter(page.declared("GET"))
        response: HttpResponse = shown.get(self.request, **keys)  # type: ignore[attr-defined]
        response.status_code = status_of(error)
        return response

    def context(self) -> dict[str, Any]:
        refused = getattr(self.request, "berth_refused", None)
        return {"principal": self.principal, "view": self, "refused": refused}

    def render(
        self, context: dict[str, Any] | None = None, *, template: str = "", status: int = 200
    ) -> HttpResponse:
        """Render the page, or its partial when htmx asks and the view has one."""
        if not template:
            partial = self.partial_name and getattr(self.request, "htmx", False)
            template = self.partial_name if partial else self.template_name
        return render(self.request, template, {**self.context(), **(context or {})}, status=status)


class PlatformView(BerthView):
    required_platform: ClassVar[str | Mapping[str, str]] = ""

    @classmethod
    def declared(cls, verb: str) -> str | None:
        if isinstance(cls.required_platform, str):
            return cls.required_platform or None
        return cls.required_platform.get(verb)

    def enter(self, demand: str) -> None:
        require_platform(self.principal, demand)
