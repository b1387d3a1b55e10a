"""Nodes, pools and extra networks of one cluster, and the kinds of GPU of all."""

from collections.abc import Callable
from typing import Any, ClassVar

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django_tables2 import RequestConfig

from clusters import selectors as clusters
from clusters import services
from clusters.models import Cluster, Flavor, NetworkProfile, Pool
from console import cluster_part_forms as forms
from console import cluster_selectors
from console.cluster_tables import FlavorTable, NodeData, NodeTable
from console.views.base import ROWS, ConsoleView, DeletePage, ListView, PartPage
from console.views.clusters import page_of
from work.fields import Text


class NodeList(ConsoleView):
    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "console/nodes.html"

    def get(self, request: HttpRequest, cluster: str) -> HttpResponse:
        row = clusters.cluster_get(cluster)
        form = forms.NodeFilter(request.GET or None, cluster=row)
        chosen = form.cleaned_data if form.is_valid() else {}
        table = NodeTable(NodeData(cluster_selectors.nodes(row, chosen)), view=self)
        RequestConfig(request, paginate={"per_page": ROWS, "silent": True}).configure(table)
        context = {
            "table": table,
            "form": form,
            "cluster": row,
            "heading": _("Nodes of %(name)s") % {"name": row.name},
            "back_url": page_of(row),
            "back_label": row.name,
            "empty_icon": "server-off",
            "empty_title": _("No node was seen yet"),
            "empty_text": _("The worker lists them as soon as the cluster answers."),
        }
        return self.render(context)


class PartEdit(PartPage):
    """One form for a new or a known pool or network of a cluster."""

    known: ClassVar[Callable[[str, str], Any]]
    keep: ClassVar[Callable[..., Any]]

    @property
    def cluster(self) -> Cluster:
        return clusters.cluster_get(self.kwargs["cluster"])

    def row(self) -> Any:
        name = self.kwargs.get("name")
        return type(self).known(self.kwargs["cluster"], name) if name else None

    def form(self, row: Any, data: Any = None) -> Any:
        made: Any = self.form_class
        initial = made.initial_of(row) if row and data is None else None
        return made(data, cluster=self.cluster, initial=initial)

    def save(self, row: Any, form: Any) -> str:
        given = {"cluster": form.cluster, "values": form.values(), form.part: row}
        return self.done(type(self).keep(principal=self.principal, **given))

    def page(self, row: Any, form: Any) -> dict[str, Any]:
        heading = row.name if row else self.heading % {"name": form.cluster.name}
        return {**super().page(row, form), "heading": heading}

    def above(self, row: Any) -> tuple[str, Text]:
        cluster = row.cluster if row else self.cluster
        return page_of(cluster), cluster.name


class PoolEdit(PartEdit):
    form_class = forms.PoolForm
    known, keep = clusters.pool_get, services.pool_save
    heading, delete_route = _lazy("New pool of %(name)s"), "console:pool-delete"

    def delete_words(self, row: Pool) -> tuple[str, str]:
        title = _("Delete the pool “%(name)s”?") % {"name": row.name}
        if row.is_reserved:
            return title, _(
                "Its nodes stay and are open to all work again. What runs there goes on."
            )
        return title, _("Its nodes stay, and so does what runs there. Nothing new can ask for it.")


class NetworkEdit(PartEdit):
    form_class = forms.NetworkForm
    known, keep = clusters.network_get, services.network_save
    heading, delete_route = _lazy("New extra network of %(name)s"), "console:network-delete"

    def delete_words(self, row: NetworkProfile) -> tuple[str, str]:
        title = _("Delete the network “%(name)s”?") % {"name": row.name}
        return title, _("Work that has its cards keeps them. Nothing new can ask for it.")


class PoolDelete(DeletePage):
    stands_on = PoolEdit

    def remove(self, row: Pool) -> None:
        services.pool_delete(principal=self.principal, pool=row)


class NetworkDelete(DeletePage):
    stands_on = NetworkEdit

    def remove(self, row: NetworkProfile) -> None:
        services.network_delete(principal=self.principal, network=row)


class FlavorList(ListView):
    table_class = FlavorTable
    filter_class = forms.FlavorFilter
    heading = _lazy("Kinds of GPU")
    new = "console:flavor-create", _lazy("New kind")
    empty = (
        "cpu-2",
        _lazy("No kind of GPU is known yet"),
        _lazy("Kinds appear by themselves when a node or machine offers one."),
    )

    def rows(self, chosen: dict[str, Any]) -> QuerySet[Flavor]:
        rows = clusters.flavors()
        if word := chosen.get("q"):
            rows = rows.filter(Q(name__icontains=word) | Q(label__icontains=word))
        return rows


class FlavorEdit(PartPage):
    heading, delete_route = _lazy("New kind of GPU"), "console:flavor-delete"
    back = "console:flavors", _lazy("Kinds of GPU")

    def row(self) -> Flavor | None:
        name = self.kwargs.get("flavor")
        return clusters.flavor_get(name) if name else None

    def form(self, row: Flavor | None, data: Any = None) -> forms.FlavorForm:
        if data is None:
            form = forms.FlavorForm(initial=forms.FlavorForm.initial_of(row) if row else None)
            form.fields["name"].disabled = row is not None
        else:
            form = forms.FlavorForm(data)
            if row:
                form.fields.pop("name")
        if row:
            form.show_known(row)
        return form

    def save(self, row: Flavor | None, form: Any) -> str:
        given = {"values": form.values(), "flavor": row}
        return self.done(services.flavor_save(principal=self.principal, **given))

    def delete_words(self, row: Flavor) -> tuple[str, str]:
        return _("Delete the kind “%(name)s”?") % {"name": row.name}, _(
            "Its name, price and labels are forgotten. Refused while a node offers it or"
            " work asks for it."
        )


class FlavorDelete(DeletePage):
    stands_on = FlavorEdit

    def remove(self, row: Flavor) -> None:
        services.flavor_delete(principal=self.principal, flavor=row)
