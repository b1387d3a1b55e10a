"""What pages of usage say: percents and hours of ratios, and the share of each member."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django import template
from django.template.defaultfilters import floatformat
from django.utils.translation import gettext as _

from common.clock import now
from common.templatetags.berth import duration
from projects.models import Project
from usage import ratio_history
from usage.ratios import By, Scope
from usage.selectors import Range

register = template.Library()
_DAYS = 7
_TEN = 10
_MOST = 8


@register.filter
def as_percent(part: float | None) -> str:
    """Return a part of 1 in percent; a dash where nobody knows."""
    return "\u2013" if part is None else f"{floatformat(part * 100, '0g')}\u00a0%"


@register.filter
def as_hours(seconds: float) -> float:
    return seconds / 3600


@register.filter
def gpu_time(hours: float) -> str:
    """Return hours of GPUs as they are worth reading; less than one by its minutes."""
    if hours < 1:
        return duration(timedelta(hours=hours))
    return _("%(n)s h") % {"n": floatformat(hours, "1g")}


@register.filter
def as_seconds(millis: float) -> str:
    """Return seconds as exactly as they are worth reading."""
    seconds = millis / 1000
    return floatformat(seconds, "1g" if seconds >= _TEN else "3g")


@register.filter
def utc_day(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d}"


@register.inclusion_tag("usage/_members.html")
def project_members_gpus(project: Project) -> dict[str, Any]:
    """Show what each member's work attached in the last week, and how busy that was."""
    until = now()
    span = Range(until - timedelta(days=_DAYS), until)
    found = ratio_history.history(Scope(project.uid), span, By.PERSON)
    whole = found.total.attached
    held = [group for group in found.groups if group.ratio.attached]
    rows = [(group, group.ratio.attached / whole) for group in held[:_MOST]]
    return {"rows": rows, "more": len(held) - len(rows), "days": _DAYS, "project": project}
