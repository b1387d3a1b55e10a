"""How pages say figures of requests."""

from __future__ import annotations

from django import template
from django.template.defaultfilters import floatformat
from django.utils.translation import gettext as _

register = template.Library()
_NOTHING = "\N{EN DASH}"
_TEN = 10


@register.filter
def latency(seconds: float | None) -> str:
    """Return a duration as exactly as it is known: two or three digits."""
    if seconds is None:
        return _NOTHING
    if seconds < 1:
        thousandths = seconds * 1000
        digits = "0g" if thousandths >= _TEN else "1g"
        return _("%(n)s ms") % {"n": floatformat(thousandths, digits)}
    return _("%(n)s s") % {"n": floatformat(seconds, "0g" if seconds >= _TEN else "1g")}


@register.filter
def rate(per_minute: float) -> str:
    """Return requests a minute; fewer than ten with a decimal."""
    return floatformat(per_minute, "0g" if per_minute >= _TEN else "-1g")


@register.filter
def percent_of_errors(part: float | None) -> str:
    """Return a part of 1; what is little is not said to be none."""
    if part is None:
        return _NOTHING
    percent = part * 100
    digits = "0g" if percent >= _TEN or not percent else "1g" if percent >= 1 else "2g"
    return f"{floatformat(percent, digits)}\N{NO-BREAK SPACE}%"
