"""What the console's forms share: fields, texts of lines, long forms in groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.conf import settings
from django.utils import timezone
from django.utils.functional import lazy
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.errors import Invalid
from projects.models import Project

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def lines_of(text: str) -> list[str]:
    return [line.strip() for line in (text or "").splitlines() if line.strip()]


def pairs(text: str, field: str) -> dict[str, str]:
    """``name=value`` on each line."""
    found: dict[str, str] = {}
    for line in lines_of(text):
        name, sign, value = line.partition("=")
        if not sign:
            message = _t("Write name=value on each line; this is not: %(line)s") % {"line": line}
            raise Invalid(message, fields={field: [message]})
        found[name.strip()] = value.strip()
    return found


def pairs_text(values: Mapping[str, Any]) -> str:
    return "\n".join(f"{name}={value}" for name, value in sorted((values or {}).items()))


def sets(text: str, field: str) -> dict[str, list[str]]:
    """``name=value,value`` on each line: any of the values will do."""
    found = pairs(text, field)
    return {name: [v.strip() for v in value.split(",")] for name, value in found.items()}


def sets_text(values: Mapping[str, Iterable[str]]) -> str:
    return "\n".join(f"{name}={','.join(v)}" for name, v in sorted((values or {}).items()))


def cards(text: str, field: str) -> list[dict[str, str]]:
    """``attachment resource`` on each line; without a resource it takes nothing of the node."""
    found = []
    for line in lines_of(text):
        attachment, _space, resource = line.partition(" ")
        if " " in resource.strip():
            message = _t("Write attachment and resource on each line; this is not: %(line)s") % {
                "line": line
            }
            raise Invalid(message, fields={field: [message]})
        found.append({"attachment": attachment, "resource": resource.strip()})
    return found


def cards_text(values: Iterable[Mapping[str, str]]) -> str:
    return "\n".join(f"{entry['attachment']} {entry['resource']}".strip() for entry in values or ())


def tolerations(text: str) -> list[dict[str, str]]:
    """``key=value:Effect`` or ``key:Effect`` on each line, as kubectl writes taints."""
    found = []
    for line in lines_of(text):
        rest, _colon, effect = line.rpartition(":")
        if effect not in EFFECTS:
            rest, effect = line, ""
        key, _sign, value = rest.partition("=")
        entry = {"key": key, "value": value, "effect": effect}
        found.append({name: part for name, part in entry.items() if part})
    return found


def tolerations_text(values: Iterable[Mapping[str, str]]) -> str:
    lines = []
    for entry in values or ():
        value = f"={entry['value']}" if entry.get("value") else ""
        effect = f":{entry['effect']}" if entry.get("effect") else ""
        lines.append(f"{entry.get('key', '')}{value}{effect}")
    return "\n".join(lines)


# What a machine reads is typed as it stands there: nothing corrects or remembers it.
EXACT = {"class": "mono", "spellcheck": "false", "autocapitalize": "off", "autocomplete": "off"}
MOST_POSITION = 100_000


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


class GroupedForm(forms.Form):
    """``HEAD`` is always in sight (a tuple in it is one row); ``GROUPS``: title, sentence, fields.

    A group is open where a field of it was filled in differently from a new form's, or is wrong.
    """

    template_name = "components/grouped.html"

    HEAD: ClassVar[tuple[str | tuple[str, ...], ...]] = ()
    GROUPS: ClassVar[tuple[tuple[Any, Any, tuple[str, ...]], ...]] = ()
    # Fields that say nothing by being set; "*": a form whose every field is set.
    QUIET: ClassVar[tuple[str, ...]] = ()

    def head(self) -> list[list[Any]]:
        rows = [(row,) if isinstance(row, str) else row for row in self.HEAD]
        found = [[self[name] for name in row if name in self.fields] for row in rows]
        return [row for row in found if row]

    def groups(self) -> list[tuple[Any, Any, list[Any], bool]]:
        """Return title, sentence, fields, and whether one of them has to be looked at."""
        found = []
        for title, text, names in self.GROUPS:
            shown = [self[name] for name in names if name in self.fields]
            if shown:
                found.append((title, text, shown, any(self._speaks(field) for field in shown)))
        return found

    def _speaks(self, field: Any) -> bool:
        if field.errors:
            return True
        if "*" in self.QUIET or field.name in self.QUIET:
            return False
        value, initial = field.value(), field.field.initial
        if isinstance(field.field, forms.IntegerField | forms.BooleanField):
            meant = field.field.to_python  # 0.00 is 0, "on" is True
            return meant(value) not in (None, meant(initial))
        return value not in (None, "", []) and str(value) != str(initial)
