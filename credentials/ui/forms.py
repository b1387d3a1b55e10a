"""Forms of credentials, made from what each kind says of its fields.

A secret is written into a form and never rendered back, also when something else was wrong.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

import django_tables2 as tables
from django import forms
from django.db.models import Q
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime, make_aware
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.templatetags.berth import ago, badge
from common.ui import components
from common.ui.components import ANY, choice, search_field
from credentials.choices import CredentialKind, GivenAs, UsableBy
from credentials.kinds import Field, Kind, Part, Shape
from credentials.models import Credential
from credentials.selectors import expiry_of
from credentials.services import NAME_MAX, TEXT_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet


_PLAIN = {"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false"}
_SECRET = {**_PLAIN, "autocomplete": "new-password"}
_FILE = "_file"  # the file that may be chosen instead of pasting into a field


class SecretTextarea(forms.Textarea):
    """Several lines that go in and are never shown again."""

    def format_value(self, value: Any) -> str:  # noqa: ARG002 - the library's signature
        return ""

    def use_required_attribute(self, initial: Any) -> bool:  # noqa: ARG002 - as above
        return False  # a file may be chosen instead; the kind says when neither was done


class PastedField(forms.CharField):
    """Needed, but perhaps as a file: so its own emptiness is no error yet."""

    def validate(self, value: Any) -> None:
        """Leave it to the kind."""


class _KindForm(forms.Form):
    """Fields of one kind; ``parts`` says which of them this form is for."""

    parts: tuple[Part, ...] = ()

    def __init__(self, kind: Kind, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kind = kind
        self.given = tuple(f for f in kind.fields if f.part in self.parts)
        for given in self.given:
            self.fields[given.name] = _form_field(given)
            if given.shape is Shape.PAIRS:
                self.fields["file_name"] = _file_name()
            if given.hidden and given.shape in {Shape.TEXT, Shape.PAIRS}:
                self.fields[given.name + _FILE] = forms.FileField(
                    label=_("Or choose the file"), required=False, max_length=255
                )
        self.order_fields(self.order())

    def order(self) -> list[str]:
        return ["name", *(n for n in self.fields if n not in _LAST), *_LAST]

    def clean(self) -> dict[str, Any]:
        said: dict[str, Any] = super().clean() or self.cleaned_data
        for given in self.given:
            if given.name + _FILE in self.fields:
                said[given.name] = self._pasted_or_chosen(given, said)
            if given.shape is Shape.PAIRS:
                said[given.name] = self._pairs(said.get(given.name, ""), said)
        return said

    def said(self) -> dict[str, Any]:
        """Return the fields of the kind, as its service takes them."""
        return {given.name: self.cleaned_data.get(given.name) for given in self.given}

    def _pasted_or_chosen(self, given: Field, said: dict[str, Any]) -> str:
        chosen = said.get(given.name + _FILE)
        if chosen is None:
            return str(said.get(given.name) or "")
        if chosen.size > given.limit:
            self.add_error(given.name, _t("The file is longer than any such secret."))
            return ""
        try:
            return str(chosen.read().decode())
        except UnicodeDecodeError:
            self.add_error(given.name, _t("The file is not text."))
            return ""

    def _pairs(self, text: str, said: dict[str, Any]) -> dict[str, str]:
        """Read ``NAME=value`` lines, or take all of it as one file."""
        if said.get("given_as") == GivenAs.FILE:
            return {said.get("file_name") or "secret": text} if text else {}
        found: dict[str, str] = {}
        for line in filter(None, map(str.strip, text.splitlines())):
            name, sign, value = line.removeprefix("export ").partition("=")
            if line.startswith("#"):
                continue
            if not sign or name.strip() in found:
                self.add_error("values", _t("One NAME=value in each line, each name once."))
                return {}
            found[name.strip()] = value.strip()
        return found


class _Expiring(forms.Form):
    expires_on = forms.DateField(
        label=_("Good until"),
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text=_("When it runs out; two weeks before, you are told."),
    )

    @property
    def expires_at(self) -> datetime | None:
        """The end of that day, by the reader's clock."""
        day = self.cleaned_data.get("expires_on")
        if day is None:
            return None
        end = datetime.combine(day, datetime.max.time().replace(microsecond=0))
        return make_aware(end)


class _Labelled(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=NAME_MAX)
    usable_by = forms.ChoiceField(
        label=_("Who may use it"), choices=UsableBy.choices, required=False
    )
    description = forms.CharField(label=_("Description"), max_length=TEXT_MAX, required=False)

    def drop_users(self, kind: Kind, *, personal: bool) -> None:
        """A registry's sign-in is everybody's, and one's own is one's own."""
        if personal or kind.kind is CredentialKind.REGISTRY:
            del self.fields["usable_by"]

    @property
    def label(self) -> dict[str, Any]:
        said = {n: self.cleaned_data.get(n, "") for n in ("name", "description")}
        if users := self.cleaned_data.get("usable_by"):
            said["usable_by"] = users
        return said


class AddForm(_KindForm, _Labelled, _Expiring):
    parts = (Part.TARGET, Part.SETTING, Part.SECRET)

    def __init__(self, kind: Kind, *args: Any, personal: bool = False, **kwargs: Any) -> None:
        super().__init__(kind, *args, **kwargs)
        self.drop_users(kind, personal=personal)


class RotateForm(_KindForm, _Expiring):
    parts = (Part.SECRET,)


