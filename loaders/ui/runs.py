"""What a load did so far, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import django_tables2 as tables
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.templatetags.berth import ago
from loaders.models import LoadRun
from loaders.selectors import runs_of, sees_inside
from loaders.templatetags.loads import result_badge
from loaders.words import run_message
from work.ui.tables import WHOLE

if TYPE_CHECKING:
    from accounts.principal import Principal
    from loaders.models import Load

_NUMBERED: dict[str, Any] = {"td": {"class": "numbered"}}  # on a telephone: "Run 3"


def runs_table(who: Principal, row: Load, limit: int) -> RunTable:
    """Return its latest runs, each with the way to what it wrote as ``who`` may read it."""
    keys = {"project": row.project.slug, "load": row.uid}
    logs = reverse("loaders:logs", kwargs=keys) if sees_inside(who, row) else ""
    return RunTable(runs_of(row, limit), logs=logs, latest=row.launch)


class RunTable(tables.Table):
    launch = tables.Column(verbose_name=_("Run"), orderable=False, attrs=_NUMBERED)
    task = tables.Column(verbose_name=_("What"), orderable=False, attrs=WHOLE)
    result = tables.Column(verbose_name=_("Result"), empty_values=(), orderable=False)
    files = tables.Column(verbose_name=_("Files"), empty_values=(), orderable=False)
    by = tables.Column(verbose_name=_("Started by"), empty_values=(), orderable=False)
    asked_at = tables.Column(verbose_name=_("Started"), orderable=False)
    log = tables.Column(verbose_name=_("Log"), empty_values=(), orderable=False, attrs=WHOLE)

    class Meta:
        attrs: ClassVar[dict[str, Any]] = {"aria_label": _("Runs")}

    def __init__(self, *args: Any, logs: str, latest: int, **options: Any) -> None:
        """``logs`` is where they are, "" where they are not for this reader."""
        super().__init__(*args, **options)
        self._logs, self._latest = logs, latest
        if not logs:
            self.columns.hide("log")

    def render_log(self, record: LoadRun) -> SafeString | str:
        if not (getattr(record, "has_log", False) or record.launch == self._latest):
            return "-"
        label = _t("Log of run %(n)d") % {"n": record.launch}
        href = f"{self._logs}?run={record.launch}"
        return format_html('<a href="{}" aria-label="{}">{}</a>', href, label, _t("Log"))

    def render_result(self, record: LoadRun) -> SafeString:
        shown = result_badge(record.result)
        return format_html("<span>{} {}</span>", shown, run_message(record))

    def render_files(self, record: LoadRun) -> SafeString:
        return render_to_string("loaders/_counts.html", {"run": record})

    def render_by(self, record: LoadRun) -> str:
        if record.scheduled:
            return _t("its schedule")
        return record.started_by.label if record.started_by else "-"

    def render_asked_at(self, value: Any) -> SafeString | str:
        return ago(value)
