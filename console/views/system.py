"""The installation itself: the audit log, announcements, capacity, and what runs and is down."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from datetime import date, timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, ClassVar

import django
from django.conf import settings
from django.contrib import messages
from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from clusters.models import Flavor
from common.clock import now
from common.errors import NotFound
from common.ui import responses
from common.ui.components import BAR, HEIGHT, LINE, STEP, column_left, column_scale, limit_mark
from console import forms, selectors, tables
from console.health import check_all
from console.views.base import ConsoleView, FormPage, ListView
from events.sealer import verify_chain
from events.selectors import HEAD, csv_rows, json_lines
from notifications import services
from notifications.models import Announcement
from runtime import leases
from runtime.reconcilers import registered, rows_of
from serving.gateway.tallies import gateways
from usage import capacity
from usage.ranges import range_of
from volumes.backing import largest_here

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http.response import HttpResponseBase

    from events.models import Event
    from usage.capacity import Figures, Kind


class AuditLog(ListView):
    template_name = "console/audit.html"
    table_class = tables.EventTable
    filter_class = forms.AuditFilter
    heading = _lazy("Audit log")

    def rows(self, chosen: dict[str, Any]) -> QuerySet[Event]:
        return selectors.events(chosen)

    def extra(self) -> dict[str, Any]:
        # The whole chain is read only when asked for: it takes as long as the log is long.
        verdict = verify_chain() if self.request.GET.get("verify") == "1" else None
        return {
            "chain": selectors.chain_state(),
            "verdict": verdict,
            "query": _without_verify(self.request),
        }


class AuditExport(ConsoleView):
    """The filtered log as CSV or JSON lines, streamed."""

    required_platform: ClassVar[Any] = {"GET": "auditor"}

    def get(self, request: HttpRequest) -> StreamingHttpResponse:
        form = forms.AuditFilter(request.GET or None)
        rows = selectors.events(form.cleaned_data if form.is_valid() else {})
        if request.GET.get("format") != "jsonl":
            return responses.csv_download("audit.csv", HEAD, csv_rows(rows))
        lines = (f"{line}\n" for line in json_lines(rows))
        answer = StreamingHttpResponse(lines, content_type="application/x-ndjson")
        answer["Content-Disposition"] = 'attachment; filename="audit.jsonl"'
        return answer


def _without_verify(request: HttpRequest) -> str:
    query = request.GET.copy()
    query.pop("verify", None)
    return query.urlencode()


class AnnouncementList(ListView):
    table_class = tables.AnnouncementTable
    filter_class = forms.AnnouncementFilter
    heading = _lazy("Announcements")
    new = "console:announcement-create", _lazy("New announcement")
    empty = (
        "speakerphone",
        _lazy("Nothing is announced"),
        _lazy("An announcement is a banner on every page, for a time you choose."),
    )

    def rows(self, chosen: dict[str, Any]) -> QuerySet[Announcement]:
        rows = Announcement.objects.order_by("-starts_at", "-id")
        return rows.filter(message__icontains=chosen["q"]) if chosen.get("q") else rows


class AnnouncementEdit(FormPage):
    """Make one (no ``uid``) or change one."""

    required_platform: ClassVar[Any] = "operator"
    template_name = "console/announcement.html"

    def row(self) -> Announcement | None:
        uid = self.kwargs.get("uid")
        row = Announcement.objects.filter(uid=uid).first() if uid else None
        if uid and row is None:
            raise NotFound(_("There is no such announcement."))
        return row

    def form(self, row: Announcement | None, data: Any = None) -> forms.AnnouncementForm:
        names = ("message", "severity", "starts_at", "ends_at")
        initial = {name: getattr(row, name) for name in names} if row else {"severity": "info"}
        return forms.AnnouncementForm(data, initial=initial)

    def save(self, row: Announcement | None, form: Any) -> str:
        services.announcement_save(actor=self.principal, announcement=row, **form.cleaned_data)
        messages.success(self.request, _("The announcement is saved."))
        return reverse("console:announcements")

    def page(self, row: Announcement | None, form: Any) -> dict[str, Any]:  # noqa: ARG002
        return {"announcement": row}


class AnnouncementDelete(ConsoleView):
    required_platform: ClassVar[Any] = {"POST": "operator"}

    def post(self, request: HttpRequest, uid: Any) -> HttpResponse:
        row = Announcement.objects.filter(uid=uid).first()
        if row is not None:
            services.announcement_delete(actor=self.principal, announcement=row)
        messages.success(request, _("The announcement is gone."))
        return HttpResponseRedirect(reverse("console:announcements"))


SPANS = (30, 90)  # days, one press each


class Capacity(ConsoleView):
    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "console/capacity.html"

    def get(self, request: HttpRequest) -> HttpResponseBase:
        span = range_of(request.GET)
        kinds = capacity.report(span)
        if request.GET.get("format") == "csv":
            return responses.csv_download("capacity.csv", capacity.HEAD, capacity.csv_rows(kinds))
        labels = dict(Flavor.objects.values_list("name", "label"))
        today = timezone.localdate(now())
        return self.render(
            {
                "kinds": [(labels.get(kind.kind, kind.kind), kind, chart(kind)) for kind in kinds],
                "since": timezone.localdate(span.since).isoformat(),
                "until": request.GET.get("until", ""),
                "spans": [(n, today - timedelta(days=n)) for n in SPANS],
            }
        )


@dataclass(frozen=True)
class Column:
    day: date
    figures: Figures
    x: int
    held: int  # tops and heights
    held_height: int
    waiting: int
    waiting_height: int
    supply: int


@dataclass(frozen=True)
class Chart:
    columns: list[Column]
    width: int
    top: float  # devices at the upper edge
    height: int = HEIGHT
    bar: int = BAR  # width of a column
    mark: int = 2 * LINE  # height of the mark of what there was


def chart(kind: Kind) -> Chart:
    """Draw ``kind`` with its highest day, or what there was, at the upper edge."""
    days = [day.figures for day in kind.days]
    top = max([max(f.supply, f.requested) for f in days], default=0) or 1.0
    unit = column_scale(top)
    columns = []
    for number, day in enumerate(kind.days):
        held = round(day.figures.attached * unit)
        waiting = round(day.figures.waiting * unit)
        columns.append(
            Column(
                day=day.day,
                figures=day.figures,
                x=column_left(number),
                held=HEIGHT - held,
                held_height=held,
                waiting=HEIGHT - held - waiting,
                waiting_height=waiting,
                supply=limit_mark(day.figures.supply, unit),
            )
        )
    return Chart(columns, max(1, len(columns)) * STEP, top)


PACKAGES = ("djangorestframework", "celery", "django-allauth", "httpx", "uvicorn")


class System(ConsoleView):
    required_platform: ClassVar[Any] = {"GET": "auditor"}
    template_name = "console/system.html"

    def get(self, request: HttpRequest) -> HttpResponse:  # noqa: ARG002
        duties = [
            {
                "name": row.name,
                "every": row.every_s,
                "at": row.turned_at,
                "is_late": leases.is_late(row),
            }
            for row in leases.duties()
        ]
        return self.render(
            {
                "checks": check_all(),
                "duties": duties,
                "gateways": gateways(),
                "largest": largest_here(),
                "versions": _versions(),
                "kinds": _kinds(),
                "settings_shown": _settings(),
            }
        )


def _versions() -> list[tuple[str, str]]:
    found = [
        ("Berth", settings.BERTH_VERSION),
        ("Python", platform.python_version()),
        ("Django", django.get_version()),
        (connection.display_name, _database_version()),
    ]
    for name in PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    found.append((platform.system(), platform.release()))
    return found


def _database_version() -> str:
    return ".".join(str(part) for part in connection.get_database_version())


def _kinds() -> list[dict[str, Any]]:
    """Return what the engine looks after: how many of each, how many are due."""
    moment = now()
    found = []
    for kind in sorted(registered()):
        rows = rows_of(kind).filter(deleted_at__isnull=True)
        due = rows.filter(next_reconcile_at__lte=moment).count()
        found.append({"kind": kind, "count": rows.count(), "due": due})
    return found


def _settings() -> list[tuple[str, str]]:
    """Settings that explain behaviour; never a secret."""
    return [
        ("BERTH_PUBLIC_URL", settings.BERTH_PUBLIC_URL),
        ("BERTH_NOTEBOOK_ROUTING", settings.BERTH_NOTEBOOK_ROUTING),
        ("BERTH_NOTEBOOK_DOMAIN", settings.BERTH_NOTEBOOK_DOMAIN),
        ("BERTH_LOCAL_DRIVER", settings.BERTH_LOCAL_DRIVER),
        ("BERTH_PROJECT_CREATION", settings.BERTH_PROJECT_CREATION),
        ("BERTH_VAR", str(settings.BERTH_VAR)),
        ("sys.prefix", sys.prefix),
    ]
