"""Shapes of fields that the console's forms share."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

ANY = ("", _("Any"))


def search_field() -> forms.CharField:
    widget = forms.TextInput(attrs={"type": "search"})
    return forms.CharField(label=_("Search"), required=False, max_length=80, widget=widget)


def choice(label: Any, *options: tuple[str, Any]) -> forms.ChoiceField:
    return forms.ChoiceField(label=label, required=False, choices=[ANY, *options])


def moment(label: Any, *, help_text: Any = "") -> forms.DateTimeField:
    widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")
    formats = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"]
    return forms.DateTimeField(
        label=label, required=False, widget=widget, input_formats=formats, help_text=help_text
    )


def area(label: Any, *, rows: int = 3, help_text: Any = "", **more: Any) -> forms.CharField:
    widget = forms.Textarea(attrs={"rows": rows, "class": "mono", "spellcheck": "false"})
    return forms.CharField(label=label, required=False, widget=widget, help_text=help_text, **more)
