"""Shapes of fields that the console's forms share."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.utils import timezone
from django.utils.functional import lazy
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from projects.models import Project

ANY = ("", _("Any"))
# What a machine reads is typed as it stands there: nothing corrects or remembers it.
EXACT = {"class": "mono", "spellcheck": "false", "autocapitalize": "off", "autocomplete": "off"}
MOST_POSITION = 100_000


def search_field() -> forms.CharField:
    widget = forms.TextInput(attrs={"type": "search"})
    return forms.CharField(label=_("Search"), required=False, max_length=80, widget=widget)


def choice(label: Any, *options: tuple[str, Any]) -> forms.ChoiceField:
    return forms.ChoiceField(label=label, required=False, choices=[ANY, *options])


def moment(label: Any, *, help_text: Any = "") -> forms.DateTimeField:
    widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M")
    formats = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"]
    return forms.DateTimeField(
        label=lazy(_with_zone, str)(label),
        required=False,
        widget=widget,
        input_formats=formats,
        help_text=help_text,
    )


def area(label: Any, *, rows: int = 3, help_text: Any = "", **more: Any) -> forms.CharField:
    widget = forms.Textarea(attrs={**EXACT, "rows": rows})
    return forms.CharField(label=label, required=False, widget=widget, help_text=help_text, **more)


def exact(
    label: Any, *, max_length: int, required: bool = False, help_text: Any = "", **more: Any
) -> forms.CharField:
    """A line that a machine reads: an address, an image, a name of Kubernetes."""
    widget = forms.TextInput(attrs=EXACT)
    return forms.CharField(
        label=label,
        max_length=max_length,
        required=required,
        widget=widget,
        help_text=help_text,
        **more,
    )


def description_field() -> forms.CharField:
    return forms.CharField(label=_("Description"), max_length=300, required=False)


def position_field(*, initial: int = 0, most: int = MOST_POSITION) -> forms.IntegerField:
    return forms.IntegerField(
        label=_("Position"),
        min_value=0,
        max_value=most,
        initial=initial,
        help_text=_("Smaller numbers come first."),
    )


class ProjectsField(forms.ModelMultipleChoiceField):
    """Projects by their uid; those that are there when the form is made."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("label", _("Only for these projects"))
        kwargs.setdefault("help_text", _("None chosen: every project."))
        super().__init__(
            queryset=Project.objects.filter(deleted_at__isnull=True).order_by("name"),
            required=False,
            to_field_name="uid",
            widget=forms.CheckboxSelectMultiple,
            **kwargs,
        )


def price_field(label: Any, *, max_digits: int, decimal_places: int) -> forms.DecimalField:
    return forms.DecimalField(
        label=label,
        min_value=0,
        max_digits=max_digits,
        decimal_places=decimal_places,
        initial=0,
        help_text=lazy(_in_currency, str)(),
    )


def _in_currency() -> str:
    return _t("In %(currency)s.") % {"currency": settings.BERTH_CURRENCY}


def _with_zone(label: Any) -> str:
    """A time that is typed is read in this zone; nobody should have to guess it."""
    return f"{label} ({timezone.get_current_timezone_name()})"
