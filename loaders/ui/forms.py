"""Three fields that are needed, and the rest folded away. Forms speak in MiB; services in bytes."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import available_timezones

from django import forms
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from accounts.timezones import TimeZoneField
from clusters.usable import usable_clusters
from credentials.selectors import credentials_usable
from loaders.choices import Direction, Mode, StoreKind
from loaders.policies import MAX_KEY, MAX_NAME
from loaders.selectors import matching
from loaders.services.caches import CACHE
from loaders.services.resolve import KINDS
from loaders.states import FILTERS
from volumes.choices import VolumeKind
from volumes.selectors import offers_near, volumes_mountable
from volumes.ui.forms import size_field, to_mib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accounts.principal import Principal
    from clusters.models import Cluster
    from loaders.models import Load
    from projects.models import Project

MIB = Decimal(2**20)
NAMES = {"cache_size_mib": "cache_size"}  # a service's field → the form's
GONE = "gone"  # stands for a credential that was removed
_LINES = {"rows": 3, "spellcheck": "false", "class": "mono"}
_PLAIN = {"autocomplete": "off", "spellcheck": "false"}


def _lines(text: str) -> list[str]:
    return [line.strip("\r") for line in text.split("\n") if line.strip()]


class HowForm(forms.Form):
    """What may be changed later too."""

    name = forms.CharField(
        label=_("Name"),
        required=False,
        max_length=MAX_NAME,
        widget=forms.TextInput(attrs=_PLAIN),
        help_text=_("Made from the path when left empty."),
    )
    credential = forms.ChoiceField(label=_("Credential"), required=False)
    mode = forms.ChoiceField(
        label=_("What happens to what is there"),
        choices=Mode.choices,
        required=False,
        help_text=_("Both copy only what is new or changed."),
    )
    delete_extra = forms.BooleanField(
        label=_("Delete in the target what is not in the source"),
        required=False,
        help_text=_("Only with “Make the target the same”. This can't be undone."),
    )
    include = forms.CharField(
        label=_("Only these"),
        required=False,
        max_length=20_000,
        widget=forms.Textarea(attrs=_LINES),
        help_text=_("One pattern a line, like *.parquet or 2024/**."),
    )
    exclude = forms.CharField(
        label=_("Leave out"), required=False, max_length=20_000, widget=forms.Textarea(attrs=_LINES)
    )
    bandwidth = forms.DecimalField(
        label=_("At most MiB a second"),
        required=False,
        min_value=Decimal("0.1"),
        max_value=1_000_000,
        decimal_places=1,
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=_("Empty: as fast as it goes."),
    )
    schedule = forms.CharField(
        label=_("Schedule"),
        required=False,
        max_length=100,
        widget=forms.TextInput(attrs={**_PLAIN, "class": "mono", "placeholder": "30 2 * * *"}),
        help_text=_("Minute, hour, day, month, day of the week. Empty: only when asked."),
    )
    time_zone = TimeZoneField(
        known=available_timezones,
        label=_("Time zone"),
        required=False,
        help_text=_("Of the schedule; UTC when left empty."),
    )

    def __init__(
        self, *args: Any, who: Principal, project: Project, kind: str = "", **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        kinds = [kind] if kind else list(KINDS)
        rows = list(credentials_usable(who, project, kinds))
        field = self.fields["credential"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - declared above
        named = [(str(row.uid), f"{row.name} · {row.get_kind_display()}") for row in rows]
        self.has_credentials = bool(named)
        field.choices = [*named, ("", _t("None: the bucket is public"))]
        if self.initial.get("credential") == GONE:
            field.choices = [(GONE, _t("It was removed: choose another one")), *field.choices]
        if named and "credential" not in self.initial:
            self.initial["credential"] = named[0][0]

    def how(self) -> dict[str, Any]:
        """Return what was said here, as services take it."""
        data = self.cleaned_data
        bandwidth = data.get("bandwidth")
        return {
            "name": data["name"] or None,
            "credential": None if data["credential"] == GONE else data["credential"],
            "mode": data["mode"] or None,
            "delete_extra": data["delete_extra"],
            "include": _lines(data["include"]),
            "exclude": _lines(data["exclude"]),
            "bandwidth_bytes_s": round(bandwidth * MIB) if bandwidth else 0,
            "schedule": data["schedule"],
            "time_zone": data["time_zone"],
        }

    def said(self) -> dict[str, Any]:
        return self.how()


class LoadForm(HowForm):
    """A new load."""

    url = forms.CharField(
        label=_("Bucket and path"),
        max_length=MAX_KEY + 300,
        strip=True,
        widget=forms.TextInput(
            attrs={**_PLAIN, "class": "mono", "placeholder": "s3://bucket/folder"}
        ),
        help_text=_("s3://bucket/folder, gs://bucket/folder or hdfs:///folder"),
    )
    volume = forms.ChoiceField(label=_("Volume"), required=False)
    cache_size = size_field(
        label=_("Size of a new cache in GiB"),
        required=False,
        help_text=_("Only for a cache of this source that is not there yet."),
    )
    folder = forms.CharField(
        label=_("Folder in the volume"),
        required=False,
        max_length=MAX_KEY,
        widget=forms.TextInput(attrs={**_PLAIN, "class": "mono", "placeholder": "data/images"}),
    )
    direction = forms.ChoiceField(
        label=_("Direction"), choices=Direction.choices, required=False, widget=forms.RadioSelect
    )
    objects = forms.CharField(
        label=_("Only these objects"),
        required=False,
        max_length=600_000,
        widget=forms.Textarea(attrs=_LINES),
        help_text=_("Whole keys, one a line. Empty: everything below the path."),
    )
    version = forms.CharField(
        label=_("Version"),
        required=False,
        max_length=MAX_NAME,
        widget=forms.TextInput(attrs=_PLAIN),
        help_text=_("A word of yours. The same source in another version is loaded anew."),
    )
    endpoint = forms.CharField(
        label=_("Address of a public S3-compatible store"),
        required=False,
        max_length=255,
        widget=forms.TextInput(attrs={**_PLAIN, "placeholder": "https://store.example.org"}),
    )
    region = forms.CharField(
        label=_("Region of a public bucket"),
        required=False,
        max_length=63,
        widget=forms.TextInput(attrs=_PLAIN),
    )

    def __init__(self, *args: Any, who: Principal, project: Project, **kwargs: Any) -> None:
        super().__init__(*args, who=who, project=project, **kwargs)
        field = self.fields["volume"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101 - declared above
        clusters = usable_clusters(project.uid)
        field.choices = [*_volumes(who, project, clusters), *_caches(project, clusters)]
        self.initial.setdefault("direction", Direction.IN)

    def said(self) -> dict[str, Any]:
        data = self.cleaned_data
        names = ("url", "volume", "folder", "version", "endpoint", "region")
        return {
            **self.how(),
            **{name: data[name] for name in names},
            "cache_size_mib": to_mib(data["cache_size"]) if data["cache_size"] else None,
            "direction": data["direction"] or None,
            "objects": _lines(data["objects"]),
        }


def _volumes(
    who: Principal, project: Project, clusters: Sequence[Cluster]
) -> list[tuple[str, str]]:
    """Return what may be loaded into, the project's own first."""
    rows = list(volumes_mountable(who, project))
    names = {cluster.key: cluster.label for cluster in clusters}
    several = len({row.cluster_key for row in rows}) > 1
    order = {VolumeKind.PROJECT: 0, VolumeKind.DATA: 1, VolumeKind.HOME: 2}
    rows.sort(key=lambda row: (order[VolumeKind(row.kind)], row.cluster_key, row.name))
    words = {
        VolumeKind.PROJECT: _t("Shared by the project"),
        VolumeKind.HOME: _t("Your home: only you see it"),
    }
    named = []
    for row in rows:
        text = str(words.get(VolumeKind(row.kind), row.name))
        there = names.get(row.cluster_key, row.cluster_key)
        named.append((str(row.uid), f"{text} ({there})" if several else text))
    if not any(row.kind == VolumeKind.PROJECT for row in rows):
        named.insert(0, ("", str(words[VolumeKind.PROJECT])))
    return named


