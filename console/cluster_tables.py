"""Lists about clusters: nodes, kinds of GPU."""

from decimal import Decimal
from typing import Any, ClassVar

import django_tables2 as tables
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from clusters.accelerators import closed_by
from common.money import price
from common.templatetags import berth as tags
from console.tables import END
from console.views.base import Table

# Labels that say where a node stands, shown before the others (C37).
PLACES = ("su", "block", "rack", "rail", "zone", "pool", "nic")
SHOWN = 6
NOWRAP: dict[str, Any] = {"td": {"class": "text-nowrap"}}
END_NOWRAP: dict[str, Any] = {"td": {"class": "end text-nowrap"}, "th": {"class": "end"}}


class NodeTable(Table):
    name = tables.Column(verbose_name=_("Node"), attrs=NOWRAP)
    ready = tables.Column(verbose_name=_("State"), empty_values=())
    flavor = tables.Column(
        verbose_name=_("GPUs"), empty_values=(), order_by=("flavor__name",), attrs=NOWRAP
    )
    cpu_milli = tables.Column(verbose_name=_("CPU"), attrs=END)
    memory_mib = tables.Column(verbose_name=_("Memory"), attrs=END_NOWRAP)
    labels = tables.Column(verbose_name=_("Labels"), empty_values=(), orderable=False)
    version = tables.Column(verbose_name=_("Version"), default=tags.NOTHING)
    seen_at = tables.Column(verbose_name=_("Changed"))

    class Meta:
        attrs: ClassVar[Any] = {"aria_label": _("Nodes")}

    tolerations: tuple[Any, ...] = ()  # of the cluster's pools; set by the page

    def render_ready(self, record: Any) -> Any:
        if not record.ready:
            return format_html("{} {}", tags.badge(_t("Not ready"), "danger"), record.message or "")
        if not record.schedulable:
            return tags.badge(_t("Cordoned"), "warning", "ban")
        if closed := closed_by(record.taints, record.accelerators, self.tolerations):
            return format_html(
                '{} <span class="mono">{}</span>', tags.badge(_t("Tainted"), "quiet", "ban"), closed
            )
        return tags.badge(_t("Ready"), "good")

    def render_flavor(self, record: Any) -> Any:
        if not record.offers:
            return tags.NOTHING
        each = "{} × {}"  # noqa: RUF001 - the sign
        return format_html_join(
            ", ", each, [(n, name) for name, n in sorted(record.offers.items())]
        )

    def render_cpu_milli(self, value: Any) -> Any:
        return tags.cpus(value)

    def render_memory_mib(self, value: Any) -> Any:
        return tags.mib(value)

    def render_labels(self, record: Any) -> Any:
        def rank(name: str) -> tuple[bool, str]:
            last = name.rsplit("/", 1)[-1]
            return (not any(word in last for word in PLACES), name)

        names = sorted(record.labels, key=rank)[:SHOWN]
        shown = [(name.rsplit("/", 1)[-1], record.labels[name]) for name in names]
        return format_html_join(" ", '<span class="mono text-nowrap">{}={}</span>', shown)

    def render_seen_at(self, value: Any) -> Any:
        return tags.ago(value)


class FlavorTable(Table):
    name = tables.Column(verbose_name=_("Kind"))
    resource = tables.Column(verbose_name=_("Resource"))
    node_labels = tables.Column(verbose_name=_("Nodes"), empty_values=(), orderable=False)
    memory_mib = tables.Column(verbose_name=_("Memory"), attrs=END)
    price_per_hour = tables.Column(verbose_name=_("Price of an hour"), attrs=END)

    class Meta:
        attrs: ClassVar[Any] = {"aria_label": _("Kinds of GPU")}

    def render_name(self, record: Any) -> Any:
        return format_html(
            '<a href="{}"><strong>{}</strong></a><br><span class="text-secondary">{}</span>',
            reverse("console:flavor", kwargs={"flavor": record.name}),
            record.name,
            record.label,
        )

    def render_resource(self, value: Any) -> Any:
        return format_html('<span class="mono">{}</span>', value)

    def render_node_labels(self, record: Any) -> Any:
        rows = [(n, ", ".join(v)) for n, v in sorted((record.node_labels or {}).items())]
        if not rows:
            return _t("one machine only")
        return format_html_join(" ", '<span class="mono">{}={}</span>', rows)

    def render_memory_mib(self, value: Any) -> Any:
        return tags.mib(value) if value else tags.NOTHING

    def render_price_per_hour(self, value: Decimal) -> str:
        return price(value)
