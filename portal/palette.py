"""What the command palette finds. One query per kind of thing, whatever the number of rows."""

import secrets
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Q, QuerySet
from django.urls import NoReverseMatch, reverse
from django.utils.translation import get_language_info
from django.utils.translation import gettext as _

from accounts.models import Theme, User
from accounts.principal import Principal
from portal import navigation
from projects.access import Permission, permissions_of, projects_visible_to, scoped
from projects.models import Membership, Project
from work.selectors import visible_to
from work.ui.pages import Pages, registered

EACH = 6


def search(who: Principal, words: str, slug: str) -> list[dict[str, Any]]:
    """Return groups of items that match ``words`` (all words, anywhere, any case)."""
    terms = words.lower().split()
    groups = [
        (_("Workspaces"), _workspaces(who, terms)),
        *((str(pages.kind.many), _work(who, pages, terms)) for pages in registered()),
        (_("Data"), _volumes(who, terms)),
        (_("Loads"), _loads(who, terms)),
        (_("People"), _people(who, terms)),
        (_("Start"), _starts(who, terms, slug)),
        (_("Go to"), _pages(who, terms, slug)),
        (_("Switch project"), _projects(who, terms)),
        (_("Profile"), _acts(terms)),
    ]
    return [{"label": label, "items": items} for label, items in groups if items]


def _matches(text: str, terms: list[str]) -> bool:
    lower = text.lower()
    return all(term in lower for term in terms)


def _contains(column: str, terms: list[str]) -> Q:
    query = Q()
    for term in terms:
        query &= Q(**{f"{column}__icontains": term})
    return query


def _url(name: str, **kwargs: str) -> str:
    try:
        return reverse(name, kwargs=kwargs)
    except NoReverseMatch:
        return ""


def _pages(who: Principal, terms: list[str], slug: str) -> list[dict[str, Any]]:
    if not slug:
        first = projects_visible_to(who).filter(memberships__user=who.user).first()
        slug = first.slug if first else ""
    found = [
        {"label": label, "icon": icon, "url": url}
        for label, icon, url in navigation.pages(slug, operator=who.is_auditor)
        if _matches(label, terms)
    ]
    return found[: 3 * EACH]


def _projects(who: Principal, terms: list[str]) -> list[dict[str, Any]]:
    if not terms:
        return []
    rows = projects_visible_to(who).filter(_contains("name", terms)).order_by("name")[:EACH]
    return [
        {
            "label": row.name,
            "icon": "anchor",
            "hint": row.slug,
            "method": "post",
            "url": reverse("project-switch"),
            "fields": {"project": row.slug},
        }
        for row in rows
    ]


def _workspaces(who: Principal, terms: list[str]) -> list[dict[str, Any]]:
    """Go to a workspace by name; own running ones can be stopped from here."""
    from notebooks.models import Workspace

    stop_word, stopping = _("Stop"), False
    if terms and stop_word.lower().startswith(terms[0]):
        stopping = True
    rows = scoped(
        Workspace.objects.filter(deleted_at__isnull=True), who, Permission.WORKSPACE_READ
    ).filter(owner=who.user)
    named = _contains("name", terms)
    if stopping:
        named |= _contains("name", terms[1:]) & Q(desired="running")
    items: list[dict[str, Any]] = []
    for row in rows.filter(named).select_related("project").order_by("-updated_at")[:EACH]:
        keys = {"project": row.project.slug, "workspace": row.short_id}
        url = _url("notebooks:detail", **keys)
        if url and not stopping:
            items.append(
                {"label": row.name, "icon": "device-laptop", "hint": row.project.name, "url": url}
            )
        stop = _url("notebooks:stop", **keys)
        if stop and row.desired == "running" and terms:
            label = _("Stop %(name)s") % {"name": row.name}
            items.append({"label": label, "icon": "player-stop", "method": "post", "url": stop})
    return items[: EACH + 2]


def _work(who: Principal, pages: Pages, terms: list[str]) -> list[dict[str, Any]]:
    """Go to work of a kind by name; own that goes on can be ended from here."""
    if not terms:
        return []
    stop = str(pages.words.stop)
    stopping = stop.lower().startswith(terms[0])
    named = _contains("name", terms)
    if stopping:
        named |= _contains("name", terms[1:]) & Q(desired="running", owner=who.user)
    found: list[dict[str, Any]] = []
    for row in visible_to(who, pages.kind).filter(named)[:EACH]:
        if not stopping:
            url = pages.address("detail", row)
            found.append(_place(row.name, pages.kind.icon, row.project.name, url))
        elif not pages.states.is_over(row):
            label = f"{stop} {row.name}"
            url = pages.address("stop", row)
            found.append({"label": label, "icon": "player-stop", "method": "post", "url": url})
    return found


