# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Buttons: do it, say so, go back to the page. All work without a script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar
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
from work import services as work


class Act(LoadView):
    """One press: write the intent, say what follows."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.LOAD_CREATE}
    act: ClassVar[Callable[..., Load]]
    said: ClassVar[Promise]

    def post(self, request: HttpRequest, project: str, load: UUID) -> HttpResponse:
        row = self.acted(request)
        messages.success(request, str(self.said) % {"name": row.name})
        return redirect(row.get_absolute_url())

    def acted(self, request: HttpRequest) -> Load:
        return type(self).act(principal=self.principal, row=self.row())


class Start(Act):
    act = staticmethod(services.load_start)
    said = _("“%(name)s” is starting.")


class Resume(Act):
    act = staticmethod(services.load_resume)
    said = _("“%(name)s” goes on where it was.")


class Retry(Act):
    act = staticmethod(services.load_retry_failed)
    said = _("“%(name)s” tries again what failed.")


class Verify(Act):
    act = staticmethod(services.load_verify)
    said = _("“%(name)s” is being checked against its manifest.")


class DryRun(Act):
    act = staticmethod(services.load_dry_run)
    said = _("“%(name)s” counts what it would copy.")


class _Ending(Act):
    """What may be done to the load of somebody else, who is told why."""

    stands_on = Detail
    # the owner, or who may manage: services decide
    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.LOAD_READ}

    def acted(self, request: HttpRequest) -> Load:
        said = request.POST.get("reason", "")
        return type(self).act(principal=self.principal, row=self.row(), said=said)


class Pause(_Ending):
    act = staticmethod(work.workload_stop)
    said = _("“%(name)s” pauses. What is copied stays.")


class Cancel(_Ending):
    act = staticmethod(services.load_cancel)
    said = _("“%(name)s” ends. What is copied stays.")


class Delete(LoadView):
    stands_on = Settings
    # the owner, or who may manage: services decide
    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.LOAD_READ}

    def post(self, request: HttpRequest, project: str, load: UUID) -> HttpResponse:
        row = self.row()
        work.workload_delete(
            principal=self.principal,
            row=row,
            typed_name=request.POST.get("confirm", ""),
            said=request.POST.get("reason", ""),
        )
        said = _t("“%(name)s” is being deleted. Its data stays where it is.") % {"name": row.name}
        messages.success(request, said)
        return redirect("loaders:list", self.project.slug)
