"""The form of a load: where from and where to; the rest is folded away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zoneinfo import available_timezones

from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from accounts.timezones import TimeZoneField
from clusters.usable import usable_clusters
from credentials.selectors import credentials_named, credentials_usable
from loaders.choices import Direction, Mode
from loaders.fields import TABLE
from loaders.kind import LOAD
from loaders.services.caches import CACHE
from loaders.services.resolve import KINDS
from projects.access import Permission, permissions_of
from volumes.choices import VolumeKind
from volumes.selectors import offers_near, volume_named, volumes_mountable
from work.ui.forms import WorkForm
from work.ui.launch import changeable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.forms import BoundField

    from accounts.principal import Principal
    from clusters.models import Cluster
    from loaders.models import Load
    from projects.models import Project

GONE = "gone"  # stands for a credential that was removed


class LoadForm(WorkForm):
    """``is_new``: what is said less often is folded away."""

    beside = (
        (TABLE["include"], TABLE["exclude"]),
        (TABLE["endpoint"], TABLE["region"]),
        (TABLE["schedule"], TABLE["time_zone"]),
    )
    less_title = _("More options")
    is_new = True

    def head(self) -> list[list[BoundField]]:
        return super().head() if self.is_new else [*super().head(), *super().less()]

    def less(self) -> list[list[BoundField]]:
        return super().less() if self.is_new else []

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        plain = self.fields["time_zone"]
        zone = TimeZoneField(
            known=available_timezones,
            label=plain.label,
            required=False,
            help_text=plain.help_text,
        )
        zone.work_field = TABLE["time_zone"]  # type: ignore[attr-defined]
        self.fields["time_zone"] = zone
        if "url" in self.fields:
            self.fields["url"].required = True

    def said(self) -> dict[str, Any]:
        found = super().said()
        if found.get("credential") == GONE:
            del found["credential"]
        if "bandwidth" not in self.changed_data:  # it is shown rounded
            found.pop("bandwidth_bytes_s", None)
        elif self.cleaned_data["bandwidth"] is None:
            found["bandwidth_bytes_s"] = 0
        return found


def load_form(
    who: Principal,
    project: Project,
    data: Any = None,
    *,
    row: Load,
) -> LoadForm:
    """Return the form of a new load, or of what may change of ``row`` now."""
    kinds = [row.store_kind] if row.pk else list(KINDS)
    usable = credentials_usable(who, project, kinds)
    keys = [(str(one.uid), f"{one.name} · {one.get_kind_display()}") for one in usable]
    offers = {"credential": [*keys, ("", _t("None: the bucket is public"))]}
    if row.pk is None:
        clusters = usable_clusters(project.uid)
        offers["volume"] = [*_volumes(who, project, clusters), *_caches(project, clusters)]
        first = keys[0][0] if keys else ""
        values = {"direction": Direction.IN, "mode": Mode.COPY, "credential": first}
        form = LoadForm(data, table=TABLE, offers=offers, values=values)
        if not keys and Permission.CREDENTIAL_MANAGE in permissions_of(who, project):
            store = reverse("credentials:list", args=[project.slug])
            said = _t("Store a credential first"), _t("if the bucket is not public.")
            hint = format_html('<a href="{}">{}</a> {}', store, *said)
            form.fields["credential"].help_text = hint
        return form
    table = changeable(LOAD, row)
    values = table.read(row, private=True) | {"credential": ""}
    if row.credential is not None:
        values["credential"] = str(row.credential.uid)
    elif not row.anonymous:
        values["credential"] = GONE
        offers["credential"].insert(0, (GONE, _t("It was removed: choose another one")))
    form = LoadForm(data, table=table, offers=offers, values=values)
    form.is_new = False
    return form


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


def named(who: Principal, row: Load) -> dict[str, str]:
    """Return credential and volume by what means them alone: their names, else their ids."""
    found = {"volume": TABLE["volume"].read(row)}
    if row.credential is not None:
        (found["credential"],) = credentials_named(who, row.project, [row.credential], KINDS)
    if row.volume_id is not None and row.cache is None:
        found["volume"] = volume_named(who, row.project, row.volume)
    return found
