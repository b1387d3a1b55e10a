"""The audit log: filters, export, and whether the chain holds."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.translation import gettext as _

from common.ui import responses
from console import forms, selectors, tables
from console.views.base import ConsoleView, ListView
from events.models import Event
from events.sealer import verify_chain
from events.selectors import HEAD, csv_rows, json_lines


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
