# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The bell, the list, and what one wants to hear; mounted at the root."""

from typing import Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _

from common.paging import paginate
from common.ui.views import PlatformView
from notifications import selectors, services
from notifications.kinds import KINDS
from notifications.models import Notification

IN_BELL = 8


def lines(rows: Any) -> list[dict[str, Any]]:
    return [
        {
            "row": row,
            "text": selectors.text_for(row),
            "icon": KINDS[row.kind].icon if row.kind in KINDS else "bell",
        }
        for row in rows
    ]


class Bell(PlatformView):
    """The dropdown of the top bar."""

    required_platform: ClassVar = "user"
    template_name = "notifications/_bell.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        rows = selectors.notifications_of(self.principal.user)[:IN_BELL]
        return self.render({"lines": lines(rows)})


class NotificationList(PlatformView):
    required_platform: ClassVar = "user"
    template_name = "notifications/list.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        unread = request.GET.get("show") == "unread"
        page = paginate(
            request, selectors.notifications_of(self.principal.user, unread_only=unread)
        )
        return self.render({"page": page, "lines": lines(page), "unread": unread})


class Open(PlatformView):
    """Marks as read and goes where the notification points."""

    required_platform: ClassVar = "user"

    def post(self, request: HttpRequest, uid: str) -> HttpResponse:
        row: Notification = services.notification_read(user=self.principal.user, uid=uid)
        safe = url_has_allowed_host_and_scheme(row.url, allowed_hosts=None)
        return redirect(row.url if row.url and safe else "notifications:list")


class ReadAll(PlatformView):
    required_platform: ClassVar = "user"

    def post(self, request: HttpRequest) -> HttpResponse:
        services.notifications_read_all(user=self.principal.user)
        return redirect("notifications:list")


class Settings(PlatformView):
    required_platform: ClassVar = "user"
    template_name = "notifications/settings.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        return self.render({"wishes": selectors.wishes_of(self.principal.user)})

    def post(self, request: HttpRequest) -> HttpResponse:
        for wish in selectors.wishes_of(self.principal.user):
            if not wish.kind.always:
                services.preference_set(
                    user=self.principal.user,
                    kind=wish.kind.name,
                    page=f"page:{wish.kind.name}" in request.POST,
                    mail=f"mail:{wish.kind.name}" in request.POST,
                )
        messages.success(request, _("Saved."))
        return redirect("notifications:settings")


app_name = "notifications"
urlpatterns = [
    path("notifications/", NotificationList.as_view(), name="list"),
    path("notifications/bell", Bell.as_view(), name="bell"),
    path("notifications/read-all", ReadAll.as_view(), name="read-all"),
    path("notifications/settings", Settings.as_view(), name="settings"),
    path("notifications/<uuid:uid>/open", Open.as_view(), name="open"),
]
