"""Lists about clusters: nodes (if possible, only those of the page are judged), kinds of GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

import django_tables2 as tables
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext, pgettext_lazy
from django_tables2.data import TableQuerysetData
from django_tables2.utils import OrderByTuple

from clusters.device_use import Holder, Told, node_uses, with_holders
from common.templatetags import berth as tags
from common.templatetags.berth import price
from console.tables import END
from console.views.base import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from decimal import Decimal

    from django.db.models import QuerySet

    from clusters.device_use import NodeUse
    from clusters.models import Cluster, Node


_NODE = "node__"
_COLUMNS = frozenset(("name", "ready", "cpu_milli", "memory_mib"))


class NodeRows:
    """What a table asks of a queryset, with ``NodeUse`` as rows.

    All nodes are judged only where what is held of them chooses or orders them.
    """

    def __init__(
        self, cluster: Cluster, nodes: QuerySet[Node], keep: Callable[[NodeUse], bool] | None = None
    ) -> None:
        self._cluster, self._nodes = cluster, nodes
        self._judged: list[NodeUse] | None = None
        if keep is not None:
            self._judged = [use for use in self._all() if keep(use)]

    def _all(self) -> list[NodeUse]:
        if self._judged is None:
            self._judged = node_uses(self._cluster, self._nodes)
        return self._judged

    def count(self) -> int:
        return self._nodes.count() if self._judged is None else len(self._judged)

    def __len__(self) -> int:
        return self.count()

    def __iter__(self) -> Iterator[NodeUse]:
        return iter(self._all())

    def __getitem__(self, part: slice) -> list[NodeUse]:
        if self._judged is not None:
            return self._judged[part]
        return node_uses(self._cluster, self._nodes[part])

    def order_by(self, *names: str) -> NodeRows:
        """Return them in another order; by the database where its columns say it."""
        made = NodeRows(self._cluster, self._nodes)
        fields = [_column(name) for name in names]
        if self._judged is None and all(fields):
            made._nodes = self._nodes.order_by(*fields, "name", "id")
        else:
            made._judged = sorted(self._all(), key=OrderByTuple(names).key)
        return made


class NodeData(TableQuerysetData):
    """They come in the order of their names; no column is marked as the one that says so."""

    ordering = None


def _column(name: str) -> str:
    """Return the node's column that ``name`` sorts by, with its sign; '' where none does."""
    column = name.removeprefix("-").removeprefix(_NODE)
    return name.replace(_NODE, "", 1) if _NODE in name and column in _COLUMNS else ""


# Labels that say where a node stands, shown before the others (C37).
PLACES = ("su", "block", "rack", "rail", "zone", "pool", "nic")
SHOWN = 6
NAMED = 8  # holders beside a node; all of them are a press away
WORDS: dict[str, Any] = {"td": {"class": "node-words"}}
LABELS: dict[str, Any] = {"td": {"class": "node-labels"}}
END_NOWRAP: dict[str, Any] = {"td": {"class": "end text-nowrap"}, "th": {"class": "end"}}


def _work_on(node: Any) -> str:
    """The list of all work on a node, also of what holds no GPU."""
    query = urlencode({"cluster": node.cluster.key, "node": node.name})
    return f"{reverse('console:workspaces')}?{query}"


def _holder_name(holder: Holder) -> Any:
    told = holder.told
    return format_html('<a href="{}">{}</a>', told.url, told.name) if told.url else told.name


def _holder_whose(holder: Holder) -> str:
    return " · ".join(word for word in (holder.told.owner, holder.told.project) if word)


def _holder_use(holder: Holder) -> Any:
    """How much it holds and how that is used; what is not known is said so."""
    n = holder.gpus
    gpus = ngettext("%(n)d GPU", "%(n)d GPUs", n) % {"n": n}
    words = [word for word in (gpus, use_words(holder.told), holder.told.idle_words) if word]
    return format_html_join(
        " · ", '<span class="node-holder-use">{}</span>', [(word,) for word in words]
    )


def use_words(told: Told) -> str:
    """Return how busy the devices are; never a number that was not measured."""
    now = None if told.utilisation is None else round(told.utilisation)
    hour = None if told.utilisation_hour is None else round(told.utilisation_hour)
    if now is None and hour is None:
        return _t("use not known")
    if now is None:
        return _t("%(hour)d %% in the last hour, not known now") % {"hour": hour}
    return _t("%(now)d %% now, %(hour)d %% in the last hour") % {"now": now, "hour": hour}