def _caches(project: Project, clusters: Sequence[Cluster]) -> list[tuple[str, str]]:
    """Return what stands for a cache of the source: anywhere, or near a part of a cluster."""
    _offers, near = offers_near(clusters, project.uid)
    pools = dict.fromkeys(name for names in near.values() for name in names)
    pinned = [
        (f"{CACHE}{n}", _t("A cache of this source near %(pool)s") % {"pool": n}) for n in pools
    ]
    return [(CACHE, _t("A cache of this source")), *pinned]


def edit_form(row: Load, who: Principal, data: Any = None) -> HowForm:
    bandwidth = row.bandwidth_bytes_s
    initial = {
        "name": row.name,
        "credential": str(row.credential.uid) if row.credential else "" if row.anonymous else GONE,
        "mode": row.mode,
        "delete_extra": row.delete_extra,
        "include": "\n".join(row.include),
        "exclude": "\n".join(row.exclude),
        "bandwidth": round(Decimal(bandwidth) / MIB, 1) if bandwidth else None,
        "schedule": row.schedule,
        "time_zone": row.time_zone,
    }
    return HowForm(
        data, who=who, project=row.project, kind=StoreKind(row.store_kind), initial=initial
    )


class FilterForm(forms.Form):
    """The filters of the list; their state lives in the URL."""

    q = forms.CharField(
        label=_("Search"),
        required=False,
        max_length=80,
        widget=forms.TextInput(attrs={"type": "search", "placeholder": _("Name or bucket")}),
    )
    state = forms.ChoiceField(
        label=_("State"),
        required=False,
        choices=[
            ("", _("Any")),
            ("running", _("Running")),
            ("waiting", _("Waiting")),
            ("done", _("Done")),
            ("partial", _("Partial")),
            ("failed", _("Failed")),
            ("paused", _("Paused")),
            ("cancelled", _("Cancelled")),
            ("scheduled", _("With a schedule")),
        ],
    )
    mine = forms.ChoiceField(
        label=_("Whose"),
        required=False,
        choices=[("", _("Everybody")), ("1", _("Mine"))],
    )


def filtered(form: FilterForm, rows: Any, who: Principal) -> Any:
    """Narrow ``rows``; a filter that makes no sense narrows nothing."""
    data = form.cleaned_data if form.is_valid() else {}
    if words := data.get("q", ""):
        rows = matching(rows, words)
    if state := data.get("state"):
        rows = rows.filter(FILTERS[state])
    if data.get("mine") == "1":
        rows = rows.filter(owner=who.user)
    return rows
