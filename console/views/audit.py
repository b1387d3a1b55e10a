"""The audit log: filters, export, and whether the chain holds."""

import csv
from collections.abc import Iterator
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils.translation import gettext as _

from console import forms, selectors, tables
from console.views.base import ConsoleView, ListView
from events.export import HEAD, csv_rows, json_lines
from events.models import Event
from events.sealer import verify_chain


class AuditLog(ListView):
    template_name = "console/audit.html"
    table_class = tables.EventTable
    filter_class = forms.AuditFilter

    def rows(self, chosen: dict[str, Any]) -> QuerySet[Event]:
        return selectors.events(chosen)

    def extra(self) -> dict[str, Any]:
        # The whole chain is read only when asked for: it takes as long as the log is long.
        verdict = verify_chain() if self.request.GET.get("verify") == "1" else None
        return {
            "heading": _("Audit log"),
            "chain": selectors.chain_state(),
            "verdict": verdict,
            "query": _without_verify(self.request),
        }


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
        yield writer.writerow(HEAD)
        for row in csv_rows(rows):
            yield writer.writerow([safe(value) for value in row])

    def _lines(self, rows: QuerySet[Event]) -> Iterator[str]:
        for line in json_lines(rows):
            yield line + "\n"


def _without_verify(request: HttpRequest) -> str:
    query = request.GET.copy()
    query.pop("verify", None)
    return query.urlencode()
