"""What a press does to one that runs: more time, the newest image, letting somebody in and out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.errors import wrong
from common.ui.responses import go
from work import services
from work.services.time_limit import DEFAULT_EXTENSION
from work.ui.base import OneView

_DIGITS = 9


class Act(OneView):
    """A press on a button: do it, say so, go back to the page. Works without a script."""

    demands: ClassVar[Mapping[str, str]] = {"POST": "create"}

    def post(self, request: HttpRequest, project: str, **keys: str) -> HttpResponse:  # noqa: ARG002
        row = self.row()
        messages.success(request, self.act(row, request))
        return go(request, self.pages.address("detail", row))

    def act(self, row: Any, request: HttpRequest) -> str:
        raise NotImplementedError


class Repin(Act):
    """What the image's tag means now, where the registry no longer has what is pinned."""

    def act(self, row: Any, request: HttpRequest) -> str:  # noqa: ARG002
        pinned = row.image_digest
        row = services.image_renew(principal=self.principal, row=row)
        if row.image_digest == pinned:
            return _("The tag still means the image that is pinned.")
        return _("“%(name)s” takes the newest image of its tag.") % {"name": row.name}


class Extend(Act):
    def act(self, row: Any, request: HttpRequest) -> str:
        text = request.POST.get("minutes", str(DEFAULT_EXTENSION))
        if not text.isascii() or not text.isdecimal() or len(text) > _DIGITS:
            raise wrong("minutes", _("A whole number, please."))
        minutes = int(text)
        services.workload_extend(principal=self.principal, row=row, minutes=minutes)
        said = ngettext(
            "“%(name)s” ends %(n)d minute later.", "“%(name)s” ends %(n)d minutes later.", minutes
        )
        return said % {"name": row.name, "n": minutes}


class Share(Act):
    def act(self, row: Any, request: HttpRequest) -> str:
        username = request.POST.get("username", "")[:64]
        services.workload_share(principal=self.principal, row=row, username=username)
        return _("%(who)s may open “%(name)s” now.") % {"who": username, "name": row.name}


class Unshare(Act):
    def act(self, row: Any, request: HttpRequest) -> str:
        username = request.POST.get("username", "")[:64]
        services.workload_unshare(principal=self.principal, row=row, username=username)
        said = _("%(who)s may not open “%(name)s” any more.")
        return said % {"who": username, "name": row.name}