def _volumes(who: Principal, terms: list[str]) -> list[dict[str, Any]]:
    from volumes.selectors import volumes_visible_to

    return _named(volumes_visible_to(who), terms, "database", "volumes:detail", "volume")


def _loads(who: Principal, terms: list[str]) -> list[dict[str, Any]]:
    from loaders.selectors import loads_visible_to

    rows = loads_visible_to(who).defer("objects_listed")
    return _named(rows, terms, "database-import", "loaders:detail", "load")


def _named(
    rows: QuerySet[Any], terms: list[str], icon: str, route: str, word: str
) -> list[dict[str, Any]]:
    """Return the places of what is so called; ``word``: what its address calls its uid."""
    if not terms:
        return []
    found = []
    for row in rows.filter(_contains("name", terms))[:EACH]:
        url = _url(route, project=row.project.slug, **{word: str(row.uid)})
        found.append(_place(row.name, icon, row.project.name, url))
    return found


def _people(who: Principal, terms: list[str]) -> list[dict[str, Any]]:
    """Everybody for who reads the console; for others whom they share a project with, there."""
    if not terms:
        return []
    if who.is_auditor and who.token is None:
        named = _contains("username", terms) | _contains("display_name", terms)
        everybody = User.objects.filter(named).order_by("username")[:EACH]
        return [
            _place(one.label, "user", one.username, _url("console:user", user=str(one.uid)))
            for one in everybody
        ]
    named = _contains("user__username", terms) | _contains("user__display_name", terms)
    rows = scoped(Membership.objects.filter(named), who, Permission.MEMBER_READ)
    rows = rows.select_related("user", "project").order_by("user__username", "project__name")
    found = []
    for row in rows[:EACH]:
        page = _url("projects:members", project=row.project.slug)
        url = f"{page}?{urlencode({'q': row.user.username})}"
        found.append(_place(row.user.label, "user", row.project.name, url))
    return found


def _place(label: str, icon: str, hint: str, url: str) -> dict[str, Any]:
    return {"label": label, "icon": icon, "hint": hint, "url": url}


def _acts(terms: list[str]) -> list[dict[str, Any]]:
    """What the frame's own menus do: theme, language, leaving."""
    if not terms:
        return []
    chosen = reverse("preferences")
    found: list[dict[str, Any]] = [
        {
            "label": _("Theme: %(name)s") % {"name": theme.label},
            "icon": navigation.THEME_ICONS[theme],
            "method": "post",
            "url": chosen,
            "fields": {"theme": theme.value},
        }
        for theme in Theme
    ]
    for code, _name in settings.LANGUAGES:
        name = get_language_info(code)["name_local"].capitalize()
        found.append(
            {
                "label": _("Language: %(name)s") % {"name": name},
                "icon": "language",
                "method": "post",
                "url": chosen,
                "fields": {"language": code},
            }
        )
    leaving = {"label": _("Sign out"), "icon": "logout", "method": "post"}
    found.append({**leaving, "url": navigation.first_url("account_logout")})
    return [item for item in found if _matches(str(item["label"]), terms)]


def _starts(who: Principal, terms: list[str], slug: str) -> list[dict[str, Any]]:
    """What can be started in the current project: presets in one press, other work by its form."""
    visible = projects_visible_to(who).filter(slug=slug, archived_at__isnull=True)
    project = visible.first() if slug else None
    if project is None:
        return []
    granted = permissions_of(who, project)
    found = _presets(project, terms) if Permission.WORKSPACE_CREATE in granted else []
    for pages in registered():
        word = str(pages.words.new)
        if pages.kind.create in granted and _matches(word, terms):
            url = pages.list_address("new", slug)
            found.append(_place(word, pages.kind.icon, project.name, url))
    return found


def _presets(project: Project, terms: list[str]) -> list[dict[str, Any]]:
    from notebooks.selectors import presets_for

    start = _("Start")
    terms = terms[1:] if terms and start.lower().startswith(terms[0]) else terms
    return [
        {
            "label": _("Start %(name)s") % {"name": preset.name},
            "icon": "rocket",
            "hint": project.name,
            "method": "post",
            "url": _url("notebooks:new", project=project.slug),
            "fields": {"preset": preset.slug, "nonce": secrets.token_urlsafe(12)},
        }
        for preset in presets_for(project)
        if _matches(preset.name, terms)
    ][:EACH]
