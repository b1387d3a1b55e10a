# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Buttons: do it, say so, go back to the page. All work without a script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.functional import Promise
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from loaders import services
from loaders.models import Load
from loaders.ui.form import Settings
from loaders.ui.views import Detail, LoadView
from projects.access import Permission
from work.services import workload_delete, workload_stop

# name of the address → what it does, and what is then said
STARTS: Mapping[str, tuple[Callable[..., Load], Promise]] = {
    "start": (services.load_start, _("“%(name)s” is starting.")),
    "resume": (services.load_resume, _("“%(name)s” goes on where it was.")),
    "retry": (services.load_retry_failed, _("“%(name)s” tries again what failed.")),
    "verify": (services.load_verify, _("“%(name)s” is being checked against its manifest.")),
    "dry-run": (services.load_dry_run, _("“%(name)s” counts what it would copy.")),
}
ENDS: Mapping[str, tuple[Callable[..., Load], Promise]] = {
    "pause": (workload_stop, _("“%(name)s” pauses. What is copied stays.")),
    "cancel": (services.load_cancel, _("“%(name)s” ends. What is copied stays.")),
}


class Act(LoadView):
    """One press: write the intent, say what follows."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.LOAD_CREATE}
    acts: ClassVar[Mapping[str, tuple[Callable[..., Load], Promise]]] = STARTS
    name: str = ""

    def post(self, request: HttpRequest, project: str, load: UUID) -> HttpResponse:
        act, said = self.acts[self.name]
        row = act(principal=self.principal, row=self.row(), **self.why(request))
        messages.success(request, str(said) % {"name": row.name})
        return redirect(row.get_absolute_url())

    def why(self, request: HttpRequest) -> dict[str, Any]:
        return {}


class Ending(Act):
    """What may be done to the load of somebody else, who is told why."""

    stands_on = Detail
    # the owner, or who may manage: services decide
    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.LOAD_READ}
    acts = ENDS

    def why(self, request: HttpRequest) -> dict[str, Any]:
        return {"said": request.POST.get("reason", "")}


class Delete(LoadView):
    stands_on = Settings
    # the owner, or who may manage: services decide
    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.LOAD_READ}

    def post(self, request: HttpRequest, project: str, load: UUID) -> HttpResponse:
        row = self.row()
        workload_delete(
            principal=self.principal,
            row=row,
            typed_name=request.POST.get("confirm", ""),
            said=request.POST.get("reason", ""),
        )
        said = _t("“%(name)s” is being deleted. Its data stays where it is.") % {"name": row.name}
        messages.success(request, said)
        return redirect("loaders:list", self.project.slug)
