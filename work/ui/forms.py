"""The form of any kind of work, made from its table of fields.

Forms speak in cores and GiB; rows in milli-CPU and MiB. What is left empty is not said.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.errors import Invalid
from placement.decision import names_in
from work import fields as f
from work.attached import READ_ONLY
from work.standard_fields import BESIDE

if TYPE_CHECKING:
    from placement.fleet import Fleet
    from work.selectors import OfferedVolume

Offers = Mapping[str, Sequence[tuple[str, Any]]]  # field → (word, label); none: leave it out

_MONO = {"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false", "class": "mono"}
# How what is seen of volumes is said: one field for each, named by its uid.
VOLUME_FIELD = "volume-"
WRITE, READ = "rw", "ro"
_MAX_TEXT = 100_000
_MAX_LINES = 600_000
_MOST_LINES = 16
_PRIVATE = "private"  # a port that no browser opens
_FEW = 8  # fields, whose words are told together


class WorkForm(forms.Form):
    """All fields of a table; those of which nothing is offered are left out.

    ``offers`` has what exists for fields that name things: environments, kinds of GPU, pools,
    volumes. ``values`` are those of a row, a preset or an edit, as ``Table.read`` gives them.
    ``renews``: the newest image of its tag may be taken.
    """

    beside: tuple[tuple[f.Field, ...], ...] = BESIDE
    less_title: f.Text = ""  # "": the words of all that is folded away
    use_required_attribute = False
    # A browser does not send what is not ticked: this tells that it was not from a press that
    # says nothing of it.
    shown = forms.CharField(required=False, widget=forms.HiddenInput, initial="1")

    def __init__(
        self,
        data: Any = None,
        *,
        table: f.Table,
        offers: Offers,
        values: Mapping[str, Any],
        renews: bool = False,
    ) -> None:
        self.table = table
        self.fleet: Fleet | None = None  # the look at clusters of which the offers were made
        self.given: Mapping[str, Any] = {}  # what the link that led here says of it
        self.chosen_volume = ""  # the one that somebody came from
        self._by_key: dict[str, f.Field] = {}
        self._mounts: dict[str, OfferedVolume] = {}
        initial = {key_of(field): to_form(field, values.get(field.name)) for field in table}
        super().__init__(data, initial=initial)
        for field in table:
            if isinstance(field, f.Names) and field.takes_mappings:
                self._offer_mounts(offers.get(field.name, ()), values.get(field.name) or ())
            elif (made := form_field(field, offers)) is not None:
                made.work_field = field  # type: ignore[attr-defined]  # for the templates
                self.fields[key_of(field)] = made
                self._by_key[key_of(field)] = field
        if renews:
            self.fields["newest_image"] = forms.BooleanField(
                label=_("Take the newest image of this tag"),
                required=False,
                help_text=_(
                    "For a tag that was pushed again: else every start takes what is pinned."
                ),
            )
        self._order_devices()
        if "ports" in self.fields:  # all that are set are in sight
            lines = str(self["ports"].value() or "").count("\n") + 1
            self.fields["ports"].widget.attrs["rows"] = max(2, min(lines, _MOST_LINES))
        if "image" in table and "image" not in self.fields and "command" in self.fields:
            self.fields["command"].help_text = _(
                "As in a shell, but nothing is expanded. For pipes and variables: bash -c '…'"
            )

    def _offer_mounts(
        self, offered: Iterable[tuple[str, OfferedVolume]], now: Sequence[str]
    ) -> None:
        """Let people say of each volume whether it is seen, and whether it is only read."""
        for uid, volume in offered:
            key = f"{VOLUME_FIELD}{uid}"
            ways = [("", _t("not there")), (WRITE, _t("written")), (READ, _t("only read"))]
            if not volume.may_write:
                del ways[1]
            self.fields[key] = forms.ChoiceField(label=volume.label, choices=ways, required=False)
            self.initial[key] = WRITE if uid in now else READ if uid + READ_ONLY in now else ""
            self._mounts[key] = volume

    def choose_volume(self, uid: str) -> None:
        """Have a new one see this volume from the first, where it is offered."""
        key = f"{VOLUME_FIELD}{uid}"
        if (volume := self._mounts.get(key)) is None:
            return
        writes = volume.may_write and not volume.is_full
        self.initial.update({key: WRITE if writes else READ, "cluster": volume.cluster_key})
        self.chosen_volume = uid

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
        found: dict[str, Any] = {}
        for key, field in self._by_key.items():
            value = self.cleaned_data.get(key)
            if value is None or not self._is_told(key) or not self._makes_sense(field):
                continue
            if not _is_empty(value) or key in self.changed_data:
                found[field.name] = from_form(field, value)
        told = "shown" in self.data or any(key in self.data for key in self._mounts)
        if told and any(key in self.changed_data for key in self._mounts):
            seen = {
                key: self.cleaned_data.get(key)
                for key in self._mounts
                if key in self.changed_data or not self._is_elsewhere(key)
            }
            found["volumes"] = [
                key.removeprefix(VOLUME_FIELD) + READ_ONLY * (way == READ)
                for key, way in seen.items()
                if way
            ]
        return found

    def _is_told(self, key: str) -> bool:
        ticks = isinstance(
            self.fields[key].widget, forms.CheckboxInput | forms.CheckboxSelectMultiple
        )
        return key in self.data or (ticks and "shown" in self.data)

    def _makes_sense(self, field: f.Field) -> bool:
        """Whether it is in sight by what was chosen: what is not says nothing."""
        chosen = self.cleaned_data.get(field.only[0]) if field.only else ""
        return not field.only or not chosen or chosen == field.only[1]

    def _is_elsewhere(self, key: str) -> bool:
        """Whether a volume lies on another cluster than what was chosen."""
        chosen = self.cleaned_data.get("cluster")
        meant = {
            volume.cluster_key
            for other, volume in self._mounts.items()
            if other in self.changed_data and self.cleaned_data.get(other)
        }
        meant = {chosen} if chosen else meant
        return bool(meant) and self._mounts[key].cluster_key not in meant

    # --- how it is laid out: templates/work/_fields.html ------------------------------------
    def head(self) -> list[list[forms.BoundField]]:
        """Return what is always in sight, row by row."""
        shown, few = self._rows(folded=False), self._rows(folded=True)
        if "newest_image" in self.fields:
            shown.insert(1 + shown.index([self["image"]]), [self["newest_image"]])
        return shown if _is_worth_a_fold(few) else shown + few

    def less(self) -> list[list[forms.BoundField]]:
        rows = self._rows(folded=True)
        return rows if _is_worth_a_fold(rows) else []

    @property
    def less_words(self) -> Any:
        """What is folded away is called so; "": by the words of its few fields."""
        count = sum(len(row) for row in self.less())
        return self.less_title or (_("More options") if count > _FEW else "")

    def _rows(self, *, folded: bool) -> list[list[forms.BoundField]]:
        """Numbers of a kind's own share a row; of what is folded away those that one choice has."""
        plain = [x for x in self.table if x.folded == folded and not isinstance(x, f.Names)]
        beside = {field.name: row for row in self.beside for field in row}
        alone = [x for x in plain if isinstance(x, f.Count) and x.name not in beside]
        rows: list[tuple[f.Field, ...]] = []
        for field in plain:
            row = beside.get(field.name, (field,))
            if field in alone and not (folded and field.only is None):
                row = tuple(x for x in alone if not folded or x.only == field.only)
            if row not in rows:
                rows.append(row)
        shown = [[self[key] for key in self._keys(x.name for x in row)] for row in rows]
        return [row for row in shown if row]

    def mounts(self) -> list[forms.BoundField]:
        return [self[key] for key in self._mounts]

    @property
    def mounts_help(self) -> Any:
        return next((x.form_help for x in self.table if x.name == "volumes"), "")

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
        return bool(self.chosen_volume) or any(_speaks(field) for field in self.attached())

    def _keys(self, names: Iterable[str]) -> list[str]:
        fields = [self.table[name] for name in names if name in self.table]
        return [key_of(field) for field in fields if key_of(field) in self.fields]

    def clean(self) -> dict[str, Any]:
        data = clean_each(self, self._by_key)
        for key, volume in self._mounts.items():
            chosen = data.get("cluster") and data.get(key) and key in self.changed_data
            if chosen and self._is_elsewhere(key):
                message = _t("“%(volume)s” lies on %(cluster)s: choose that, or leave it out.")
                said = {"volume": volume.name, "cluster": volume.cluster_key}
                self.add_error(key, message % said)
        return data

    @property
    def names(self) -> dict[str, str]:
        """From a service's field to the form's, for ``common.ui.responses.refuse``."""
        return {field.name: key_of(field) for field in self.table}


