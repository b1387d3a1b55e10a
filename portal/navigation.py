"""What the rail shows. An entry whose page does not exist is left out, never a dead link."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.models import Theme

THEME_ICONS = {Theme.AUTO: "contrast-2", Theme.LIGHT: "sun", Theme.DARK: "moon"}


@dataclass(frozen=True)
class Entry:
    """``names``: the URL names tried in turn. ``section``: paths below it count as current."""

    label: str | Promise
    icon: str
    names: tuple[str, ...]
    project: bool = False  # the URL takes the current project's slug


HOME = Entry(_("Home"), "home", ("home", "notebooks:home"))
PROJECT = (
    Entry(_("Workspaces"), "device-laptop", ("notebooks:list",), project=True),
    Entry(_("Data"), "database", ("volumes:list",), project=True),
    Entry(_("Loads"), "database-import", ("loaders:list",), project=True),
    Entry(_("Credentials"), "key", ("credentials:list",), project=True),
    Entry(_("Usage"), "chart-histogram", ("usage:project", "usage:overview"), project=True),
    Entry(_("Members"), "users", ("projects:members",), project=True),
    Entry(_("Activity"), "activity", ("projects:events", "projects:activity"), project=True),
    Entry(_("Project"), "anchor", ("projects:overview", "projects:detail"), project=True),
)
CONSOLE = (
    Entry(_("Overview"), "dashboard", ("console:overview",)),
    Entry(_("People"), "users-group", ("console:users",)),
    Entry(_("Groups"), "id-badge-2", ("console:groups",)),
    Entry(_("Projects"), "folders", ("console:projects",)),
    Entry(_("Presets"), "layout-grid", ("console:presets",)),
    Entry(_("Clusters"), "topology-star-3", ("console:clusters",)),
    Entry(_("Kinds of GPU"), "cpu-2", ("console:flavors",)),
    Entry(_("Capacity"), "chart-histogram", ("console:capacity",)),
    Entry(_("Storage"), "database-cog", ("console:volume-classes",)),
    Entry(_("Machines"), "server-2", ("console:machines",)),
    Entry(_("All workspaces"), "devices", ("console:workspaces",)),
    Entry(_("Queue"), "list-numbers", ("console:queue",)),
    Entry(_("Audit log"), "clipboard-list", ("console:audit",)),
    Entry(_("Announcements"), "speakerphone", ("console:announcements",)),
    Entry(_("System"), "heart-rate-monitor", ("console:system",)),
)
PROFILE = (
    Entry(_("Profile"), "user", ("accounts:profile",)),
    Entry(_("Security and sessions"), "shield-lock", ("accounts:security", "accounts:sessions")),
    Entry(_("API tokens"), "key", ("accounts:tokens",)),
    Entry(_("Own credentials"), "key", ("credentials:own",)),
    Entry(_("SSH keys"), "terminal-2", ("accounts:ssh-keys", "accounts:ssh_keys")),
    Entry(_("My usage"), "chart-histogram", ("usage:mine",)),
    Entry(_("Notification settings"), "bell-cog", ("notifications:settings",)),
    Entry(_("API documentation"), "api", ("api-docs",)),
)


def url_of(entry: Entry, slug: str = "") -> str:
    """Return the address of an entry, or '' where there is no such page."""
    return first_url(*entry.names, slug=slug if entry.project else "")


def first_url(*names: str, slug: str = "") -> str:
    for name in names:
        try:
            return reverse(name, kwargs={"project": slug} if slug else None)
        except NoReverseMatch:
            continue
    return ""


def _items(entries: tuple[Entry, ...], path: str, slug: str = "") -> list[dict[str, Any]]:
    found = [
        {"label": entry.label, "icon": entry.icon, "url": url, "current": False}
        for entry in entries
        if (url := url_of(entry, slug))
    ]
    # the longest address that begins the path is where we are
    under = [item for item in found if _begins(path, str(item["url"]))]
    if under:
        max(under, key=lambda item: len(str(item["url"])))["current"] = True
    return found


def _begins(path: str, url: str) -> bool:
    return path == url or (url != "/" and path.startswith(url.rstrip("/") + "/"))


def project_nav(request: HttpRequest, slug: str) -> list[dict[str, Any]]:
    home = _items((HOME,), request.path)
    return home + (_items(PROJECT, request.path, slug) if slug else [])


def console_nav(request: HttpRequest) -> list[dict[str, Any]]:
    return _items(CONSOLE, request.path)


def profile_nav(request: HttpRequest) -> list[dict[str, Any]]:
    return _items(PROFILE, request.path)


def pages(slug: str, *, operator: bool) -> Iterator[tuple[str, str, str]]:
    """Yield (label, icon, url) of every page, for the command palette."""
    entries = (HOME, *(PROJECT if slug else ()), *PROFILE, *(CONSOLE if operator else ()))
    for entry in entries:
        if url := url_of(entry, slug):
            yield str(entry.label), entry.icon, url
