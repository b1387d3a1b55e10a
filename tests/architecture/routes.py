"""Every route of the product, found by walking the URL configuration."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from common.drf.views import BerthAPIMixin, PlatformAPIMixin
from common.ui.views import BerthView, PlatformView
from projects.api.base import ProjectAPIMixin
from projects.ui.base import ProjectView

VERBS = ("GET", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True)
class Route:
    """One concrete route."""

    path: str  # with <placeholders>
    name: str
    callback: Any
    params: tuple[str, ...]

    @property
    def view(self) -> type | None:
        return getattr(self.callback, "cls", None) or getattr(self.callback, "view_class", None)

    @property
    def actions(self) -> dict[str, str]:
        """Verb to action, for viewsets."""
        return {k.upper(): v for k, v in (getattr(self.callback, "actions", None) or {}).items()}

    @property
    def verbs(self) -> list[str]:
        """The verbs that have a handler."""
        if self.actions:
            return [v for v in VERBS if v in self.actions]
        return [v for v in VERBS if self.view and hasattr(self.view, v.lower())]

    @property
    def is_read(self) -> bool:
        """A GET is answered by a handler; where nobody knows that, by what the library does."""
        return not self.is_ours or "GET" in self.verbs

    @property
    def is_api(self) -> bool:
        return self.is_a(BerthAPIMixin)

    @property
    def in_project(self) -> bool:
        return self.is_a(ProjectView) or self.is_a(ProjectAPIMixin)

    @property
    def on_platform(self) -> bool:
        return self.is_a(PlatformView) or self.is_a(PlatformAPIMixin)

    @property
    def is_ours(self) -> bool:
        return self.is_a(BerthView) or self.is_a(BerthAPIMixin)

    def is_a(self, base: type) -> bool:
        return self.view is not None and issubclass(self.view, base)

    def demand(self, verb: str) -> Any:
        """What the view declares for ``verb``; None = refused."""
        view: Any = self.view
        return view.declared(verb)


def every_route() -> list[Route]:
    return list(_walk(get_resolver().url_patterns, "", ()))


def _walk(patterns: Any, prefix: str, params: tuple[str, ...]) -> Iterator[Route]:
    for item in patterns:
        path = prefix + _text(item.pattern)
        names = (
            params
            + tuple(getattr(item.pattern, "converters", {}) or ())
            + tuple(getattr(getattr(item.pattern, "regex", None), "groupindex", {}) or ())
        )
        names = tuple(dict.fromkeys(names))
        if isinstance(item, URLResolver):
            yield from _walk(item.url_patterns, path, names)
        elif isinstance(item, URLPattern):
            yield Route("/" + path, item.name or "", item.callback, names)


def _text(pattern: Any) -> str:
    return str(getattr(pattern, "_route", None) or getattr(pattern, "_regex", ""))
