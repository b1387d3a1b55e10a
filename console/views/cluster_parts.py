"""Nodes, pools and extra networks of one cluster, and the kinds of GPU of all."""

from typing import Any, ClassVar

from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django_tables2 import RequestConfig

from clusters import selectors as clusters
from clusters import services
from clusters.models import Cluster, Flavor
from common.errors import BerthError, Invalid
from common.ui.responses import show_error
from console import cluster_part_forms as forms
from console import cluster_selectors
from console.cluster_tables import FlavorTable, NodeData, NodeTable
from console.views.base import ROWS, ConsoleView, ListView
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


class PartEdit(ConsoleView):
    """One form for a new or a known pool or network of a cluster."""

    required_platform: ClassVar[Any] = {"GET": "auditor", "POST": "operator"}
    template_name = "console/part.html"
    form_class: ClassVar[Any]

    def known(self, cluster: str, name: str) -> Any:
        raise NotImplementedError

    def save(self, row: Cluster, known: Any, values: dict[str, Any]) -> Any:
        raise NotImplementedError

    def new_heading(self, row: Cluster) -> str:
        raise NotImplementedError

    def delete_words(self, known: Any) -> tuple[str, str]:
        """Return what is asked before it goes, and what goes with it."""
        raise NotImplementedError

    def get(self, request: HttpRequest, cluster: str, name: str = "") -> HttpResponse:  # noqa: ARG002
        row = clusters.cluster_get(cluster)
        known = self.known(cluster, name) if name else None
        initial = self.form_class.initial_of(known) if known else None
        return self._page(row, known, self.form_class(cluster=row, initial=initial))

    def post(self, request: HttpRequest, cluster: str, name: str = "") -> HttpResponse:
        row = clusters.cluster_get(cluster)
        known = self.known(cluster, name) if name else None
        form = self.form_class(request.POST, cluster=row)
        if not form.is_valid():
            return self._page(row, known, form, 400)
        try:
            saved = self.save(row, known, form.values())
        except BerthError as error:
            show_error(form, error)
            return self._page(row, known, form, error.status)
        messages.success(request, _("“%(name)s” is saved.") % {"name": saved.name})
        return HttpResponseRedirect(page_of(row))

    def _page(self, row: Cluster, known: Any, form: Any, status: int = 200) -> HttpResponse:
        if not self.principal.is_operator:
            for field in form.fields.values():
                field.disabled = True
        context = {
            "form": form,
            "part": known,
            "heading": known.name if known else self.new_heading(row),
            "back_url": page_of(row),
            "back_label": row.name,
        }
        if known:
            title, text = self.delete_words(known)
            context |= {"delete_title": title, "delete_text": text}
            context["delete_url"] = self.delete_url(row, known)
        return self.render(context, status=status)

    def delete_url(self, row: Cluster, known: Any) -> str:
        kwargs = {"cluster": row.key, "name": known.name}
        return reverse(f"console:{known.KIND}-delete", kwargs=kwargs)


class PoolEdit(PartEdit):
    form_class = forms.PoolForm

    def known(self, cluster: str, name: str) -> Any:
        return clusters.pool_get(cluster, name)

    def new_heading(self, row: Cluster) -> str:
        return _("New pool of %(name)s") % {"name": row.name}

    def delete_words(self, known: Any) -> tuple[str, str]:
        title = _("Delete the pool “%(name)s”?") % {"name": known.name}
        if known.is_reserved:
            return title, _(
                "Its nodes stay and are open to all work again. What runs there goes on."
            )
        return title, _("Its nodes stay, and so does what runs there. Nothing new can ask for it.")

    def save(self, row: Cluster, known: Any, values: dict[str, Any]) -> Any:
        return services.pool_save(principal=self.principal, cluster=row, values=values, pool=known)


class NetworkEdit(PartEdit):
    form_class = forms.NetworkForm

    def known(self, cluster: str, name: str) -> Any:
        return clusters.network_get(cluster, name)

    def new_heading(self, row: Cluster) -> str:
        return _("New extra network of %(name)s") % {"name": row.name}

    def delete_words(self, known: Any) -> tuple[str, str]:
        title = _("Delete the network “%(name)s”?") % {"name": known.name}
        return title, _("Work that has its cards keeps them. Nothing new can ask for it.")

    def save(self, row: Cluster, known: Any, values: dict[str, Any]) -> Any:
        return services.network_save(
            principal=self.principal, cluster=row, values=values, network=known
        )


class PartDelete(ConsoleView):
    """Behind the typed name."""

    required_platform: ClassVar[Any] = {"POST": "operator"}

    def remove(self, cluster: str, name: str) -> None:
        raise NotImplementedError

    def post(self, request: HttpRequest, cluster: str, name: str) -> HttpResponse:
        if request.POST.get("confirm", "").strip() != name:
            raise Invalid(_("The typed name is not this one's. Nothing was changed."))
        self.remove(cluster, name)
        messages.success(request, _("“%(name)s” is deleted.") % {"name": name})
        return HttpResponseRedirect(page_of(clusters.cluster_get(cluster)))


class PoolDelete(PartDelete):
    stands_on = PoolEdit

    def remove(self, cluster: str, name: str) -> None:
        services.pool_delete(principal=self.principal, pool=clusters.pool_get(cluster, name))


class NetworkDelete(PartDelete):
    stands_on = NetworkEdit

    def remove(self, cluster: str, name: str) -> None:
        row = clusters.network_get(cluster, name)
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


class FlavorEdit(ConsoleView):
    template_name = "console/part.html"

    def get(self, request: HttpRequest, flavor: str = "") -> HttpResponse:  # noqa: ARG002
        row = clusters.flavor_get(flavor) if flavor else None
        initial = forms.FlavorForm.initial_of(row) if row else None
        return self._page(row, forms.FlavorForm(initial=initial))

    def post(self, request: HttpRequest, flavor: str = "") -> HttpResponse:
        row = clusters.flavor_get(flavor) if flavor else None
        form = forms.FlavorForm(request.POST)
        if row:
            form.fields.pop("name")
        if not form.is_valid():
            return self._page(row, form, 400)
        try:
            saved = services.flavor_save(principal=self.principal, values=form.values(), flavor=row)
        except BerthError as error:
            show_error(form, error)
            return self._page(row, form, error.status)
        messages.success(request, _("“%(name)s” is saved.") % {"name": saved.name})
        return HttpResponseRedirect(reverse("console:flavors"))

    def _page(self, row: Flavor | None, form: forms.FlavorForm, status: int = 200) -> HttpResponse:
        if row and "name" in form.fields:
            form.fields["name"].disabled = True
        if row:
            form.show_known(row)
        if not self.principal.is_operator:
            for field in form.fields.values():
                field.disabled = True
        context = {
            "form": form,
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
        return self.render(context, status=status)


class FlavorDelete(ConsoleView):
    stands_on = FlavorEdit
    required_platform: ClassVar[Any] = {"POST": "operator"}

    def post(self, request: HttpRequest, flavor: str) -> HttpResponse:
        row = clusters.flavor_get(flavor)
        if request.POST.get("confirm", "").strip() != row.name:
            raise Invalid(_("The typed name is not this one's. Nothing was changed."))
        services.flavor_delete(principal=self.principal, flavor=row)
        messages.success(request, _("“%(name)s” is deleted.") % {"name": flavor})
        return HttpResponseRedirect(reverse("console:flavors"))
