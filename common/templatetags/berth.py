"""Template tags used everywhere (a builtin library: no {% load %} needed)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from babel import Locale
from babel.numbers import format_currency
from django import template
from django.conf import settings
from django.template.defaultfilters import date as format_date
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language, ngettext, pgettext_lazy, to_locale
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.clock import now

register = template.Library()

# phase -> (icon, word): the shape and the word say it, the colour only repeats it
PHASES: dict[str, tuple[str, Any]] = {
    "pending": ("hourglass", _("Waiting")),
    "starting": ("loader-2", _("Starting")),
    "running": ("player-play", _("Running")),
    "stopping": ("loader-3", _("Stopping")),
    "stopped": ("square", _("Stopped")),
    "failed": ("alert-triangle", _("Failed")),
    "deleting": ("loader-3", _("Deleting")),
    "deleted": ("trash", _("Deleted")),
    "unknown": ("help-circle", pgettext_lazy("state", "Unknown")),
}
TONES = {
    "good": "circle-check",
    "info": "info-circle",
    "warning": "alert-circle",
    "danger": "alert-triangle",
    "quiet": "circle-dashed",
}
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_GIB = 1024
NOTHING = "–"  # noqa: RUF001 - an en dash stands where there is no value
NBSP = "\N{NO-BREAK SPACE}"  # a number never stands on another line than its unit


@register.simple_tag
def icon(name: str, css: str = "") -> SafeString:
    """A decorative Tabler icon; the meaning must be in words next to it."""
    return format_html('<i class="ti ti-{} {}" aria-hidden="true"></i>', name, css)


def phase_word(value: str) -> str:
    """Return what the badge of a state says, for a sentence."""
    return str(PHASES.get(str(value), PHASES["unknown"])[1])


@register.simple_tag
def phase(value: str, word: str = "") -> SafeString:
    """The one badge for the state of a workload."""
    shape, text = PHASES.get(str(value), PHASES["unknown"])
    return badge(word or text, value, shape)


@register.simple_tag
def badge(word: object, tone: str = "quiet", shape: str = "") -> SafeString:
    """A state that is not a workload's phase: tone is good, info, warning, danger or quiet."""
    return format_html(
        '<span class="phase phase-{}"><i class="ti ti-{}" aria-hidden="true"></i>{}</span>',
        tone,
        shape or TONES.get(tone, TONES["quiet"]),
        word,
    )


