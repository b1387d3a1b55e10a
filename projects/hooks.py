"""What other apps add to the life of a project, and what a project holds, told by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from common.hooks import Hook

if TYPE_CHECKING:
    from accounts.models import User
    from accounts.principal import Principal
    from projects.choices import Role
    from projects.models import Project


# What a new project has without anybody's asking.
project_created: Hook[[Project, Principal | None], None] = Hook()
# What ends when somebody is no longer a member (removed, left, group lost).
member_left: Hook[[Project, User, Principal | None], None] = Hook()
# What follows from a changed role; it gets the new one.
role_changed: Hook[[Project, User, Role, Principal | None], None] = Hook()


# What a project holds, told by the apps that put it there.
#
# Workload apps and volumes register here in ``AppConfig.ready``. Deleting a project asks each to
# delete its own (intent only); the project's row goes after all summaries are empty.


@dataclass(frozen=True)
class ContentSummary:
    """One line of "this will be lost": ``text`` is for people ("3 workspaces, 2 running").

    ``running_text``: what of it runs, in words ("2 workspaces"); "" where nothing does.
    """

    kind: str
    text: str
    count: int
    running: int = 0
    names: tuple[str, ...] = ()
    running_text: str = ""


Summarize = Callable[["Project"], list[ContentSummary]]
Ask = Callable[["Project", "Principal | None"], None]


@dataclass(frozen=True)
class Source:
    """``request_delete`` and ``request_stop`` are idempotent and only write intent."""

    summarize: Summarize
    request_delete: Ask
    request_stop: Ask | None = None


_sources: dict[str, Source] = {}


def register_contents(
    kind: str, summarize: Summarize, *, request_delete: Ask, request_stop: Ask | None = None
) -> None:
    """``summarize`` lists what is not gone yet, also what is being deleted."""
    _sources[kind] = Source(summarize, request_delete, request_stop)


def summaries(project: Project) -> list[ContentSummary]:
    found = [s for source in _sources.values() for s in source.summarize(project)]
    return [s for s in found if s.count]


def running_words(found: Sequence[ContentSummary]) -> str:
    """Return what runs of it, in words: "2 workspaces, 1 load"; "" where nothing does."""
    return ", ".join(s.running_text or s.text for s in found if s.running)


def request_delete(project: Project, who: Principal | None) -> None:
    for source in _sources.values():
        source.request_delete(project, who)


def request_stop(project: Project, who: Principal | None) -> None:
    for source in _sources.values():
        if source.request_stop is not None:
            source.request_stop(project, who)
