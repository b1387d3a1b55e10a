"""The frame of the settings pages."""

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.principal import Principal
from common.ui.views import PlatformView

TABS: tuple[tuple[str, Promise | str], ...] = (
    ("accounts:profile", _("Profile")),
    ("accounts:security", _("Security")),
    ("accounts:sessions", _("Sessions")),
    ("accounts:tokens", _("API tokens")),
    ("accounts:ssh-keys", _("SSH keys")),
)
_more: list[tuple[str, Promise | str, Callable[[], bool]]] = []


def add_tab(name: str, label: Promise | str, shown: Callable[[], bool]) -> None:
    """Called by apps above that have a page among the own settings, where it makes sense."""
    if name not in {known for known, _label, _shown in _more}:
        _more.append((name, label, shown))


def tabs(path: str) -> list[dict[str, Any]]:
    every = [*TABS, *((name, label) for name, label, shown in _more if shown())]
    found: list[dict[str, Any]] = [{"label": label, "url": reverse(name)} for name, label in every]
    for tab in found:
        tab["current"] = path.startswith(str(tab["url"]))
    if not any(tab["current"] for tab in found) and path.startswith("/accounts/"):
        found[1]["current"] = True  # password, e-mail and second factors belong to Security
    return found


class SettingsView(PlatformView):
    required_platform: ClassVar[Any] = "user"
    principal: Principal

    def context(self) -> dict[str, Any]:
        return {**super().context(), "person": self.principal.user}

    def done(self, sentence: object, target: str) -> HttpResponse:
        """Say what happened and go back; an htmx request is led there as well."""
        messages.success(self.request, str(sentence))
        return HttpResponseRedirect(reverse(target))
