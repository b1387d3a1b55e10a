"""Banners on every page."""

from typing import Any, ClassVar

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _

from common.errors import Invalid, NotFound
from common.ui.responses import show_error
from console import forms, tables
from console.views.base import ConsoleView, ListView
from notifications import services
from notifications.models import Announcement


class AnnouncementList(ListView):
    table_class = tables.AnnouncementTable
    filter_class = forms.AnnouncementFilter

    def rows(self, chosen: dict[str, Any]) -> QuerySet[Announcement]:
        rows = Announcement.objects.order_by("-starts_at", "-id")
        return rows.filter(message__icontains=chosen["q"]) if chosen.get("q") else rows

    def extra(self) -> dict[str, Any]:
        return {
            "heading": _("Announcements"),
            "action_url": reverse("console:announcement-create"),
            "action_label": _("New announcement"),
            "empty_icon": "speakerphone",
            "empty_title": _("Nothing is announced"),
            "empty_text": _("An announcement is a banner on every page, for a time you choose."),
        }


class AnnouncementEdit(ConsoleView):
    """Make one (no ``uid``) or change one."""

    required_platform: ClassVar[Any] = "operator"
    template_name = "console/announcement.html"

    def _row(self) -> Announcement | None:
        uid = self.kwargs.get("uid")
        if uid is None:
            return None
        row = Announcement.objects.filter(uid=uid).first()
        if row is None:
            raise NotFound(_("There is no such announcement."))
        return row

    def get(self, request: HttpRequest, uid: Any = None) -> HttpResponse:  # noqa: ARG002
        row = self._row()
        initial: dict[str, Any] = {"severity": "info"}
        if row:
            initial = {
                "message": row.message,
                "severity": row.severity,
                "starts_at": row.starts_at,
                "ends_at": row.ends_at,
            }
        form = forms.AnnouncementForm(initial=initial)
        return self.render({"form": form, "announcement": row})

    def post(self, request: HttpRequest, uid: Any = None) -> HttpResponse:  # noqa: ARG002
        row = self._row()
        form = forms.AnnouncementForm(request.POST)
        if form.is_valid():
            try:
                services.announcement_save(
                    actor=self.principal, announcement=row, **form.cleaned_data
                )
            except Invalid as error:
                show_error(form, error)
            else:
                messages.success(request, _("The announcement is saved."))
                return HttpResponseRedirect(reverse("console:announcements"))
        return self.render({"form": form, "announcement": row}, status=400)


class AnnouncementDelete(ConsoleView):
    required_platform: ClassVar[Any] = {"POST": "operator"}

    def post(self, request: HttpRequest, uid: Any) -> HttpResponse:
        row = Announcement.objects.filter(uid=uid).first()
        if row is not None:
            services.announcement_delete(actor=self.principal, announcement=row)
        messages.success(request, _("The announcement is gone."))
        return HttpResponseRedirect(reverse("console:announcements"))
