"""Buttons: do it, say so, go back to the page. All work without a script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from common.ui.responses import go
from projects.access import Permission
from projects.ui.base import ProjectView
from volumes import selectors
from volumes.models import Volume
from volumes.services import removal, transfers
from volumes.ui.views import Detail, List, Settings, Snapshots, VolumeView

# the maker, an owner of a home, who manages volumes: services decide
ASK: Mapping[str, Permission] = {"POST": Permission.VOLUME_READ}
MANAGE: Mapping[str, Permission] = {"POST": Permission.VOLUME_MANAGE}


class Act(VolumeView):
    """A press on a button of one volume."""

    required_permissions: ClassVar[Mapping[str, Permission]] = ASK
    back: ClassVar[str] = "volumes:detail"

    def post(self, request: HttpRequest, **kwargs: object) -> HttpResponse:
        del kwargs
        row = self.volume()
        said = self.act(row, request)
        messages.success(request, said)
        keys = {"project": self.project.slug, "volume": row.uid}
        return go(request, reverse(self.back, kwargs=keys))

    def act(self, row: Volume, request: HttpRequest) -> str:
        raise NotImplementedError


class Delete(Act):
    stands_on = Settings

    def act(self, row: Volume, request: HttpRequest) -> str:
        removal.volume_delete(
            principal=self.principal,
            volume=row,
            typed_name=request.POST.get("confirm", ""),
            said=request.POST.get("reason", ""),
        )
        if row.is_cache:
            return _("“%(name)s” is being removed with its files.") % {"name": row.name}
        return _("“%(name)s” is deleted in some days. Until then it can be brought back.") % {
            "name": row.name
        }


class Restore(Act):
    """Undo a deletion."""

    stands_on = Detail

    def act(self, row: Volume, request: HttpRequest) -> str:
        name = request.POST.get("name", "").strip()[:63] or None
        removal.volume_bring_back(principal=self.principal, volume=row, name=name)
        return _("“%(name)s” is back.") % {"name": name or row.name}


class Purge(Act):
    stands_on = Detail
    required_permissions: ClassVar[Mapping[str, Permission]] = MANAGE

    def act(self, row: Volume, request: HttpRequest) -> str:
        removal.volume_purge(
            principal=self.principal,
            volume=row,
            typed_name=request.POST.get("confirm", ""),
            said=request.POST.get("reason", ""),
        )
        return _("“%(name)s” is being removed with its files.") % {"name": row.name}


class SnapshotCreate(Act):
    stands_on = Snapshots
    back = "volumes:snapshots"

    def act(self, row: Volume, request: HttpRequest) -> str:
        copy = removal.snapshot_create(
            principal=self.principal,
            volume=row,
            name=request.POST.get("name", "")[:80],
            description=request.POST.get("description", "")[:400],
        )
        return _("The snapshot “%(name)s” is being made.") % {"name": copy.name}


class SnapshotRestore(Act):
    stands_on = Snapshots

    def act(self, row: Volume, request: HttpRequest) -> str:
        copy = selectors.snapshot_get(self.principal, row, self.kwargs["snapshot"])
        removal.snapshot_restore(
            principal=self.principal, snapshot=copy, typed_name=request.POST.get("confirm", "")
        )
        return _("“%(name)s” is being restored from “%(copy)s”.") % {
            "name": row.name,
            "copy": copy.name,
        }


class SnapshotDelete(Act):
    stands_on = Snapshots
    back = "volumes:snapshots"

    def act(self, row: Volume, request: HttpRequest) -> str:
        del request
        copy = selectors.snapshot_get(self.principal, row, self.kwargs["snapshot"])
        removal.snapshot_delete(principal=self.principal, snapshot=copy)
        return _("The snapshot “%(name)s” is being removed.") % {"name": copy.name}


class TransferAsk(Act):
    stands_on = Settings
    required_permissions: ClassVar[Mapping[str, Permission]] = MANAGE

    def act(self, row: Volume, request: HttpRequest) -> str:
        transfers.transfer_ask(
            principal=self.principal,
            volume=row,
            to=request.POST.get("to", "")[:80],
            message=request.POST.get("message", "")[:400],
        )
        return _("If there is such a project, its owners were asked. The offer ends in 7 days.")


class TransferWithdraw(Act):
    required_permissions: ClassVar[Mapping[str, Permission]] = MANAGE

    def act(self, row: Volume, request: HttpRequest) -> str:
        del request
        found = selectors.transfer_of(row)
        if found is not None:
            transfers.transfer_withdraw(principal=self.principal, transfer=found)
        return _("The offer is taken back.")


class Answer(ProjectView):
    """What an owner of the other project says to an offer."""

    stands_on = List

    required_permissions: ClassVar[Mapping[str, Permission]] = MANAGE

    def post(self, request: HttpRequest, project: str, transfer: UUID) -> HttpResponse:  # noqa: ARG002
        found = selectors.transfer_get(self.principal, self.project, transfer)
        if request.POST.get("answer") != "accept":
            transfers.transfer_decline(principal=self.principal, transfer=found)
            messages.success(request, _("Declined. The volume stays where it is."))
            return go(request, reverse("volumes:list", kwargs={"project": self.project.slug}))
        name = request.POST.get("name", "").strip()[:63] or None
        row = transfers.transfer_accept(principal=self.principal, transfer=found, name=name)
        messages.success(request, _("“%(name)s” belongs to this project now.") % {"name": row.name})
        return go(request, row.get_absolute_url())
