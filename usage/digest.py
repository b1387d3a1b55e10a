"""The digest of a week: told on its Monday after, to those who want it, once.

Of a project its owners and managers are told, of the whole platform its operators; a person's
settings say whether in the page and by mail.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Sum
from django.template.defaultfilters import floatformat
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext as _

from accounts.models import PlatformRole, User
from common.clock import now
from common.ids import new_uid
from notifications.services import notify
from projects.choices import Role
from projects.models import Membership, Project
from usage.ledger import WASTE
from usage.models import Digest, Grain, LedgerDay, LedgerProgress
from usage.ratios import Ratio
from usage.words import CAUSES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from uuid import UUID

_LATEST = timedelta(days=3)  # a Monday that was missed for longer is not told of
_HOUR_S = 3600
_KEPT = timedelta(days=60)


def tell_week() -> int:
    """Tell of the week that is over, where all its hours are closed; return of how many things."""
    at = now().astimezone(UTC)
    monday = at.date() - timedelta(days=at.weekday())
    begin = datetime.combine(monday, time.min, UTC)
    closed = LedgerProgress.objects.filter(until__gte=begin).exists()
    week = monday - timedelta(days=7)
    if not closed or at - begin > _LATEST or Digest.objects.filter(week=week, about="").exists():
        return 0
    days = LedgerDay.objects.filter(day__gte=week, day__lt=monday)
    told = 0
    for project, ratio, losses in _projects(days):
        people = Membership.objects.filter(project=project, role__in=(Role.OWNER, Role.MANAGER))
        readers = User.objects.filter(pk__in=people.values("user"), is_active=True)
        url = reverse("usage:project", kwargs={"project": project.slug})
        told += _tell(
            Digest(week=week, about=str(project.uid)),
            ("usage.week", url),
            readers,
            partial(_words, ratio, losses, name=project.name),
            project,
        )
    whole = days.filter(grain=Grain.ALL).aggregate(**_SUMS)
    if whole["sum_supply"] or whole["sum_attached"]:
        operators = User.objects.filter(platform_role=PlatformRole.OPERATOR, is_active=True)
        ratio, losses = _figures(whole)
        url = reverse("usage:all")
        told += _tell(
            Digest(week=week, about=""),
            ("usage.week-of-all", url),
            operators,
            partial(_words, ratio, losses),
        )
    Digest.objects.filter(week__lt=week - _KEPT).delete()
    return told


_FIVE = ("supply", "waiting", "attached", "measured", "utilised")
_SUMS: dict[str, Any] = {f"sum_{name}": Sum(name) for name in (*_FIVE, *WASTE)}


def _figures(row: dict[str, Any]) -> tuple[Ratio, dict[str, float]]:
    ratio = Ratio(**{name: row[f"sum_{name}"] or 0.0 for name in _FIVE})
    return ratio, {cause: row[f"sum_{cause}"] or 0.0 for cause in WASTE}


def _projects(days: Any) -> Iterable[tuple[Project, Ratio, dict[str, float]]]:
    """Return live projects that held or wanted GPUs, with their figures."""
    rows = days.filter(grain=Grain.PROJECT, project_uid__isnull=False).values("project_uid")
    found: dict[UUID, tuple[Ratio, dict[str, float]]] = {
        row["project_uid"]: _figures(row) for row in rows.annotate(**_SUMS).order_by()
    }
    live = Project.objects.filter(uid__in=found, deleted_at__isnull=True, archived_at__isnull=True)
    return [
        (project, *found[project.uid])
        for project in live.order_by("pk")
        if found[project.uid][0].requested
    ]


@transaction.atomic
def _tell(
    digest: Digest,
    what: tuple[str, str],
    readers: Iterable[User],
    words: Callable[[], dict[str, str]],
    project: Project | None = None,
) -> int:
    """Tell of one thing, and write down that it was told, in one transaction.

    ``what``: the kind and the address; ``words`` are asked for in each language.
    """
    _row, made = Digest.objects.get_or_create(week=digest.week, about=digest.about)
    if not made:
        return 0
    in_language: dict[str, list[User]] = defaultdict(list)
    for person in readers:
        in_language[person.reads_in].append(person)
    kind, url = what
    event, project_id = new_uid(), project.pk if project else None
    for language, people in in_language.items():
        with translation.override(language):
            params = words()
        key = f"{digest.week}/{digest.about}"
        notify(
            users=people,
            kind=kind,
            params=params,
            url=url,
            key=key,
            project_id=project_id,
            event=event,
        )
    return 1


def _words(ratio: Ratio, losses: dict[str, float], name: str = "") -> dict[str, str]:
    cause = max(losses, key=lambda word: losses[word])
    hours = _hours(losses[cause])
    most = _("Lost most: %(cause)s, %(hours)s GPU-hours.")
    return {
        "name": name,
        "hours": _hours(ratio.attached),
        "requested": _percent(ratio.requested_ratio),
        "attached": _percent(ratio.attached_ratio),
        "utilised": _percent(ratio.utilisation),
        "idle": _hours(losses["idle"]),
        "most": most % {"cause": CAUSES[cause][0], "hours": hours} if losses[cause] else "",
    }


def _hours(seconds: float) -> str:
    return floatformat(seconds / _HOUR_S, "0g")


def _percent(part: float | None) -> str:
    return _("not known") if part is None else f"{floatformat(part * 100, '0g')} %"
