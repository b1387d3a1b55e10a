"""The link of the mail that warns: whoever has the mail keeps their work by one press, unsigned-in.

The link is made when the mail is sent and is good for one warning: an extension, a use or the end
of the work makes another stretch or none, so it is used once and is over when the warning is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib.auth.decorators import login_not_required
from django.core import signing
from django.db import transaction
from django.shortcuts import render
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.generic import View

from accounts.principal import Principal
from common.errors import Invalid, NotFound
from parking.models import Stretch
from parking.selectors import address_of, notice_in
from parking.services.acts import idle_extend
from runtime.protocol import Desired
from work.services.base import lock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.http import HttpRequest, HttpResponse

_SALT = "parking.mail-link"


def mail_link(params: Mapping[str, Any]) -> str:
    """Return the address for the mail of one warning (notifications.kinds.register_mail_url)."""
    try:
        said = [str(UUID(params["work"])), str(params["told"])]
    except (KeyError, ValueError):
        return "/"
    return f"/idle/keep/{signing.dumps(said, salt=_SALT)}"


def warned(token: str) -> Stretch:
    """Return the stretch whose warning a link is of, while that warning holds."""
    try:
        uid, told = signing.loads(token, salt=_SALT)
    except signing.BadSignature:
        raise _over() from None
    rows = Stretch.objects.select_related("policy", "workload__owner", "workload__project")
    stretch = rows.filter(
        workload__uid=uid, workload__desired=Desired.RUNNING, workload__owner__is_active=True
    ).first()
    if stretch is None or stretch.warned_at is None or stretch.warned_at.isoformat() != told:
        raise _over()
    return stretch


def _over() -> NotFound:
    return NotFound(_("This link is over: it was used, or the work is in use or has ended."))


@method_decorator([login_not_required, never_cache], name="dispatch")
class Keep(View):
    """A page that asks, and the press; looking at it (mail programs do) changes nothing."""

    http_method_names = ["get", "post"]

    def get(self, request: HttpRequest, token: str) -> HttpResponse:
        return self._page(request, warned(token))

    def post(self, request: HttpRequest, token: str) -> HttpResponse:
        stretch = warned(token)
        owner = Principal(user=stretch.workload.owner)
        reason = request.POST.get("reason", "")
        try:
            with transaction.atomic():
                lock(stretch.workload)
                warned(token)  # of two presses at once the second comes too late
                kept = idle_extend(principal=owner, row=stretch.workload, reason=reason)
        except Invalid as error:
            return self._page(request, stretch, wrong=error.message, status=error.status)
        return self._page(request, stretch, until=kept.due_at)

    def _page(
        self, request: HttpRequest, stretch: Stretch, *, status: int = 200, **said: Any
    ) -> HttpResponse:
        row = stretch.workload
        shown = {"row": row, "page": address_of(row), "notice": notice_in(stretch), **said}
        response = render(request, "parking/keep.html", shown, status=status)
        response["Referrer-Policy"] = "no-referrer"
        return response
