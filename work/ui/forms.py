"""The form of any kind of work, made from its table of fields.

Forms speak in cores and GiB; rows in milli-CPU and MiB. What is left empty is not said.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms
from django.db.models import Q
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.errors import Invalid
from placement.decision import names_in
from work import fields as f
from work.selectors import shared_with

if TYPE_CHECKING:
    from accounts.principal import Principal
    from placement.fleet import Fleet
    from work.ui.pages import Pages

Offers = Mapping[str, Sequence[tuple[str, Any]]]  # field → (word, label); none: leave it out

_MONO = {"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false", "class": "mono"}
_MAX_TEXT = 100_000
_MAX_LINES = 600_000
_READ = ":ro"  # behind a volume that is only read


class WorkForm(forms.Form):
    """All fields of a table; those of which nothing is offered are left out.

    ``offers`` has what exists for fields that name things: environments, kinds of GPU, pools,
    volumes. ``values`` are those of a row, a preset or an edit, as ``Table.read`` gives them.
    """

    # What is said less often, and what is attached: folded away until somebody says some of it.
    LESS: tuple[str, ...] = ("args", "shm_mib", "pool", "network", "env")
    LESS_TITLE: f.Text = ""  # "": the words of all of them
    # Fields that stand beside each other, where the first of them has its turn.
    BESIDE: tuple[tuple[str, ...], ...] = (
        ("environment", "cluster"),
        ("cpu_milli", "memory_mib"),
        ("gpus", "gpu_flavor"),
    )
    use_required_attribute = False

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
        self.fleet: Fleet | None = None  # the look at clusters of which the offers were made
        self.given: Mapping[str, Any] = {}  # what the link that led here says of it
        self._by_key: dict[str, f.Field] = {}
        self._mounts: list[str] = []  # keys of the choices how a volume is seen
        initial = {key_of(field): to_form(field, values.get(field.name)) for field in table}
        super().__init__(data, initial=initial, **kwargs)
        for field in table:
            if isinstance(field, f.Names) and field.takes_mappings:
                self._offer_mounts(field, offers, values.get(field.name) or ())
            elif (made := _form_field(field, offers)) is not None:
                made.work_field = field  # type: ignore[attr-defined]  # for the templates
                self.fields[key_of(field)] = made
                self._by_key[key_of(field)] = field
        self._order_devices()
        if "image" in table and "image" not in self.fields and "command" in self.fields:
            self.fields["command"].help_text = _(
                "As in a shell, but nothing is expanded. For pipes and variables: bash -c '…'"
            )

    def _offer_mounts(self, field: f.Names, offers: Offers, now: Sequence[str]) -> None:
        """Let people say of each volume whether it is seen, and whether it is only read.

        Offered is ``uid`` to write and ``uid:ro`` to read.
        """
        offered = dict(offers.get(field.name, ()))
        for word, label in offered.items():
            volume = word.removesuffix(_READ)
            key = f"{key_of(field)}-{volume}"
            if key in self.fields:
                continue
            ways = [(volume, _t("written")), (volume + _READ, _t("only read"))]
            ways = [("", _t("not there")), *(way for way in ways if way[0] in offered)]
            self.fields[key] = forms.ChoiceField(label=label, choices=ways, required=False)
            self.initial[key] = next((seen for seen in now if seen.startswith(volume)), "")
            self._mounts.append(key)

    def _order_devices(self) -> None:
        """Put what is chosen first, in its order: a form without a script sends it so again."""
        for key, field in self._by_key.items():
            made = self.fields[key]
            if isinstance(field, f.Devices) and isinstance(made, forms.MultipleChoiceField):
                chosen = list(self.initial.get(key) or ())
                offered: list[tuple[str, Any]] = list(made.choices)  # type: ignore[arg-type]
                known = {word for word, _label in offered}
                offered += [(word, word) for word in chosen if word not in known]
                rank = {word: number for number, word in enumerate(chosen)}
                made.choices = sorted(offered, key=lambda one: rank.get(one[0], len(rank)))

    def said(self) -> dict[str, Any]:
        """Return what was said, as API and document say it."""
        found = {}
        for key, field in self._by_key.items():
            value = self.cleaned_data.get(key)
            changed = key in self.changed_data
            if isinstance(field, f.Choice):
                is_said = changed and bool(value)
            else:
                is_said = value is not None and (changed or not _is_empty(value))
            if is_said:
                found[field.name] = from_form(field, value)
        if any(key in self.changed_data for key in self._mounts):
            words = [self.cleaned_data.get(key) for key in self._mounts]
            found["volumes"] = [word for word in words if word]
        return found

    # --- how it is laid out: templates/work/_fields.html ------------------------------------
    def head(self) -> list[list[forms.BoundField]]:
        """Return what is always in sight, row by row; numbers of a kind's own share one."""
        return self._rows(field.name for field in self.table if field.name not in self._folded())

    def less(self) -> list[list[forms.BoundField]]:
        return self._rows(self.LESS)

    def _rows(self, names: Iterable[str]) -> list[list[forms.BoundField]]:
        plain = [name for name in names if name in self.table]
        beside = {name: row for row in self.BESIDE for name in row}
        numbers = tuple(
            name for name in plain if isinstance(self.table[name], f.Count) and name not in beside
        )
        rows: list[tuple[str, ...]] = []
        for name in plain:
            row = numbers if name in numbers else beside.get(name, (name,))
            if row not in rows:
                rows.append(row)
        shown = [[self[key] for key in self._keys(row)] for row in rows]
        return [row for row in shown if row]

    def mounts(self) -> list[forms.BoundField]:
        return [self[key] for key in self._mounts]

    def attached(self) -> list[forms.BoundField]:
        names = [x.name for x in self.table if isinstance(x, f.Names) and not x.takes_mappings]
        return [self[key] for key in self._keys(names)]

    @property
    def less_speaks(self) -> bool:
        """Whether something in what is folded away was said or is wrong."""
        return any(_speaks(field) for row in self.less() for field in row)

    @property
    def attached_speaks(self) -> bool:
        """The same of what is attached; what everybody gets by itself says nothing."""
        if self.is_bound:
            fields = (*self.mounts(), *self.attached())
            return any(field.errors or field.name in self.changed_data for field in fields)
        return any(_speaks(field) for field in self.attached())

    def _folded(self) -> set[str]:
        names = {field.name for field in self.table if isinstance(field, f.Names)}
        return {*self.LESS, *names}

    def _keys(self, names: Iterable[str]) -> list[str]:
        fields = [self.table[name] for name in names if name in self.table]
        return [key_of(field) for field in fields if key_of(field) in self.fields]

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
    return field.name.removesuffix("_milli").removesuffix("_mib").removesuffix("_bytes_s")


