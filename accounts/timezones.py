"""Time zones a person may choose, and the list to choose from."""

import zoneinfo
from collections.abc import Callable, Collection
from functools import cache
from typing import Any

from django import forms
from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext
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


class TimeZoneInput(forms.TextInput):
    """A field that finds a zone by any part of its name, and offers the browser's own.

    Its 400 lines are written once for each language; a template for each of them would take longer
    than the rest of the page.
    """

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        own = _("Use this browser's: %(zone)s")
        given = {"list": "time-zones", "autocomplete": "off", "placeholder": UTC}
        super().__init__({**given, "data-own-zone": own, **(attrs or {})})

    def render(
        self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        field = super().render(name, value, attrs, renderer)
        return SafeString(field + _lines(get_language() or ""))


class TimeZoneField(forms.CharField):
    """The name of a zone, or '' for UTC; a city that only one zone has will do for it."""

    widget = TimeZoneInput

    def __init__(self, *, known: Callable[[], Collection[str]] = names, **more: Any) -> None:
        super().__init__(**more)
        self._known = known

    def clean(self, value: Any) -> str:
        said = str(super().clean(value) or "").strip()
        found = {said} & set(self._known()) if said else {""}
        if not found:
            wanted = said.casefold().replace(" ", "_")
            found = {
                n for n in names() if wanted in {n.casefold(), n.casefold().rpartition("/")[2]}
            }
        if len(found) != 1:
            message = gettext("There is no time zone “%(name)s”. Choose one of the list.")
            raise forms.ValidationError(message % {"name": said}, code="invalid")
        return found.pop()


@cache
def _lines(language: str) -> SafeString:
    del language  # of the words: each has its own lines
    places = (name.partition("/") for name in names()[1:])
    shown = [
        (f"{area}/{city}", f"{city.replace('_', ' ')} ({_AREAS[area]})") for area, _, city in places
    ]
    lines = format_html_join("", '<option value="{}">{}</option>', [(UTC, UTC), *shown])
    return format_html('<datalist id="time-zones">{}</datalist>', lines)