def _state(use: Any) -> Any:
    node = use.node
    if not node.ready:
        return format_html("{} {}", tags.badge(_t("Not ready"), "danger"), node.message or "")
    if not node.schedulable:
        return tags.badge(_t("Cordoned"), "warning", "ban")
    if use.closed:
        badge = tags.badge(_t("Tainted"), "quiet", "ban")
        return format_html('{} <span class="mono">{}</span>', badge, use.closed)
    return tags.badge(_t("Ready"), "good")


class NodeTable(Table):
    """Rows are ``clusters.device_use.NodeUse``; who holds them is asked for the page's only.

    A cell has a second line where the two belong together: all columns are seen at once.
    """

    name = tables.Column(verbose_name=_("Node"), accessor="node__name", attrs=WORDS)
    ready = tables.Column(
        verbose_name=_("State"), accessor="node__ready", empty_values=(), attrs=WORDS
    )
    flavor = tables.Column(
        verbose_name=_("GPUs"),
        accessor="node__flavor__name",
        order_by=("node__flavor__name", "total_count"),
        empty_values=(),
    )
    held_count = tables.TemplateColumn(
        attrs={"td": {"class": "gpu-bar"}},
        template_name="console/_node_held.html",
        verbose_name=pgettext_lazy("GPUs", "Held"),
    )
    free_count = tables.Column(verbose_name=_("Free"), empty_values=(), attrs=END)
    held_by = tables.Column(verbose_name=_("Held by"), empty_values=(), orderable=False)
    cpu_milli = tables.Column(
        verbose_name=_("CPU, memory"),
        accessor="node__cpu_milli",
        order_by=("node__cpu_milli", "node__memory_mib"),
        attrs=END_NOWRAP,
    )
    labels = tables.Column(
        verbose_name=_("Labels"),
        accessor="node__labels",
        empty_values=(),
        orderable=False,
        attrs=LABELS,
    )

    class Meta:
        attrs: ClassVar[Any] = {"aria_label": _("Nodes")}

    def before_render(self, request: Any) -> None:  # noqa: ARG002 - signature of the library
        shown = with_holders(row.record for row in self.paginated_rows)
        self.holders = {use.node.pk: use.holders for use in shown}

    def render_name(self, record: Any) -> Any:
        node = record.node
        words = '<a href="{}">{}</a><br><span class="text-secondary">{}</span>'
        return format_html(words, _work_on(node), node.name, node.version)

    def render_ready(self, record: Any) -> Any:
        words = '{}<br><span class="text-secondary">{} {}</span>'
        return format_html(words, _state(record), _t("Changed"), tags.ago(record.node.seen_at))

    def render_flavor(self, record: Any) -> Any:
        if not record.node.offers:
            return tags.NOTHING
        each = '<span class="text-nowrap">{} × {}</span>'  # noqa: RUF001 - the sign
        return format_html_join(
            ", ", each, [(n, name) for name, n in sorted(record.node.offers.items())]
        )

    def render_free_count(self, record: Any) -> Any:
        """What can be given out; nothing is said of a node on which nothing may start."""
        if not record.total_count or not record.usable:
            return tags.NOTHING
        return format_html("<strong>{}</strong>", record.free_count)

    def render_held_by(self, record: Any) -> Any:
        holders = self.holders[record.node.pk]
        cells = [
            (_holder_name(one), _holder_whose(one), _holder_use(one)) for one in holders[:NAMED]
        ]
        each = '<div class="node-holder">{} <span class="text-secondary">{}<br>{}</span></div>'
        shown = format_html_join("", each, cells)
        if (rest := len(holders) - NAMED) < 1:
            return shown
        more = _t("and %(n)d more") % {"n": rest}
        link = '{}<div class="node-holder node-holder-more"><a href="{}">{}</a></div>'
        return format_html(link, shown, _work_on(record.node), more)

    def render_cpu_milli(self, record: Any) -> Any:
        node = record.node
        return format_html("{}<br>{}", tags.cpus(node.cpu_milli), tags.mib(node.memory_mib))

    def render_labels(self, record: Any) -> Any:
        def rank(name: str) -> tuple[bool, str]:
            last = name.rsplit("/", 1)[-1]
            return (not any(word in last for word in PLACES), name)

        labels = record.node.labels
        names = sorted(labels, key=rank)[:SHOWN]
        shown = [(name.rsplit("/", 1)[-1], labels[name]) for name in names]
        return format_html_join(" ", '<span class="mono">{}=<wbr>{}</span>', shown)


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
