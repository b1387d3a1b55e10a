"""Classes of storage: what volumes lie on, cost and are offered as."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import django_tables2 as tables
from django import forms
from django.db.models import Count, Q, QuerySet
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from clusters.models import Cluster
from common.templatetags import berth as tags
from common.templatetags.berth import price
from common.ui.components import search_field
from console import fields
from console.fields import GroupedForm, area, description_field, position_field, price_field
from console.tables import END
from console.views.base import DeletePage, FilterForm, ListView, PartPage, Table
from volumes import selectors, topology
from volumes.choices import BackingKind, Medium
from volumes.services import classes
from volumes.ui.forms import bare, size_field, to_gib, to_mib

if TYPE_CHECKING:
    from decimal import Decimal

    from volumes.models import VolumeClass


_SIZES = ("min_size", "max_size", "default_size")


class VolumeClassForm(GroupedForm):
    """A kind of storage: what people see, what it lies on, where it is offered."""

    key = forms.SlugField(
        label=_("Short name"),
        max_length=63,
        help_text=_("As files and commands name it, for example fast-nfs. It never changes."),
    )
    name = forms.CharField(label=_("Name"), max_length=80)
    description = description_field()
    medium = forms.ChoiceField(
        label=_("Medium"), required=False, choices=[("", _("not said")), *Medium.choices]
    )
    speed = forms.CharField(
        label=_("Speed"),
        max_length=120,
        required=False,
        help_text=_("In words: what people can expect."),
    )
    price = price_field(_("Price of a GiB for a month"), max_digits=9, decimal_places=4)
    backing_kind = forms.ChoiceField(label=_("It lies on"), choices=BackingKind.choices)
    options = area(
        _("Options of that"),
        help_text=_(
            "name=value on each line. Folder: path. NFS: server, export. NFS by CSI: server,"
            " export, driver. Storage class: storage_class, access_mode, snapshot_class. Volumes"
            " that exist stay where they are."
        ),
    )
    can_snapshot = forms.BooleanField(
        label=_("Snapshots, where the cluster can make them"), required=False, initial=True
    )
    min_size = size_field(label=_("Smallest size in GiB"), required=True)
    max_size = size_field(
        label=_("Largest size in GiB"), required=False, help_text=_("Empty: no largest size.")
    )
    default_size = size_field(
        label=_("Size of homes and shared volumes in GiB"),
        required=False,
        help_text=_("Of those that come by themselves here. Empty: no limit of their own."),
    )
    clusters = forms.MultipleChoiceField(
        label=_("Offered on"), required=False, widget=forms.CheckboxSelectMultiple
    )
    default_on = forms.MultipleChoiceField(
        label=_("Taken unasked on"), required=False, widget=forms.CheckboxSelectMultiple
    )
    near = forms.MultipleChoiceField(
        label=_("Stands near"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_(
            "Pools that read it fastest. Work that mounts such a volume and names no pool is"
            " drawn to their nodes. None: anywhere."
        ),
    )
    enabled = forms.BooleanField(label=_("Offered for new volumes"), required=False, initial=True)
    position = position_field(most=10_000)

    HEAD = (("name", "key"), "description", "backing_kind", "options", "clusters", "enabled")
    GROUPS = (
        (
            _("What people are told"),
            _("Beside its name, where they choose."),
            ("medium", "speed", "price"),
        ),
        (
            _("What its volumes may be"),
            _("Usually from 1 GiB on, with snapshots."),
            ("min_size", "max_size", "default_size", "can_snapshot"),
        ),
        (
            _("Where it comes first"),
            _("Which clusters take it unasked, which pools it stands near, its place in lists."),
            ("default_on", "near", "position"),
        ),
    )

    def __init__(self, *args: Any, row: VolumeClass | None = None, **kwargs: Any) -> None:
        kwargs["initial"] = None if row is None else self.initial_of(row)
        super().__init__(*args, **kwargs)
        self._row = row
        self.fields["min_size"].initial = 1
        known = [(row.key, row.label) for row in Cluster.objects.order_by("name")]
        for name in ("clusters", "default_on"):
            field = self.fields[name]
            assert isinstance(field, forms.MultipleChoiceField)  # noqa: S101 - for the types
            field.choices = known
        near = self.fields["near"]
        assert isinstance(near, forms.MultipleChoiceField)  # noqa: S101 - for the types
        near.choices = topology.choices()
        if not near.choices:
            del self.fields["near"]  # no cluster has parts

    def values(self) -> dict[str, Any]:
        """Return what the service takes; raises when a line of the options says nothing.

        A size that was not touched is left out: it stays to the MiB.
        """
        found = dict(self.cleaned_data)
        found["options"] = fields.pairs(found["options"], "options")
        for name in _SIZES:
            size = found.pop(name)
            if self._row is None or name in self.changed_data:
                found[f"{name}_mib"] = None if size is None else to_mib(size)
        return found

    @staticmethod
    def initial_of(row: VolumeClass) -> dict[str, Any]:
        names = (
            *("key", "name", "description", "medium", "speed", "backing_kind"),
            *("can_snapshot", "enabled", "position"),
        )
        places = list(row.places.all())
        return {
            **{name: getattr(row, name) for name in names},
            **{name: to_gib(getattr(row, f"{name}_mib")) for name in _SIZES},
            "price": bare(row.price),
            "options": fields.pairs_text(row.options),
            "clusters": [place.cluster.key for place in places],
            "default_on": [place.cluster.key for place in places if place.is_default],
            "near": topology.said_of(places),
        }


class VolumeClassFilter(FilterForm):
    q = search_field()


class VolumeClassTable(Table):
    name = tables.Column(verbose_name=_("Class"))
    backing_kind = tables.Column(verbose_name=_("It lies on"))
    places = tables.Column(verbose_name=_("Offered on"), empty_values=(), orderable=False)
    sizes = tables.Column(verbose_name=_("Sizes"), empty_values=(), orderable=False)
    price = tables.Column(verbose_name=_("Price of a GiB for a month"), attrs=END)
    held = tables.Column(verbose_name=_("Volumes"), accessor="volumes_held", attrs=END)
    enabled = tables.Column(verbose_name=_("State"))

    class Meta:
        attrs: ClassVar[Any] = {"aria_label": _("Classes of storage")}

    def render_name(self, record: VolumeClass) -> Any:
        return format_html(
            '<a href="{}"><strong>{}</strong></a><br><span class="text-secondary">{}</span>',
            reverse("console:volume-class", kwargs={"volume_class": record.key}),
            record.name,
            record.key,
        )

    def render_price(self, value: Decimal) -> str:
        return price(value)

    def render_backing_kind(self, record: VolumeClass) -> Any:
        options = ", ".join(f"{k}={v}" for k, v in sorted(record.options.items()))
        return format_html(
            '{}<br><span class="mono text-secondary">{}</span>',
            record.get_backing_kind_display(),
            options,
        )

    def render_places(self, record: VolumeClass) -> str:
        said = [
            _t("%(name)s (default)") % {"name": name} if is_default else name
            for name, is_default in ((p.cluster.label, p.is_default) for p in record.places.all())
        ]
        return ", ".join(said) or tags.NOTHING

    def render_sizes(self, record: VolumeClass) -> str:
        most = tags.mib(record.max_size_mib) if record.max_size_mib else _t("no limit")
        return f"{tags.mib(record.min_size_mib)} – {most}"  # noqa: RUF001 - a range

    def render_enabled(self, record: VolumeClass) -> Any:
        if not record.enabled:
            return tags.badge(_t("Not offered"), "quiet", "eye-off")
        if not record.places.all():
            return tags.badge(_t("Offered nowhere"), "warning")
        if record.derived:
            return tags.badge(_t("Follows its cluster"), "info")
        return tags.badge(_t("Offered"), "good")


class VolumeClassList(ListView):
    table_class = VolumeClassTable
    filter_class = VolumeClassFilter
    heading = _("Storage")
    new = "console:volume-class-create", _("New class")
    empty = (
        "database-cog",
        _("No class of storage yet"),
        _("Each cluster makes its own with the first volume there."),
    )

    def rows(self, chosen: dict[str, Any]) -> QuerySet[VolumeClass]:
        live = Count("volumes", filter=Q(volumes__deleted_at__isnull=True))
        rows = selectors.classes().annotate(volumes_held=live)
        if word := chosen.get("q"):
            rows = rows.filter(Q(name__icontains=word) | Q(key__icontains=word))
        return rows


class VolumeClassEdit(PartPage):
    """One form for a new or a known class."""

    heading, delete_route = _("New class of storage"), "console:volume-class-delete"
    back = "console:volume-classes", _("Storage")
    saved = _("“%(name)s” is saved. Volumes stay where they are.")
    names = {f"{name}_mib": name for name in _SIZES}

    def row(self) -> VolumeClass | None:
        key = self.kwargs.get("volume_class")
        return selectors.class_get(key) if key else None

    def form(self, row: VolumeClass | None, data: Any = None) -> VolumeClassForm:
        form = VolumeClassForm(data, row=row)
        if row:
            form.fields["key"].widget.attrs["readonly"] = True
        return form

    def save(self, row: VolumeClass | None, form: Any) -> str:
        given = {"values": form.values(), "volume_class": row}
        return self.done(classes.class_save(principal=self.principal, **given))

    def delete_words(self, row: VolumeClass) -> tuple[str, str]:
        return _t("Delete the class “%(name)s”?") % {"name": row.name}, _t(
            "Its price and options are forgotten. Refused while a volume is of this class"
            " or a cluster takes it unasked."
        )


class VolumeClassDelete(DeletePage):
    stands_on = VolumeClassEdit

    def remove(self, row: VolumeClass) -> None:
        classes.class_delete(principal=self.principal, volume_class=row)
