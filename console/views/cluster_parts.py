"""Nodes, pools and extra networks of one cluster, and the kinds of GPU of all."""

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django_tables2 import RequestConfig

from clusters import selectors as clusters
from clusters import services
from clusters.models import Cluster, Flavor, NetworkProfile, Pool
from console import cluster_part_forms as forms
from console import cluster_selectors
from console.cluster_tables import FlavorTable, NodeData, NodeTable
from console.views.base import ROWS, ConsoleView, DeletePage, FormPage, ListView
from console.views.clusters import page_of


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


class PartEdit(FormPage):
    """One form for a new or a known pool or network of a cluster."""

    template_name = "console/part.html"
    form_class: ClassVar[Any]
    known: ClassVar[Callable[[str, str], Any]]
    keep: ClassVar[Callable[..., Any]]

    @property
    def cluster(self) -> Cluster:
        return clusters.cluster_get(self.kwargs["cluster"])

    def new_heading(self) -> str:
        raise NotImplementedError

    def delete_words(self, known: Any) -> tuple[str, str]:
        """Return what is asked before it goes, and what goes with it."""
        raise NotImplementedError

    def row(self) -> Any:
        name = self.kwargs.get("name")
        return type(self).known(self.kwargs["cluster"], name) if name else None

    def form(self, row: Any, data: Any = None) -> Any:
        initial = self.form_class.initial_of(row) if row and data is None else None
        return self.form_class(data, cluster=self.cluster, initial=initial)

    def save(self, row: Any, form: Any) -> str:
        known = {self.form_class.part: row}
        saved = type(self).keep(
            principal=self.principal, cluster=form.cluster, values=form.values(), **known
        )
        messages.success(self.request, _("“%(name)s” is saved.") % {"name": saved.name})
        return page_of(form.cluster)

    def page(self, row: Any, form: Any) -> dict[str, Any]:
        context = {
            "part": row,
            "heading": row.name if row else self.new_heading() % {"name": form.cluster.name},
            "back_url": page_of(form.cluster),
            "back_label": form.cluster.name,
        }
        if row:
            kwargs = {"cluster": form.cluster.key, "name": row.name}
            context["delete_url"] = reverse(f"console:{row.KIND}-delete", kwargs=kwargs)
            context["delete_title"], context["delete_text"] = self.delete_words(row)
        return context


class PoolEdit(PartEdit):
    form_class = forms.PoolForm
    known, keep = clusters.pool_get, services.pool_save

    def new_heading(self) -> str:
        return _("New pool of %(name)s")

    def delete_words(self, known: Any) -> tuple[str, str]:
        title = _("Delete the pool “%(name)s”?") % {"name": known.name}
        if known.is_reserved:
            return title, _(
                "Its nodes stay and are open to all work again. What runs there goes on."
            )
        return title, _("Its nodes stay, and so does what runs there. Nothing new can ask for it.")


class NetworkEdit(PartEdit):
    form_class = forms.NetworkForm
    known, keep = clusters.network_get, services.network_save

    def new_heading(self) -> str:
        return _("New extra network of %(name)s")

    def delete_words(self, known: Any) -> tuple[str, str]:
        title = _("Delete the network “%(name)s”?") % {"name": known.name}
        return title, _("Work that has its cards keeps them. Nothing new can ask for it.")


class PartDelete(DeletePage):
    known: ClassVar[Callable[[str, str], Any]]

    def row(self) -> Any:
        return type(self).known(self.kwargs["cluster"], self.kwargs["name"])

    def after(self, row: Any) -> str:
        return page_of(row.cluster)


class PoolDelete(PartDelete):
    stands_on = PoolEdit
    known = clusters.pool_get

    def remove(self, row: Pool) -> None:
        services.pool_delete(principal=self.principal, pool=row)


class NetworkDelete(PartDelete):
    stands_on = NetworkEdit
    known = clusters.network_get

    def remove(self, row: NetworkProfile) -> None:
        services.network_delete(principal=self.principal, network=row)


class FlavorList(ListView):
    table_class = FlavorTable
    filter_class = forms.FlavorFilter

    def rows(self, chosen: dict[str, Any]) -> QuerySet[Flavor]:
        rows = clusters.flavors()
        if word := chosen.get("q"):
            rows = rows.filter(Q(name__icontains=word) | Q(label__icontains=word))
        return rows

    def extra(self) -> dict[str, Any]:
        return {
            "heading": _("Kinds of GPU"),
            "action_url": reverse("console:flavor-create"),
            "action_label": _("New kind"),
            "empty_icon": "cpu-2",
            "empty_title": _("No kind of GPU is known yet"),
            "empty_text": _("Kinds appear by themselves when a node or machine offers one."),
        }


class FlavorEdit(FormPage):
    template_name = "console/part.html"

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
        saved = services.flavor_save(principal=self.principal, values=form.values(), flavor=row)
        messages.success(self.request, _("“%(name)s” is saved.") % {"name": saved.name})
        return reverse("console:flavors")

    def page(self, row: Flavor | None, form: Any) -> dict[str, Any]:  # noqa: ARG002
        context: dict[str, Any] = {
            "part": row,
            "heading": row.name if row else _("New kind of GPU"),
            "back_url": reverse("console:flavors"),
            "back_label": _("Kinds of GPU"),
        }
        if row:
            context |= {
                "delete_url": reverse("console:flavor-delete", kwargs={"flavor": row.name}),
                "delete_title": _("Delete the kind “%(name)s”?") % {"name": row.name},
                "delete_text": _(
                    "Its name, price and labels are forgotten. Refused while a node offers it or"
                    " work asks for it."
                ),
            }
        return context


class FlavorDelete(DeletePage):
    stands_on = FlavorEdit

    def row(self) -> Flavor:
        return clusters.flavor_get(self.kwargs["flavor"])

    def remove(self, row: Flavor) -> None:
        services.flavor_delete(principal=self.principal, flavor=row)

    def after(self, row: Flavor) -> str:  # noqa: ARG002
        return reverse("console:flavors")
