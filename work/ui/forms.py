"""The form of any kind of work, made from its table of fields.

Forms speak in cores and GiB; rows in milli-CPU and MiB. What is left empty is not said.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from django import forms
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.errors import Invalid
from placement.decision import names_in
from work import fields as f

Offers = Mapping[str, Sequence[tuple[str, Any]]]  # field → (word, label); none: leave it out

_MONO = {"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false", "class": "mono"}
_MAX_TEXT = 100_000


class WorkForm(forms.Form):
    """All fields of a table; those of which nothing is offered are left out.

    ``offers`` has what exists for fields that name things: environments, kinds of GPU, pools,
    volumes. ``values`` are those of a row, a preset or an edit, as ``Table.read`` gives them.
    """

    def __init__(
        self,
        data: Any = None,
        *,
        table: f.Table,
        offers: Offers,
        values: Mapping[str, Any],
        **kwargs: Any,
    ) -> None:
        self.table = table
        self._by_key: dict[str, f.Field] = {}
        initial = {key_of(field): to_form(field, values.get(field.name)) for field in table}
        super().__init__(data, initial=initial, **kwargs)
        for field in table:
            if (made := _form_field(field, offers)) is not None:
                self.fields[key_of(field)] = made
                self._by_key[key_of(field)] = field

    def said(self) -> dict[str, Any]:
        """Return what was said, as API and document say it."""
        found = {}
        for key, field in self._by_key.items():
            value = self.cleaned_data.get(key)
            if value is not None and (not _is_empty(value) or key in self.changed_data):
                found[field.name] = from_form(field, value)
        return found

    def clean(self) -> dict[str, Any]:
        """Apply the rules of the table, so that what is wrong stands at its field."""
        data: dict[str, Any] = super().clean() or self.cleaned_data
        for key, field in self._by_key.items():
            value = data.get(key)
            if key in self.errors or _is_empty(value):
                continue
            try:
                field.clean(from_form(field, value))
            except forms.ValidationError as error:
                self.add_error(key, error)
            except Invalid as error:
                self.add_error(key, error.message)
        return data

    @property
    def names(self) -> dict[str, str]:
        """From a service's field to the form's, for ``common.ui.responses.refuse``."""
        return {field.name: key_of(field) for field in self.table}


def key_of(field: f.Field) -> str:
    """Return the name of a field in the form: people write cores and GiB, not milli and MiB."""
    return field.name.removesuffix("_milli").removesuffix("_mib")


def to_form(field: f.Field, value: Any) -> Any:
    """Return a kept value as people write it."""
    if value is None:
        return None
    if isinstance(field, f.Count) and field.unit.kept > 1:
        return Decimal(value) / field.unit.kept if value else None
    if isinstance(field, f.Words):
        return shlex.join(value)
    if isinstance(field, f.Environment):
        return "\n".join(f"{name}={text}" for name, text in value.items())
    if isinstance(field, f.Devices):
        return list(names_in(value))
    return value


def from_form(field: f.Field, value: Any) -> Any:
    """Return what people wrote as it is kept; ValidationError says what can't be read."""
    if isinstance(field, f.Count) and field.unit.kept > 1:
        return round(value * field.unit.kept)
    if isinstance(field, f.Words) and isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError as error:
            raise forms.ValidationError(_t("A quotation mark is not closed.")) from error
    if isinstance(field, f.Environment) and isinstance(value, str):
        return _variables(value)
    if isinstance(field, f.Devices):
        return ",".join(name for name in value if name)
    return value


def _variables(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, sign, value = line.partition("=")
        if not sign:
            raise forms.ValidationError(_t("Line %(n)d is not NAME=value.") % {"n": number})
        found[name.strip()] = value
    return found


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [])


def _form_field(  # noqa: C901, PLR0911 - one case per type
    field: f.Field, offers: Offers
) -> forms.Field | None:
    """Return the field of Django's forms, None where there is nothing to choose from."""
    common: dict[str, Any] = {
        "label": field.label,
        "help_text": field.form_help or field.help,
        "required": False,
    }
    match field:
        case f.Count(unit=unit) if unit.kept > 1:
            step = {f.Unit.CORES: "0.1", f.Unit.GIB: "0.25"}[unit]
            return forms.DecimalField(
                min_value=Decimal(field.low) / unit.kept,
                max_value=Decimal(field.high) / unit.kept,
                decimal_places=len(step) - 2,
                widget=forms.NumberInput(attrs={"step": step}),
                **common,
            )
        case f.Count():
            return forms.IntegerField(min_value=field.low, max_value=field.high, **common)
        case f.Flag():
            return forms.BooleanField(**common)
        case f.Choice():
            return forms.ChoiceField(choices=field.choices, widget=forms.RadioSelect, **common)
        case f.Environment():
            rows = forms.Textarea(attrs={**_MONO, "rows": 3, "placeholder": "NAME=value"})
            return forms.CharField(max_length=_MAX_TEXT, widget=rows, strip=False, **common)
        case f.Words():
            return forms.CharField(max_length=_MAX_TEXT, widget=forms.TextInput(_MONO), **common)
        case f.Devices() | f.Names():
            offered = offers.get(field.name, ())
            attrs: dict[str, Any] = {}
            if isinstance(field, f.Devices):
                attrs["data-ordered"] = _("Prefer")
            boxes = forms.CheckboxSelectMultiple(attrs=attrs)
            made = forms.MultipleChoiceField(choices=offered, widget=boxes, **common)
            return made if offered else None
        case f.Line() if field.name in offers:
            offered = offers[field.name]
            return forms.ChoiceField(choices=offered, **common) if offered else None
        case f.Line():
            shown: dict[str, Any] = {**_MONO, "placeholder": field.example}
            return forms.CharField(
                max_length=field.longest, widget=forms.TextInput(shown), **common
            )
        case _:
            plain = forms.TextInput(attrs={"autocomplete": "off"})
            return forms.CharField(
                max_length=getattr(field, "longest", 255), widget=plain, **common
            )