def clean_each(form: forms.Form, fields: Mapping[str, f.Field]) -> dict[str, Any]:
    """Apply the rules of the table, so that what is wrong stands at its field."""
    data = form.cleaned_data
    for key, field in fields.items():
        value = data.get(key)
        if key in form.errors or _is_empty(value):
            continue
        try:
            field.clean(from_form(field, value))
        except forms.ValidationError as error:
            form.add_error(key, error)
        except Invalid as error:
            form.add_error(key, error.message)
    return data


def key_of(field: f.Field) -> str:
    """Return the name of a field in the form: people write cores and GiB, not milli and MiB."""
    return field.name.removesuffix("_milli").removesuffix("_mib").removesuffix("_bytes_s")


def to_form(field: f.Field, value: Any) -> Any:  # noqa: PLR0911 - one per type
    """Return a kept value as people write it."""
    if value is None:
        return None
    if isinstance(field, f.Count) and field.unit > 1:
        return Decimal(value) / field.unit if value else None
    if isinstance(field, f.Words):
        return shlex.join(value)
    if isinstance(field, f.Lines):
        return "\n".join(value)
    if isinstance(field, f.Environment):
        return "\n".join(f"{name}={text}" for name, text in value.items())
    if isinstance(field, f.Devices):
        return list(names_in(value))
    if isinstance(field, f.Ports):
        return "\n".join(_port_line(port) for port in value)
    return value


