"""Time zones a person may choose, and the list to choose from."""

import zoneinfo
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from django import forms
from django.forms.utils import flatatt
from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

UTC = "UTC"
_AREAS: dict[str, Promise] = {
    "Africa": _("Africa"),
    "America": _("America"),
    "Antarctica": _("Antarctica"),
    "Arctic": _("Arctic"),
    "Asia": _("Asia"),
    "Atlantic": _("Atlantic"),
    "Australia": _("Australia"),
    "Europe": _("Europe"),
    "Indian": _("Indian Ocean"),
    "Pacific": _("Pacific"),
}


@cache
def names() -> tuple[str, ...]:
    """Return Area/City and UTC, without what is neither (EST5EDT, Etc/GMT+3)."""
    every = zoneinfo.available_timezones()
    return (UTC, *sorted(n for n in every if n.split("/", 1)[0] in _AREAS and "/" in n))


def is_timezone(name: str) -> bool:
    return name in names()


def choices() -> Iterator[tuple[Any, Any]]:
    """Yield none chosen, UTC, then the areas with their cities, as a field wants them."""
    yield "", _("UTC (not chosen)")
    yield UTC, UTC
    for area, cities in groupby(names()[1:], key=lambda name: name.partition("/")[0]):
        yield _AREAS[area], sorted(((name, _city(name)) for name in cities), key=itemgetter(1))


def _city(name: str) -> str:
    """Return ``Buenos Aires (Argentina)`` for America/Argentina/Buenos_Aires: what is typed to
    find it comes first.
    """
    *_area, city = parts = name.replace("_", " ").split("/")
    return city if len(parts) == 2 else f"{city} ({', '.join(parts[1:-1])})"  # noqa: PLR2004


class TimeZoneSelect(forms.Select):
    """A plain list of all of them. Its 500 lines are written once for each language; a template
    for each of them would take longer than the rest of the page.
    """

    def render(
        self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        del renderer
        given = self.build_attrs(self.attrs, {**(attrs or {}), "name": name})
        return format_html("<select{}>{}</select>", flatatt(given), _options(str(value or "")))


def _options(chosen: str) -> SafeString:
    """Return the lines, with one of them chosen where it is one of them."""
    every = _written(get_language() or "")
    line = f'value="{chosen}"' if is_timezone(chosen) else 'value=""'
    return SafeString(every.replace(line, f"{line} selected", 1))


@cache
def _written(language: str) -> SafeString:
    del language  # of the words: each has its own lines
    parts = []
    for value, shown in choices():
        cities = shown if isinstance(shown, list) else [(value, shown)]
        lines = format_html_join("", '<option value="{}">{}</option>', cities)
        group = format_html('<optgroup label="{}">{}</optgroup>', value, lines)
        parts.append(group if isinstance(shown, list) else lines)
    return SafeString("".join(parts))