def to_form(field: f.Field, value: Any) -> Any:  # noqa: PLR0911 - one per type
    """Return a kept value as people write it."""
    if value is None:
        return None
    if isinstance(field, f.Count) and field.unit.kept > 1:
        return Decimal(value) / field.unit.kept if value else None
    if isinstance(field, f.Words):
        return shlex.join(value)
    if isinstance(field, f.Lines):
        return "\n".join(value)
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
    if isinstance(field, f.Lines) and isinstance(value, str):
        return [line for line in value.splitlines() if line.strip()]
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


def _speaks(field: forms.BoundField) -> bool:
    if isinstance(field.field, forms.ChoiceField | forms.BooleanField) and not field.form.is_bound:
        return field.value() != field.form.initial.get(field.name)
    return bool(field.errors) or not _is_empty(field.value())


def _is_empty(value: Any) -> bool:
    return value is None or value is False or value in ("", [])


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
            step = "0.25" if unit is f.Unit.GIB else "0.1"
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
        case f.Lines():
            lines = forms.Textarea(attrs={**_MONO, "rows": 3})
            longest = min(_MAX_LINES, field.most * (field.longest + 1))
            return forms.CharField(max_length=longest, widget=lines, **common)
        case f.Words():
            lines = forms.Textarea(attrs={**_MONO, "rows": 2})
            return forms.CharField(max_length=_MAX_TEXT, widget=lines, **common)
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
            switch = {"data-cluster-switch": True} if field.name == "cluster" else {}
            chosen = forms.Select(attrs=switch)
            return forms.ChoiceField(choices=offered, widget=chosen, **common) if offered else None
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


class FilterForm(forms.Form):
    """The filters of a list of work; their state lives in the URL."""

    q = forms.CharField(
        label=_("Search"),
        required=False,
        max_length=80,
        widget=forms.TextInput(attrs={"type": "search", "placeholder": _("Name or owner")}),
    )
    state = forms.ChoiceField(label=_("State"), required=False)
    mine = forms.ChoiceField(
        label=_("Whose"), required=False, choices=[("", _("Everybody")), ("1", _("Mine"))]
    )

    def __init__(self, *args: Any, pages: Pages, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pages = pages
        named = pages.filters
        states = [
            (word, named.get(word) or pages.states.words(word).label)
            for word in pages.states.filters
        ]
        if pages.matching_hint:
            self.fields["q"].widget.attrs["placeholder"] = pages.matching_hint
        self.fields["state"].choices = [("", _("Any")), *states]  # type: ignore[attr-defined]
        if pages.kind.shared:
            whose = self.fields["mine"]
            whose.choices = [*whose.choices, ("shared", _("Shared with me"))]  # type: ignore[attr-defined]


def filtered(form: FilterForm, rows: Any, who: Principal) -> Any:
    """Narrow ``rows``; a filter that makes no sense narrows nothing."""
    data = form.cleaned_data if form.is_valid() else {}
    words = data.get("q", "").replace("\x00", "")
    if words and form.pages.matching:
        rows = form.pages.matching(rows, words)
    elif words:
        rows = rows.filter(
            Q(name__icontains=words)
            | Q(owner__username__icontains=words)
            | Q(owner__display_name__icontains=words)
            | Q(short_id=words)
        )
    if state := data.get("state"):
        rows = rows.filter(form.pages.states.filters[state])
    if data.get("mine") == "1":
        rows = rows.filter(owner=who.user)
    if data.get("mine") == "shared":
        rows = rows.filter(pk__in=shared_with(who, form.pages.kind).values("pk"))
    return rows
