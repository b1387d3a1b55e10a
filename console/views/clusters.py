"""Clusters: the list, attaching, the page of one, its settings, and detaching."""

from typing import Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from clusters import selectors as clusters
from clusters import services
from clusters.checks import recipe
from clusters.models import Cluster
from clusters.options import options_of
from common.errors import BerthError
from common.paging import paginate
from common.ui.responses import show_error
from console import cluster_forms as forms
from console import cluster_selectors as selectors
from console.views.base import ConsoleView

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


class ClusterAttach(ConsoleView):
    required_platform: ClassVar[Any] = "operator"
    template_name = "console/cluster_form.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        return self._page(forms.AttachForm())

    def post(self, request: HttpRequest) -> HttpResponse:
        form = forms.AttachForm(forms.AttachForm.completed(request.POST.dict()))
        if not form.is_valid():
            return self._page(form, 400)
        given = services.Attachment(
            name=form.cleaned_data["name"],
            key=form.cleaned_data["key"],
            kubeconfig=form.cleaned_data["kubeconfig"],
            options=form.option_values(),
        )
        try:
            made = services.cluster_attach(principal=self.principal, given=given)
        except BerthError as error:
            show_error(form, error)
            return self._page(form, error.status)
        messages.success(
            request, _("%(name)s is attached; it is being looked at now.") % {"name": made.name}
        )
        return HttpResponseRedirect(page_of(made))

    def _page(self, form: forms.AttachForm, status: int = 200) -> HttpResponse:
        context = {
            "form": form,
            "heading": _("Attach a cluster"),
            "submit": _("Attach"),
            "note": _(
                "The file has one context and everything inside it. Give it an account of its own"
                " with the rights that Berth needs, not yours."
            ),
            "steps": recipe.steps(),
            "back_url": reverse("console:clusters"),
            "back_label": _("Clusters"),
        }
        return self.render(context, status=status)


class ClusterDetail(ConsoleView):
    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "console/cluster.html"
    partial_name = "console/_cluster.html"

    def get(self, request: HttpRequest, cluster: str) -> HttpResponse:  # noqa: ARG002
        row = clusters.cluster_get(cluster)
        return self.render(selectors.page(row))


class ClusterSettings(ConsoleView):
    template_name = "console/cluster_form.html"

    def get(self, request: HttpRequest, cluster: str) -> HttpResponse:  # noqa: ARG002
        row = clusters.cluster_get(cluster)
        initial = {
            **forms.SettingsForm.initial_of(options_of(row.options)),
            **{name: getattr(row, name) for name in ("name", "enabled", "drain")},
        }
        return self._page(row, forms.SettingsForm(initial=initial))

    def post(self, request: HttpRequest, cluster: str) -> HttpResponse:
        row = clusters.cluster_get(cluster)
        form = forms.SettingsForm(request.POST)
        self._narrow(row, form)
        if not form.is_valid():
            return self._page(row, form, 400)
        try:
            services.cluster_update(
                principal=self.principal,
                cluster=row,
                values=form.own_values(),
                options=form.option_values(),
            )
        except BerthError as error:
            show_error(form, error)
            return self._page(row, form, error.status)
        messages.success(request, _("Saved. The cluster is checked again."))
        return HttpResponseRedirect(page_of(row))

    def _page(self, row: Cluster, form: forms.SettingsForm, status: int = 200) -> HttpResponse:
        self._narrow(row, form)
        if not self.principal.is_operator:
            for field in form.fields.values():
                field.disabled = True
        context = {
            "form": form,
            "heading": _("Settings of %(name)s") % {"name": row.name},
            "submit": _("Save"),
            "back_url": page_of(row),
            "back_label": row.name,
        }
        return self.render(context, status=status)

    def _narrow(self, row: Cluster, form: forms.SettingsForm) -> None:
        """What is part of the installation has its options in the installation's settings."""
        if row.is_attached:
            return
        for name in set(form.fields) - {"name", "enabled", "drain"}:
            form.fields.pop(name)


class ClusterKubeconfig(ConsoleView):
    """Another credential; the old one is shown nowhere, so the form is always empty."""

    required_platform: ClassVar[Any] = "operator"
    template_name = "console/form.html"

    def get(self, request: HttpRequest, cluster: str) -> HttpResponse:  # noqa: ARG002
        return self._page(clusters.cluster_get(cluster), forms.KubeconfigForm())

    def post(self, request: HttpRequest, cluster: str) -> HttpResponse:
        row = clusters.cluster_get(cluster)
        form = forms.KubeconfigForm(request.POST)
        if not form.is_valid():
            return self._page(row, form, 400)
        try:
            services.kubeconfig_replace(
                principal=self.principal,
                cluster=row,
                kubeconfig=form.cleaned_data["kubeconfig"],
            )
        except BerthError as error:
            show_error(form, error)
            return self._page(row, form, error.status)
        messages.success(request, _("The credential is replaced."))
        return HttpResponseRedirect(page_of(row))

    def _page(self, row: Cluster, form: forms.KubeconfigForm, status: int = 200) -> HttpResponse:
        context = {
            "form": form,
            "heading": _("Replace the credential of %(name)s") % {"name": row.name},
            "submit": _("Replace"),
            "back_url": page_of(row),
            "back_label": row.name,
        }
        return self.render(context, status=status)


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
