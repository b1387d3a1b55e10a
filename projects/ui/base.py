"""The pages' only ways in. Every page of the product builds on one of these classes.

* ``ProjectView``: routes with a ``project`` slug; ``required_permissions`` per verb, an
  undeclared verb is refused (405). Handlers find ``self.project``, ``self.principal``,
  ``self.can(permission)``; templates find ``project``, ``role`` and ``can.member_manage`` …
* ``PlatformView``: all other pages; ``required_platform`` is "user", "auditor" or "operator",
  for all verbs or per verb.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views import View

from accounts.principal import Principal, principal_of
from projects.access import Entry, Permission, project_enter
from projects.api.base import require_platform
from projects.models import Project

SESSION_PROJECT = "project"  # the project last looked at; the switcher shows it


class Can:
    """Lets a template ask ``{% if can.project_update %}``."""

    def __init__(self, granted: frozenset[Permission]) -> None:
        self._granted = granted

    def __getitem__(self, name: str) -> bool:
        return Permission[name.upper()] in self._granted


class BerthView(View):
    """What both families share: the principal, refusal of undeclared verbs, rendering."""

    template_name: ClassVar[str] = ""
    partial_name: ClassVar[str] = ""  # what an htmx request gets instead, when set
    principal: Principal

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
        self.principal = principal_of(request)
        self.enter(demand)
        return super().dispatch(request, *args, **kwargs)

    def context(self) -> dict[str, Any]:
        return {"principal": self.principal, "view": self}

    def render(
        self, context: dict[str, Any] | None = None, *, template: str = "", status: int = 200
    ) -> HttpResponse:
        """Render the page, or its partial when htmx asks and the view has one."""
        if not template:
            partial = self.partial_name and getattr(self.request, "htmx", False)
            template = self.partial_name if partial else self.template_name
        return render(self.request, template, {**self.context(), **(context or {})}, status=status)


class ProjectView(BerthView):
    required_permissions: ClassVar[Mapping[str, Permission]] = {}
    project: Project
    entry: Entry

    @classmethod
    def declared(cls, verb: str) -> Permission | None:
        return cls.required_permissions.get(verb)

    def enter(self, demand: Permission) -> None:
        self.entry = project_enter(self.principal, self.kwargs["project"], demand)
        self.project = self.entry.project
        session = self.request.session
        if session.get(SESSION_PROJECT) != self.project.slug:
            session[SESSION_PROJECT] = self.project.slug

    def can(self, permission: Permission) -> bool:
        return self.entry.can(permission)

    def context(self) -> dict[str, Any]:
        return {
            **super().context(),
            "project": self.project,
            "role": self.entry.role,
            "can": Can(self.entry.granted),
        }


class PlatformView(BerthView):
    required_platform: ClassVar[str | Mapping[str, str]] = ""

    @classmethod
    def declared(cls, verb: str) -> str | None:
        if isinstance(cls.required_platform, str):
            return cls.required_platform or None
        return cls.required_platform.get(verb)

    def enter(self, demand: str) -> None:
        require_platform(self.principal, demand)