def from_form(field: f.Field, value: Any) -> Any:  # noqa: PLR0911 - one per type
    """Return what people wrote as it is kept; ValidationError says what can't be read."""
    if isinstance(field, f.Count) and field.unit > 1:
        return round(value * field.unit)
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
    if isinstance(field, f.Ports) and isinstance(value, str):
        rows = enumerate(value.splitlines(), start=1)
        return [_port(number, row.split()) for number, row in rows if row.strip()]
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


def _port(number: int, said: list[str]) -> dict[str, Any]:
    """Return a port from the words of a line: ``7860``, ``7860 demo`` or ``5432 db private``."""
    digits, *rest = said
    names = [word for word in rest if word != _PRIVATE]
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 5) or len(names) > 1:  # noqa: PLR2004
        wrong = _t("Line %(n)d is not a port, or a port and its name.")
        raise forms.ValidationError(wrong % {"n": number})
    return {"port": int(digits), "name": "".join(names), "web": _PRIVATE not in rest}


def _port_line(port: Mapping[str, Any]) -> str:
    name = port["name"] if port["name"] != f"port-{port['port']}" else ""
    return " ".join(filter(None, (str(port["port"]), name, "" if port["web"] else _PRIVATE)))


def _is_worth_a_fold(rows: list[list[forms.BoundField]]) -> bool:
    return sum(map(len, rows)) > 1


def _speaks(field: forms.BoundField) -> bool:
    kept, value = getattr(field.field, "work_field", None), field.value()
    usual = isinstance(kept, f.Choice | f.Count | f.Flag) and not kept.says(value)
    return bool(field.errors) or not (usual or _is_empty(value))


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [])


def form_field(  # noqa: C901, PLR0911, PLR0912 - one case per type
    field: f.Field, offers: Offers
) -> forms.Field | None:
    """Return the field of Django's forms, None where there is nothing to choose from."""
    if field.name in offers and not offers[field.name]:
        return None
    common: dict[str, Any] = {
        "label": field.label,
        "help_text": field.form_help or field.help,
        "required": False,
    }
    match field:
        case f.Count(unit=unit) if unit > 1:
            step = "0.25" if unit is f.Unit.GIB else "0.1"
            return forms.DecimalField(
                min_value=Decimal(field.low) / unit,
                max_value=Decimal(field.high) / unit,
                decimal_places=len(step) - 2,
                widget=forms.NumberInput(attrs={"step": step}),
                **common,
            )
        case f.Count():
            return forms.IntegerField(min_value=field.low, max_value=field.high, **common)
        case f.Flag():
            return forms.BooleanField(**common)
        case f.Choice() if field.name in offers:
            return forms.ChoiceField(choices=offers[field.name], **common)
        case f.Choice():
            return forms.ChoiceField(choices=field.choices, widget=forms.RadioSelect, **common)
        case f.Ports():
            ports = forms.Textarea(attrs={**_MONO, "placeholder": "7860 demo"})
            return forms.CharField(max_length=_MAX_TEXT, widget=ports, **common)
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
            many = forms.MultipleChoiceField(choices=offered, widget=boxes, **common)
            return many if offered else None
        case f.Line() if field.name in offers:
            offered = offers[field.name]
            switch = {"data-cluster-switch": True} if field.name == "cluster" else {}
            chosen = forms.Select(attrs=switch)
            return forms.ChoiceField(choices=offered, widget=chosen, **common)
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
