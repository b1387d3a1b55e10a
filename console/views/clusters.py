"""Clusters: the list, attaching, the page of one, its settings, and detaching."""

from typing import Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from clusters import selectors as clusters
from clusters import services
from clusters.checks import recipe
from clusters.models import Cluster
from clusters.options import options_of
from common.paging import paginate
from console import cluster_forms as forms
from console import cluster_selectors as selectors
from console.views.base import ConsoleView, FormPage
from work.fields import Text

CARDS = 20  # on a page


def page_of(cluster: Cluster) -> str:
    return reverse("console:cluster", kwargs={"cluster": cluster.key})


class ClusterList(ConsoleView):
    """Every cluster at a glance; refreshed while somebody looks."""

    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "console/clusters.html"
    partial_name = "console/_clusters.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        form = forms.ClusterFilter(request.GET or None)
        chosen = form.cleaned_data if form.is_valid() else {}
        rows = selectors.overview(
            sought=chosen.get("q", ""), attention=chosen.get("state") == forms.ATTENTION
        )
        page = paginate(request, rows, per_page=CARDS)
        return self.render({"form": form, "page": page, "clusters": selectors.glances(page)})


class ClusterAttach(FormPage):
    required_platform: ClassVar[Any] = "operator"
    template_name = "console/cluster_form.html"

    heading, submit = _lazy("Attach a cluster"), _lazy("Attach")
    note = _lazy(
        "The file has one context and everything inside it. Give it an account of its own"
        " with the rights that Berth needs, not yours."
    )
    back = "console:clusters", _lazy("Clusters")

    def form(self, row: None, data: Any = None) -> forms.AttachForm:  # noqa: ARG002
        if data is None:
            return forms.AttachForm()
        return forms.AttachForm(forms.AttachForm.completed(data.dict()))

    def save(self, row: None, form: Any) -> str:  # noqa: ARG002
        given = services.Attachment(
            **{name: form.cleaned_data[name] for name in ("name", "key", "kubeconfig")},
            options=form.option_values(),
        )
        made = services.cluster_attach(principal=self.principal, given=given)
        said = _("%(name)s is attached; it is being looked at now.")
        messages.success(self.request, said % {"name": made.name})
        return page_of(made)

    def page(self, row: None, form: Any) -> dict[str, Any]:
        return {**super().page(row, form), "steps": recipe.steps()}


class ClusterDetail(ConsoleView):
    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "console/cluster.html"
    partial_name = "console/_cluster.html"

    def get(self, request: HttpRequest, cluster: str) -> HttpResponse:  # noqa: ARG002
        row = clusters.cluster_get(cluster)
        return self.render(selectors.page(row))


class ClusterForm(FormPage):
    """A form about one cluster."""

    def row(self) -> Cluster:
        return clusters.cluster_get(self.kwargs["cluster"])

    def page(self, row: Cluster, form: Any) -> dict[str, Any]:
        return {**super().page(row, form), "heading": self.heading % {"name": row.name}}

    def above(self, row: Cluster) -> tuple[str, Text]:
        return page_of(row), row.name


class ClusterSettings(ClusterForm):
    template_name = "console/cluster_form.html"
    heading = _lazy("Settings of %(name)s")

    def form(self, row: Cluster, data: Any = None) -> forms.SettingsForm:
        own = ("name", "enabled", "drain")
        initial = forms.SettingsForm.initial_of(options_of(row.options))
        initial |= {name: getattr(row, name) for name in own}
        form = forms.SettingsForm(data, initial=initial)
        if not row.is_attached:  # its options are in the installation's settings
            for name in set(form.fields) - set(own):
                form.fields.pop(name)
        return form

    def save(self, row: Cluster, form: Any) -> str:
        services.cluster_update(
            principal=self.principal,
            cluster=row,
            values=form.own_values(),
            options=form.option_values(),
        )
        messages.success(self.request, _("Saved. The cluster is checked again."))
        return page_of(row)


class ClusterKubeconfig(ClusterForm):
    """Another credential; the old one is shown nowhere, so the form is always empty."""

    required_platform: ClassVar[Any] = "operator"
    form_class = forms.KubeconfigForm
    heading, submit = _lazy("Replace the credential of %(name)s"), _lazy("Replace")

    def save(self, row: Cluster, form: Any) -> str:
        services.kubeconfig_replace(principal=self.principal, cluster=row, **form.cleaned_data)
        messages.success(self.request, _("The credential is replaced."))
        return page_of(row)


class ClusterDetach(ConsoleView):
    stands_on = ClusterDetail
    required_platform: ClassVar[Any] = {"POST": "operator"}
    act = staticmethod(services.cluster_detach)

    def post(self, request: HttpRequest, cluster: str) -> HttpResponse:
        row = clusters.cluster_get(cluster)
        confirm = request.POST.get("confirm", "")
        left = self.act(principal=self.principal, cluster=row, confirm=confirm)
        said = _("%(name)s is detached.") % {"name": row.name}
        if left:
            words = ngettext(
                "%(n)d thing stays there; the audit names it.",
                "%(n)d things stay there; the audit names each.",
                len(left),
            )
            said = f"{said} {words % {'n': len(left)}}"
        messages.success(request, said)
        return HttpResponseRedirect(reverse("console:clusters"))


class ClusterForget(ClusterDetach):
    """The same of a cluster that no longer answers, whatever is on it."""

    act = staticmethod(services.cluster_forget)


class ClusterCheck(ConsoleView):
    """Ask for another self-check."""

    required_platform: ClassVar[Any] = {"POST": "operator"}

    def post(self, request: HttpRequest, cluster: str) -> HttpResponse:
        row = clusters.cluster_get(cluster)
        services.checks_ask(principal=self.principal, cluster=row)
        messages.info(request, _("The check runs; its answers appear here."))
        return HttpResponseRedirect(f"{page_of(row)}#checks")