class EditForm(_KindForm, _Labelled, _Expiring):
    parts = (Part.SETTING,)

    def __init__(self, row: Credential, kind: Kind, *args: Any, **kwargs: Any) -> None:
        shown = {f.name: row.public.get(f.name) for f in kind.fields if not f.hidden}
        shown = {n: "\n".join(v) if isinstance(v, list) else v for n, v in shown.items()}
        kept: dict[str, Any] = {
            "name": row.name,
            "usable_by": row.usable_by,
            "description": row.description,
        }
        if row.expires_at is not None:
            kept["expires_on"] = localtime(row.expires_at).date()
        super().__init__(kind, *args, initial={**shown, **kept}, **kwargs)
        self.drop_users(kind, personal=row.is_personal)

    def changes(self) -> dict[str, Any]:
        """Return what was asked for; a date that was left as it was is no change."""
        dated = {"expires_at": self.expires_at} if "expires_on" in self.changed_data else {}
        return {**self.label, **self.said(), **dated}


_LAST = ("usable_by", "expires_on", "description")


def _file_name() -> forms.CharField:
    return forms.CharField(
        label=_("Name of the file"),
        max_length=100,
        required=False,
        widget=forms.TextInput(attrs={**_PLAIN, "placeholder": "kaggle.json"}),
        help_text=_("Only where it is given as a file."),
    )


def _form_field(given: Field) -> forms.Field:
    common: dict[str, Any] = {"label": given.label, "help_text": given.help}
    if given.shape is Shape.FLAG:
        return forms.BooleanField(required=False, initial=given.initial, **common)
    if given.shape is Shape.CHOICE:
        return forms.ChoiceField(choices=given.choices, initial=given.initial, **common)
    if given.shape is Shape.PAIRS:
        common["help_text"] = _("One NAME=value in each line; or the contents of one file.")
    pasted = given.hidden and given.shape is not Shape.LINE
    return (PastedField if pasted else forms.CharField)(
        max_length=given.limit,
        required=given.required,
        strip=not pasted,
        widget=_widget(given),
        **common,
    )


def _widget(given: Field) -> forms.Widget:
    hint = {"placeholder": given.placeholder} if given.placeholder else {}
    if given.shape is Shape.LINE and given.hidden:
        return forms.PasswordInput(render_value=False, attrs=_SECRET)
    if given.shape is Shape.LINE:
        return forms.TextInput(attrs={**_PLAIN, **hint})
    if given.hidden:
        return SecretTextarea(attrs={**_SECRET, "rows": 6})
    return forms.Textarea(attrs={**_PLAIN, **hint, "rows": 3})


# Narrowing the list of credentials. Its state lives in the address, beside ``kind``, which says
# what the form below the list is for.


class FilterForm(components.FilterForm):
    q = search_field(_("Name or address"))
    of = choice(_("Kind"))

    def __init__(self, said: object, kinds: Iterable[Kind]) -> None:
        super().__init__(said)  # type: ignore[arg-type]
        named = [(kind.kind.value, kind.kind.label) for kind in kinds]
        self.fields["of"].choices = [ANY, *named]  # type: ignore[attr-defined]

    @property
    def narrows(self) -> bool:
        return any(self.data.get(name) for name in self.fields)

    def narrowed(self, rows: QuerySet[Credential]) -> QuerySet[Credential]:
        """Return those of ``rows`` that fit; a filter that makes no sense narrows nothing."""
        chosen = self.cleaned_data if self.is_valid() else {}
        if words := chosen.get("q"):
            fits = Q(name__icontains=words) | Q(description__icontains=words)
            rows = rows.filter(fits | Q(target__icontains=words))
        if kind := chosen.get("of"):
            rows = rows.filter(kind=kind)
        return rows


def state(row: Credential) -> SafeString:
    """What is to be known at a glance: run out, refused, accepted or never tried."""
    expiry = expiry_of(row)
    if expiry == "over":
        return badge(_t("Run out"), "danger")
    if row.test_ok is False:
        return badge(_t("Refused when tested"), "danger")
    if expiry == "soon":
        return badge(_t("Runs out soon"), "warning")
    if row.test_ok:
        return badge(_t("Accepted when tested"), "good")
    if row.tested_at is not None:
        return badge(_t("Could not be judged"), "quiet")
    return badge(_t("Not tested"), "quiet")


class CredentialTable(tables.Table):
    name = tables.Column(verbose_name=_("Name"))
    kind = tables.Column(verbose_name=_("Kind"), accessor="get_kind_display", order_by="kind")
    target = tables.Column(verbose_name=_("For"))
    usable_by = tables.Column(verbose_name=_("Used by"), accessor="get_usable_by_display")
    used = tables.Column(
        verbose_name=_("Last used"), accessor="last_used_at", empty_values=(), orderable=False
    )
    state = tables.Column(verbose_name=_("State"), empty_values=(), orderable=False)

    class Meta:
        attrs: ClassVar[dict[str, Any]] = {"aria_label": _("Credentials")}

    def render_name(self, record: Credential) -> SafeString:
        return format_html('<a href="{}">{}</a>', record.get_absolute_url(), record.name)

    def render_used(self, record: Credential) -> SafeString | str:
        return ago(record.last_used_at) if record.last_used_at else _t("never")

    def render_state(self, record: Credential) -> SafeString:
        return state(record)
