"""The pages' way into a project. Every page with a ``project`` in its route builds on it.

``ProjectView``: ``required_permissions`` per verb, an undeclared verb is refused (405).
Handlers find ``self.project``, ``self.principal``, ``self.can(permission)``; templates find
``project``, ``role`` and ``can.member_manage`` … Pages outside projects use ``PlatformView``
(``common.ui.views``, typed here for upper apps).
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from accounts.principal import Principal
from common.ui import views
from projects.access import Entry, Permission, project_enter
from projects.models import Project

SESSION_PROJECT = "project"  # the project last looked at; the switcher shows it


class Can:
    """Lets a template ask ``{% if can.project_update %}``."""

    def __init__(self, granted: frozenset[Permission]) -> None:
        self._granted = granted

    def __getitem__(self, name: str) -> bool:
        return Permission[name.upper()] in self._granted


class ProjectView(views.BerthView):
    required_permissions: ClassVar[Mapping[str, Permission]] = {}
    principal: Principal
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


class PlatformView(views.PlatformView):
    """A page outside projects."""

    principal: Principal
