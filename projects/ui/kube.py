# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""kubectl: making, downloading and revoking kubeconfigs; in a project and in the own settings."""

from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from accounts.ui import SettingsView
from common.ui.components import FilterForm, search_field
from projects import namespaces, selectors
from projects.access import Permission
from projects.choices import GrantKind
from projects.models import KubeGrant
from projects.services import kube, life
from projects.ui.base import ProjectView
from projects.ui.forms import attempt
from projects.ui.views import tabs

WAIT_S = 5.0  # for the worker, when a file with a token is downloaded right after it was made
_FIRST = 100


class GrantForm(forms.Form):
    cluster = forms.ChoiceField(label=gettext_lazy("Cluster"))
    kind = forms.ChoiceField(
        label=gettext_lazy("Kind"),
        choices=GrantKind.choices,
        help_text=gettext_lazy(
            "The first holds no secret: kubectl runs the berth command, which signs in as you and"
            " gets a token of a quarter of an hour."
        ),
    )
    hours = forms.IntegerField(
        label=gettext_lazy("Hours"),
        min_value=1,
        max_value=24,
        initial=8,
        help_text=gettext_lazy("How long a token in the file is good."),
    )
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=80,
        required=False,
        help_text=gettext_lazy("To recognise it, for example the machine it is for."),
    )

    def __init__(self, data: Any, clusters: list[tuple[str, str]]) -> None:
        super().__init__(data)
        self.fields["cluster"].choices = clusters  # type: ignore[attr-defined]


class GrantFilter(FilterForm):
    q = search_field()

    @property
    def words(self) -> str:
        return str(self.cleaned_data["q"]).strip() if self.is_valid() else ""


def _reached(listed: list[namespaces.Where]) -> list[tuple[str, str]]:
    return [(place.cluster, place.name) for place in listed if place.kubectl]


class Kubectl(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.KUBE_USE, "POST": Permission.KUBE_USE}
    template_name = "projects/kubectl.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponse:
        return self._page(None)

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        form = GrantForm(request.POST, _reached(namespaces.places_listed(self.project)))
        if form.is_valid():
            given = dict(form.cleaned_data)
            act = partial(
                kube.grant_create,
                principal=self.principal,
                project=self.project,
                cluster_key=given.pop("cluster"),
                **given,
            )
            if (made := attempt(form, act)) is not None:
                messages.success(request, _("“%(name)s” can be downloaded.") % {"name": made})
                return redirect("projects:kubectl", project=self.project.slug)
        return self._page(form, status=422)

    def _page(self, form: GrantForm | None, *, status: int = 200) -> HttpResponse:
        listed = namespaces.places_listed(self.project)
        clusters = _reached(listed)
        manages = self.can(Permission.MEMBER_MANAGE)
        search = GrantFilter(self.request.GET)
        others = selectors.kube_grants_in(self.project).exclude(user=self.principal.user)
        mine = selectors.kube_grants_of(self.principal, self.project)
        return self.render(
            {
                "tabs": tabs(self, "kubectl"),
                "clusters": clusters,
                "unreached": [kube.no_address(p.name) for p in listed if not p.kubectl],
                "form": form or GrantForm(None, clusters),
                "portal_url": settings.BERTH_PUBLIC_URL,
                "search": search,
                "sought": search.words,
                "grants": selectors.kube_grants_matching(mine, search.words)[:_FIRST],
                "others": selectors.kube_grants_matching(others, search.words)[:_FIRST]
                if manages
                else [],
            },
            status=status,
        )


class KubectlFile(ProjectView):
    """The download. Never kept by a browser or a proxy."""

    required_permissions: ClassVar = {"POST": Permission.KUBE_USE}

    def post(self, request: HttpRequest, project: str, uid: UUID) -> HttpResponse:
        grant = selectors.kube_grant_get(self.principal, self.project, str(uid), manages=False)
        text = kube.file_of(
            principal=self.principal,
            grant=grant,
            portal=settings.BERTH_PUBLIC_URL,
            patience_s=WAIT_S,
        )
        response = HttpResponse(text, content_type="application/yaml")
        name = f"{self.project.slug}-{grant.place.cluster_key}.kubeconfig"
        response["Content-Disposition"] = f'attachment; filename="{name}"'
        response["Cache-Control"] = "no-store"
        return response


class KubectlRevoke(ProjectView):
    required_permissions: ClassVar = {"POST": Permission.PROJECT_READ}

    def post(self, request: HttpRequest, project: str, uid: UUID) -> HttpResponse:
        grant = selectors.kube_grant_get(
            self.principal, self.project, str(uid), manages=self.can(Permission.MEMBER_MANAGE)
        )
        kube.grant_revoke(principal=self.principal, grant=grant)
        messages.success(request, revoked(grant))
        return redirect("projects:kubectl", project=self.project.slug)


class Clusters(ProjectView):
    """The card of the settings that operators see."""

    required_permissions: ClassVar = {"POST": Permission.PROJECT_READ}

    def post(self, request: HttpRequest, project: str) -> HttpResponse:
        life.project_set_clusters(
            principal=self.principal, project=self.project, keys=request.POST.getlist("clusters")
        )
        messages.success(request, _("Saved."))
        return redirect("projects:settings", project=self.project.slug)


class Kubeconfigs(SettingsView):
    """All of one's own, wherever they are."""

    template_name = "projects/kubeconfigs.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        search = GrantFilter(request.GET)
        mine = selectors.kube_grants_of(self.principal)
        context = {
            "search": search,
            "sought": search.words,
            "grants": selectors.kube_grants_matching(mine, search.words)[:_FIRST],
            "projects": selectors.projects_with_places(self.principal)[:_FIRST],
        }
        return self.render(context)


class KubeconfigRevoke(SettingsView):
    required_platform: ClassVar = {"POST": "user"}

    def post(self, request: HttpRequest, uid: UUID) -> HttpResponse:
        grant = selectors.kube_grant_own(self.principal, str(uid))
        kube.grant_revoke(principal=self.principal, grant=grant)
        return self.done(revoked(grant), "projects:kubeconfigs")


def revoked(grant: KubeGrant) -> str:
    """Say when it opens nothing any more; without the cluster's answer a token ends by itself.

    The cluster asks for rights when a stream is opened: one that is open ends by itself only.
    """
    if until := kube.outlives(grant):
        sentence = _(
            "“%(name)s” gets no new token. “%(cluster)s” is switched off or does not answer, so one"
            " that was given out goes on until that is over, or until %(until)s."
        )
        when = date_format(timezone.localtime(until), "Y-m-d H:i T")
        return sentence % {"name": grant, "cluster": grant.place.cluster_key, "until": when}
    return _(
        "“%(name)s” opens nothing any more (within a minute at most). What is already open goes on"
        " until it is closed, or the workspace is stopped."
    ) % {"name": grant}
