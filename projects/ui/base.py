"""The pages' way into a project. Every page with a ``project`` in its route builds on it.

``ProjectView``: ``required_permissions`` per verb, an undeclared verb is refused (405).
Handlers find ``self.project``, ``self.principal``, ``self.can(permission)``; templates find
``project``, ``role`` and ``can.member_manage`` … Pages outside projects use ``PlatformView``
(``common.ui.views``, typed here for upper apps).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from django import template
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.principal import Principal
from common.errors import BerthError
from common.ui import views
from projects.access import Entry, Permission, project_enter
from projects.choices import Role
from projects.models import Project

if TYPE_CHECKING:
    from django.utils.functional import Promise


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


register = template.Library()


@register.simple_tag
def role_label(value: str | None) -> str:
    """The role in the reader's language; a dash for somebody outside."""
    return str(Role(value).label) if value else "-"


MOST = 100  # rows at one time: more than a page of a list has


@dataclass(frozen=True)
class Deed:
    """What can be done to many. ``destroys``: asked for by a typed word.

    ``title`` and ``done`` are for how many: they return words with ``%(n)d``.
    """

    name: str
    icon: str
    on_chosen: Promise | str
    title: Callable[[int], str]
    done: Callable[[int], str]
    act: Callable[..., Any]  # principal=, row=, said=: why, of what is another's
    fits: Callable[..., bool]  # principal, row
    lost: Promise | str = ""
    destroys: bool = False


@dataclass(frozen=True)
class Chosen:
    """A row as the page names it; ``who``: whose it is, '' where it is one's own."""

    key: str
    name: str
    who: str
    url: str


def asking(route: str, project: Project, act: str, key: str) -> str:
    """Return the address of the page that asks before it is done to one row."""
    return reverse(route, kwargs={"project": project.slug}, query={"act": act, "id": key})


class BulkPage(views.BerthView):
    """``GET`` asks, ``POST`` does it: to those that it can be done to, each by itself."""

    template_name = "projects/bulk.html"
    deeds: ClassVar[Sequence[Deed]]

    def back(self) -> str:
        """Return the address of the list that they were chosen from."""
        raise NotImplementedError

    def chosen(self, keys: Sequence[str]) -> Sequence[Any]:
        """Return the rows of these keys that one may see."""
        raise NotImplementedError

    def described(self, row: Any) -> Chosen:
        raise NotImplementedError

    def get(self, request: HttpRequest, **_keys: str) -> HttpResponse:
        deed, rows, left_out = self._asked(request.GET)
        if deed is None or not rows:
            messages.warning(request, _("Nothing was chosen that this can be done to."))
            return redirect(self.back())
        return self._page(deed, rows, left_out)

    def post(self, request: HttpRequest, **_keys: str) -> HttpResponse:
        deed, rows, left_out = self._asked(request.POST)
        if deed is None or not rows:
            return redirect(self.back())
        if deed.destroys and request.POST.get("confirm", "").strip() != self._word(rows):
            messages.error(request, _("This is not the word. Nothing was deleted."))
            return self._page(deed, rows, left_out, status=422)
        said = request.POST.get("reason", "")
        if not said.strip() and any(self.described(row).who for row in rows):
            messages.error(request, _("Say why: some of it is others', and they are told it."))
            return self._page(deed, rows, left_out, status=422)
        done = 0
        for row in rows:
            try:
                deed.act(principal=self.principal, row=row, said=said)
                done += 1
            except BerthError as error:
                messages.error(request, f"{self.described(row).name}: {error.message}")
        if done:
            messages.success(request, deed.done(done))
        return redirect(self.back())

    def _asked(self, said: Any) -> tuple[Deed | None, list[Any], list[Any]]:
        """What is to be done, to which rows, and which of the chosen it can't be done to."""
        deed = next((one for one in self.deeds if one.name == said.get("act")), None)
        if deed is None:
            return None, [], []
        rows = list(self.chosen([key[:64] for key in said.getlist("id")][:MOST]))
        fit = [row for row in rows if deed.fits(self.principal, row)]
        return deed, fit, [row for row in rows if row not in fit]

    def _word(self, rows: Sequence[Any]) -> str:
        return self.described(rows[0]).name if len(rows) == 1 else str(len(rows))

    def _page(
        self, deed: Deed, rows: Sequence[Any], left_out: Sequence[Any], status: int = 200
    ) -> HttpResponse:
        shown = [self.described(row) for row in rows]
        context = {
            "deed": deed,
            "title": deed.title(len(rows)),
            "rows": shown,
            "owners": ", ".join(dict.fromkeys(row.who for row in shown if row.who)),
            "reason": self.request.POST.get("reason", ""),
            "left_out": [self.described(row) for row in left_out],
            "word": self._word(rows),
            "back": self.back(),
        }
        return self.render(context, status=status)


class Bulk(BulkPage, ProjectView):
    """That of a list of a project."""

    list_route: ClassVar[str]

    def back(self) -> str:
        return reverse(self.list_route, kwargs={"project": self.project.slug})
