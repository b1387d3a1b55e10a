"""What the page shell needs on every page; constant number of queries, none for fragments."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from accounts.models import Theme
from accounts.principal import Principal
from common import disk
from portal import navigation

MOST_PROJECTS = 30  # in the switcher; the list page has the rest


def shell(request: HttpRequest) -> dict[str, Any]:
    """Lazy: a fragment that never draws the frame costs nothing."""
    return {
        "berth_version": settings.BERTH_VERSION,
        "shell": SimpleLazyObject(lambda: _shell(request)),
    }


def _shell(request: HttpRequest) -> dict[str, Any]:
    who: Principal | None = getattr(request, "principal", None)
    frame: dict[str, Any] = {
        "theme": request.COOKIES.get("berth_theme", "auto"),
        "themes": [
            {"value": t.value, "label": t.label, "icon": navigation.THEME_ICONS[t]} for t in Theme
        ],
        "login_path": navigation.first_url(settings.LOGIN_URL),
        "live_url": navigation.first_url("events-stream"),
        "announcements": _announcements(),
    }
    if frame["theme"] not in Theme.values:
        frame["theme"] = "auto"
    if who is None:
        return frame
    projects = _projects(who)
    project = _current(request, who, projects)
    slug = project.slug if project else ""
    frame |= {
        "theme": who.user.theme or "auto",
        "projects": projects[:MOST_PROJECTS],
        "project": project,
        "nav": navigation.project_nav(request, slug),
        "console_nav": navigation.console_nav(request) if who.is_auditor else [],
        "profile_nav": navigation.profile_nav(request),
        "projects_url": navigation.first_url("projects:list"),
        "project_create_url": _create_url(who),
        "logout_url": navigation.first_url("account_logout"),
        "bell_url": navigation.first_url("notifications:bell"),
        "notifications_url": navigation.first_url("notifications:list"),
        "unread": _unread(who),
    }
    return frame


def _create_url(who: Principal) -> str:
    if settings.BERTH_PROJECT_CREATION != "anyone" and not who.is_operator:
        return ""
    return navigation.first_url("projects:create", "projects:new")


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


def _unread(who: Principal) -> int:
    try:
        from notifications.selectors import unread_count
    except ImportError:
        return 0
    return unread_count(who.user)


def _announcements() -> list[Any]:
    first = []
    if disk.is_short():
        first = [{"severity": "danger", "title": "", "message": disk.DiskFull().message}]
    try:
        from notifications.selectors import announcements_now
    except ImportError:
        return first
    return [*first, *announcements_now()]
