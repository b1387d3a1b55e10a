"""The audit log: filters, export, and whether the chain holds."""

import csv
import json
from collections.abc import Iterator
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils.translation import gettext as _

from console import forms, selectors, tables
from console.views.base import ConsoleView, ListView
from events.models import Event

COLUMNS = (
    "id",
    "at",
    "actor_name",
    "actor_uid",
    "via",
    "ip",
    "request_id",
    "verb",
    "outcome",
    "project_uid",
    "target_kind",
    "target_uid",
    "target_name",
    "message",
)


class AuditLog(ListView):
    template_name = "console/audit.html"
    table_class = tables.EventTable
    filter_class = forms.AuditFilter

    def rows(self, chosen: dict[str, Any]) -> QuerySet[Event]:
        return selectors.events(chosen)

    def extra(self) -> dict[str, Any]:
        return {"heading": _("Audit log"), "chain": selectors.chain_state()}


class _Echo:
    """What csv.writer writes to: gives the line back."""

    def write(self, value: str) -> str:
        return value


def safe(value: Any) -> str:
    """A cell that no spreadsheet takes for a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


class AuditExport(ConsoleView):
    """The filtered log as CSV or JSON lines, streamed."""

    required_platform: ClassVar[Any] = {"GET": "auditor"}

    def get(self, request: HttpRequest) -> StreamingHttpResponse | HttpResponse:
        form = forms.AuditFilter(request.GET or None)
        rows = selectors.events(form.cleaned_data if form.is_valid() else {})
        if request.GET.get("format") == "jsonl":
            return self._file(self._lines(rows), "application/x-ndjson", "audit.jsonl")
        return self._file(self._csv(rows), "text/csv; charset=utf-8", "audit.csv")

    def _file(self, body: Iterator[str], kind: str, name: str) -> StreamingHttpResponse:
        answer = StreamingHttpResponse(body, content_type=kind)
        answer["Content-Disposition"] = f'attachment; filename="{name}"'
        return answer

    def _csv(self, rows: QuerySet[Event]) -> Iterator[str]:
        writer = csv.writer(_Echo())
        yield writer.writerow(COLUMNS)
        for row in rows.values_list(*COLUMNS).iterator(chunk_size=500):
            yield writer.writerow([safe(value) for value in row])

    def _lines(self, rows: QuerySet[Event]) -> Iterator[str]:
        for row in rows.values(*COLUMNS, "data").iterator(chunk_size=500):
            yield json.dumps(row, default=str, ensure_ascii=False) + "\n"
