"""Forms speak in GiB; services in MiB."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from clusters.usable import usable_clusters
from common.templatetags.berth import mib, price
from common.ui import components
from common.ui.components import choice, search_field
from volumes import selectors
from volumes.choices import VolumeKind, WritePolicy
from volumes.services.create import MAX_DESCRIPTION, NewVolume
from volumes.services.edit import Changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from projects.models import Project
    from volumes.models import Volume, VolumeClass

_GIB = Decimal(1024)
_LEAST = Decimal("0.01")  # GiB, also the step of what is shown
MAX_GIB = 2**30
_SIZE = _("Size in GiB")
# a service's field → the form's
NAMES = {
    "size_mib": "size",
    "size_limit_mib": "size",
    "volume_class": "place",
    "cluster": "place",
}
SEPARATOR = "/"


def size_field(*, required: bool, label: Any = _SIZE, help_text: Any = "") -> forms.DecimalField:
    return forms.DecimalField(
        label=label,
        required=required,
        min_value=_LEAST,
        max_value=MAX_GIB,
        decimal_places=2,
        widget=forms.NumberInput(attrs={"step": "any", "inputmode": "decimal"}),
        help_text=help_text,
    )


def description_field() -> forms.CharField:
    return forms.CharField(
        label=_("Description"),
        required=False,
        max_length=MAX_DESCRIPTION,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )


def policy_field() -> forms.ChoiceField:
    return forms.ChoiceField(
        label=_("Who may change files"),
        required=False,
        choices=WritePolicy.choices,
        widget=forms.RadioSelect,
        help_text=_("All members may read them."),
    )


def to_mib(gib: Decimal) -> int:
    return max(1, round(gib * _GIB))


def to_gib(size_mib: int | None) -> Decimal | None:
    """Return what the field takes back: rounded, so an untouched size is not to be read again."""
    return None if size_mib is None else bare(max(_LEAST, (size_mib / _GIB).quantize(_LEAST)))


def bare(number: Decimal) -> Decimal:
    """Return it as people type it: 4096 and 0.5, not 4096.00 and 0.5000."""
    return number.quantize(1) if number == number.to_integral_value() else number.normalize()


class VolumeForm(forms.Form):
    """Name and size; the rest has a default."""

    name = forms.CharField(
        label=_("Name"),
        max_length=63,
        widget=forms.TextInput(
            attrs={"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false"}
        ),
        help_text=_("Seen as a folder of this name in workspaces: small letters, digits, - _ ."),
    )
    size = size_field(required=True)
    place = forms.ChoiceField(label=_("Storage"), required=False)
    description = description_field()
    write_policy = policy_field()

    def __init__(self, *args: Any, project: Project, **kwargs: Any) -> None:
        kwargs.setdefault("initial", {"write_policy": WritePolicy.EVERYBODY})
        super().__init__(*args, **kwargs)
        choices = list(_places(project))
        if len(choices) > 1:
            field = self.fields["place"]
            assert isinstance(field, forms.ChoiceField)  # noqa: S101 - for the type checker
            field.choices = choices
        else:
            del self.fields["place"]

    def wanted(self) -> NewVolume:
        data = self.cleaned_data
        cluster, _sep, key = (data.get("place") or "").partition(SEPARATOR)
        return NewVolume(
            name=data["name"],
            size_mib=to_mib(data["size"]),
            cluster=cluster,
            volume_class=key,
            description=data.get("description") or "",
            write_policy=data.get("write_policy") or WritePolicy.EVERYBODY,
        )


def _places(project: Project) -> list[tuple[str, str]]:
    """Return (cluster/class, words) of what is offered; the default of each cluster first."""
    clusters = usable_clusters(project.uid)
    offers, near = selectors.offers_near(clusters, project.uid)
    several = len(clusters) > 1
    return [
        (
            f"{cluster.key}{SEPARATOR}{key}",
            _words(row, cluster.label if several else "", near.get((cluster.key, key), ())),
        )
        for cluster in clusters
        for key, row in offers[cluster.key].items()
    ]


def _words(row: VolumeClass, cluster: str, near: Sequence[str]) -> str:
    parts = [row.name, cluster, row.get_medium_display() if row.medium else "", row.speed]
    if near:
        parts.append(_t("near %(pools)s") % {"pools": ", ".join(near)})
    if row.price:
        parts.append(_t("%(price)s per GiB and month") % {"price": price(row.price)})
    parts.append(_t("from %(size)s") % {"size": mib(row.min_size_mib)})
    return " · ".join(str(part) for part in parts if part)


class SettingsForm(forms.Form):
    """What may be changed of a volume; fields that its kind has not are left out."""

    name = forms.CharField(
        label=_("Name"),
        max_length=63,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text=_("Can't be changed while something has the volume mounted."),
    )
    size = size_field(required=False)
    description = description_field()
    write_policy = policy_field()

    def __init__(self, *args: Any, row: Volume, **kwargs: Any) -> None:
        kwargs["initial"] = {
            "name": row.name,
            "size": to_gib(row.size_limit_mib),
            "description": row.description,
            "write_policy": row.write_policy,
        }
        super().__init__(*args, **kwargs)
        self._row = row
        if row.kind != VolumeKind.DATA:
            del self.fields["name"]
        if row.kind == VolumeKind.HOME:
            del self.fields["description"], self.fields["write_policy"]
        if row.kind == VolumeKind.DATA:
            self.fields["size"].required = True
        else:
            self.fields["size"].help_text = _("Empty: no limit of its own.")
        if not selectors.can_grow(row) and row.size_limit_mib is not None:
            said = _t("It can't be made larger: its storage does not allow it.")
            self.fields["size"].help_text = f"{self.fields['size'].help_text} {said}".strip()

    def changes(self) -> Changes:
        """Return what differs from what was shown: an untouched size stays to the byte."""
        data = self.cleaned_data
        size = data.get("size")
        touched = "size" in self.changed_data
        return Changes(
            name=data.get("name"),
            description=data.get("description"),
            write_policy=data.get("write_policy") or None,
            size_limit_mib=to_mib(size) if touched and size is not None else None,
            no_limit=touched and size is None,
        )


class FilterForm(components.FilterForm):
    """The filters of the list."""

    q = search_field(_("Name"))
    kind = choice(_("Kind"), *VolumeKind.choices)
    mine = choice(_("Whose"), ("1", _("Mine")), any_of=("", _("Everybody")))
    deleted = choice(_("State"), ("1", _("Being deleted")))