def relative(value: datetime, moment: datetime) -> str:
    """Return "3 minutes ago" or "in 3 minutes" (static/js/time.js keeps it current)."""
    seconds = (moment - value).total_seconds()
    size = abs(seconds)
    if size < _MINUTE:
        return _t("just now") if seconds >= 0 else _t("in a moment")
    if size < _HOUR:
        count = int(size // _MINUTE)
        text = ngettext("%(n)d minute", "%(n)d minutes", count) % {"n": count}
    elif size < _DAY:
        count = int(size // _HOUR)
        text = ngettext("%(n)d hour", "%(n)d hours", count) % {"n": count}
    else:
        count = int(size // _DAY)
        text = ngettext("%(n)d day", "%(n)d days", count) % {"n": count}
    pattern = _t("%(time)s ago") if seconds >= 0 else _t("in %(time)s")
    return pattern % {"time": text}


@register.simple_tag
def ago(value: datetime | None, empty: str = NOTHING) -> SafeString | str:
    """A relative time, the exact one on hover, readable by machines and without scripts."""
    if value is None:
        return empty
    local = timezone.localtime(value)
    return format_html(
        '<time datetime="{}" title="{}" data-relative>{}</time>',
        local.isoformat(timespec="seconds"),
        format_date(local, "Y-m-d H:i:s T"),
        relative(value, now()),
    )


@register.simple_tag
def exact(value: datetime | None, empty: str = NOTHING) -> SafeString | str:
    """An exact local time, the relative one on hover."""
    if value is None:
        return empty
    local = timezone.localtime(value)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        local.isoformat(timespec="seconds"),
        relative(value, now()),
        format_date(local, "Y-m-d H:i:s T"),
    )


@register.simple_tag
def copy(text: object, label: str = "") -> SafeString:
    """A button that shows ``label`` (or the text) and copies the text in one press."""
    return format_html(
        '<button type="button" class="copy" data-copy="{}" title="{}" aria-label="{}">'
        '<span>{}</span><i class="ti ti-copy" aria-hidden="true"></i></button>',
        text,
        _t("Copy"),
        _t("Copy %(text)s") % {"text": label or text},
        label or text,
    )


@register.inclusion_tag("components/meter.html")
def meter(
    used: float | None, total: float | None, label: str = "", words: str = ""
) -> dict[str, Any]:
    """A bar with its numbers in words. Unknown is said, never drawn as nought.

    Its colours begin where the words do: nearly full at nine tenths, red when it is full.
    """
    share = None if used is None or not total else max(0.0, min(1.0, used / total))
    return {
        "label": label,
        "words": words,
        "share": share,
        "percent": None if share is None else round(share * 100),
        "tone": "" if share is None or share < 0.9 else "warning" if share < 1 else "danger",  # noqa: PLR2004
        "used": used,
        "total": total,
    }


@register.filter
def translated(value: str | None) -> str:
    """A stored text that Berth itself wrote (default presets), in the reader's language."""
    return _t(value) if value else ""


@register.filter
def mib(value: float | None) -> str:
    """MiB for people: 512 MiB, 4 GiB, 1.5 TiB."""
    if value is None:
        return NOTHING
    return _in_units(float(value), ("MiB", "GiB", "TiB", "PiB"))


@register.filter
def filesize(value: float | None) -> str:
    """Bytes for people, in binary units."""
    if value is None:
        return NOTHING
    return _in_units(float(value), ("B", "KiB", "MiB", "GiB", "TiB"))


def _in_units(number: float, units: Sequence[str]) -> str:
    """Return it in the first unit that leaves less than 1024, else in the last."""
    step = 0
    while abs(number) >= _GIB and step < len(units) - 1:
        number, step = number / _GIB, step + 1
    return f"{number:.1f}".rstrip("0").rstrip(".") + NBSP + units[step]


@register.filter
def cpus(milli: float | None) -> str:
    """Milli-CPU as a number of CPUs: 500 -> 0.5, 2000 -> 2."""
    if milli is None:
        return NOTHING
    return f"{float(milli) / 1000:.2f}".rstrip("0").rstrip(".")


@register.filter
def duration(value: timedelta | float | None) -> str:
    """Seconds or a timedelta as at most two units: 3 min 12 s, 2 h 5 min, 1.2 s."""
    if value is None:
        return NOTHING
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds < 10:  # noqa: PLR2004 - short steps are shown with a decimal
        return _t("%(n)s s") % {"n": f"{max(seconds, 0):.1f}"}
    whole = int(seconds)
    days, rest = divmod(whole, _DAY)
    hours, rest = divmod(rest, _HOUR)
    minutes, secs = divmod(rest, _MINUTE)
    parts = [(days, _t("%(n)s d")), (hours, _t("%(n)s h")), (minutes, _t("%(n)s min"))]
    shown = [text % {"n": count} for count, text in parts if count]
    if secs and not days and not hours:
        shown.append(_t("%(n)s s") % {"n": secs})
    return " ".join(shown[:2])


_SMALLEST = Decimal("0.0001")  # what operators may write of a GiB and month


def price(amount: Decimal) -> str:
    """Return a price exactly as it was set, which may be less than a cent."""
    return _written(amount.quantize(_SMALLEST).normalize(), exact=True)


def money(amount: Decimal) -> str:
    """Return an amount to be paid, rounded as its currency is."""
    return _written(amount, exact=False)


def _written(amount: Decimal, *, exact: bool) -> str:
    language = Locale.parse(to_locale(get_language() or settings.LANGUAGE_CODE))
    return format_currency(
        amount, settings.BERTH_CURRENCY, locale=language, decimal_quantization=not exact
    )


register.filter("money", money)
register.filter("price", price)
