"""What the frame of every page needs, in a constant number of queries, and its rail.

An entry whose page does not exist is left out, never a dead link. A fragment costs nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.functional import Promise, SimpleLazyObject
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from accounts.models import Theme
from accounts.principal import Principal
from clusters.installed import has_simulated_gpus
from common import disk
from notifications.selectors import announcements_now, unread_count
from runtime.models import ONE_MACHINE

THEME_ICONS = {Theme.AUTO: "contrast-2", Theme.LIGHT: "sun", Theme.DARK: "moon"}


@dataclass(frozen=True)
class Entry:
    """``names``: the URL names tried in turn. ``section``: paths below it count as current."""

    label: str | Promise
    icon: str
    names: tuple[str, ...]
    project: bool = False  # the URL takes the current project's slug


HOME = Entry(_("Home"), "home", ("home", "notebooks:home"))
FLEET = Entry(_("Fleet"), "grid-dots", ("fleet:page",))
PROJECT = (
    Entry(_("Workspaces"), "device-laptop", ("notebooks:list",), project=True),
    Entry(_("Jobs"), "stack-2", ("jobs:list",), project=True),
    Entry(_("Searches"), "adjustments", ("experiments:list",), project=True),
    Entry(_("Performance tests"), "gauge", ("perftests:list",), project=True),
    Entry(_("Models"), "package", ("models:list",), project=True),
    Entry(_("Endpoints"), "api", ("endpoints:list",), project=True),
    Entry(_("Batch predictions"), "table-export", ("batches:list",), project=True),
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
    Entry(_("Queues"), "sitemap", ("queues:tree",)),
    Entry(_("Queue"), "list-numbers", ("console:queue",)),
    Entry(_("Budgets"), "hourglass", ("budgets:list",)),
    Entry(_("Patrol"), "walk", ("parking:patrol",)),
    Entry(_("Idle policies"), "parking", ("parking:policies",)),
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
    Entry(_("Webhooks"), "webhook", ("webhooks:own",)),
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
    home = _items((HOME, FLEET), request.path)
    return home + (_items(PROJECT, request.path, slug) if slug else [])


def console_nav(request: HttpRequest) -> list[dict[str, Any]]:
    return _items(CONSOLE, request.path)


def profile_nav(request: HttpRequest) -> list[dict[str, Any]]:
    return _items(PROFILE, request.path)


def pages(slug: str, *, operator: bool) -> Iterator[tuple[str, str, str]]:
    """Yield (label, icon, url) of every page, for the command palette."""
    entries = (HOME, FLEET, *(PROJECT if slug else ()), *PROFILE, *(CONSOLE if operator else ()))
    for entry in entries:
        if url := url_of(entry, slug):
            yield str(entry.label), entry.icon, url


MOST_PROJECTS = 30  # in the switcher; the list page has the rest


def shell(request: HttpRequest) -> dict[str, Any]:
    """Lazy: a fragment that never draws the frame costs nothing."""
    return {
        "berth_version": settings.BERTH_VERSION,
        "shell": SimpleLazyObject(lambda: _shell(request)),
    }


def _shell(request: HttpRequest) -> dict[str, Any]:
    who: Principal | None = getattr(request, "principal", None)
    full = []
    if disk.is_short():
        full = [{"severity": "danger", "title": "", "message": disk.DiskFull().message}]
    frame: dict[str, Any] = {
        "theme": request.COOKIES.get("berth_theme", "auto"),
        "themes": [{"value": t.value, "label": t.label, "icon": THEME_ICONS[t]} for t in Theme],
        "login_path": first_url(settings.LOGIN_URL),
        "live_url": first_url("events-stream"),
        "announcements": [*full, *_demonstration(), *announcements_now()],
        "has_simulated_gpus": has_simulated_gpus(ONE_MACHINE),
    }
    if frame["theme"] not in Theme.values:
        frame["theme"] = "auto"
    if who is None:
        return frame
    projects = _projects(who)
    project = _current(request, who, projects)
    slug = project.slug if project else ""
    may_create = settings.BERTH_PROJECT_CREATION == "anyone" or who.is_operator
    frame |= {
        "theme": who.user.theme or "auto",
        "projects": projects[:MOST_PROJECTS],
        "project": project,
        "nav": project_nav(request, slug),
        "console_nav": console_nav(request) if who.is_auditor else [],
        "profile_nav": profile_nav(request),
        "projects_url": first_url("projects:list"),
        "project_create_url": first_url("projects:create", "projects:new") if may_create else "",
        "logout_url": first_url("account_logout"),
        "bell_url": first_url("notifications:bell"),
        "notifications_url": first_url("notifications:list"),
        "unread": unread_count(who.user),
    }
    match = request.resolver_match
    is_told = settings.BERTH_DEMO  # by the line that all of its pages have
    if (
        frame["has_simulated_gpus"]
        and not is_told
        and match is not None
        and "console" in match.app_names
    ):
        said = {"title": _t("The GPUs of this machine are simulated."), "severity": "info"}
        script = settings.BERTH_SIMULATED_GPUS
        frame["announcements"].append(
            {**said, "message": _t("BERTH_SIMULATED_GPUS says %(gpus)s.") % {"gpus": script}}
        )
    return frame


def _demonstration() -> list[dict[str, Any]]:
    if not settings.BERTH_DEMO:
        return []
    text = _t("Its people, their work and its GPUs are made up.")
    return [{"severity": "info", "title": _t("This is a demonstration."), "message": text}]


def _projects(who: Principal) -> list[Any]:
    """The projects one belongs to, also for operators: the switcher is about one's own work."""
    from projects.models import Project

    return list(
        Project.objects.filter(
            memberships__user=who.user, deleted_at__isnull=True, archived_at__isnull=True
        ).order_by("name")
    )


def _current(request: HttpRequest, who: Principal, projects: list[Any]) -> Any:
    from projects.access import projects_visible_to
    from projects.ui.base import SESSION_PROJECT

    match = request.resolver_match
    slug = (match.kwargs.get("project") if match else "") or request.session.get(SESSION_PROJECT)
    for project in projects:
        if project.slug == slug:
            return project
    if slug:
        found = projects_visible_to(who).filter(slug=slug).first()
        if found:
            return found
    return projects[0] if projects else None
