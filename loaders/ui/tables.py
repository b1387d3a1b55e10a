from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import django_tables2 as tables
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.templatetags.berth import ago
from common.ui.components import mark, menu
from loaders import selectors
from loaders.models import Load, LoadRun
from loaders.states import SETTLED, state_of
from loaders.templatetags.loads import load_badge, result_badge
from loaders.ui import bulk
from loaders.ui.present import bar_of
from loaders.words import message_of, run_message

if TYPE_CHECKING:
    from accounts.principal import Principal


WHOLE: dict[str, Any] = {"td": {"class": "text-nowrap"}}  # a word of Japanese can break anywhere
MENU: dict[str, Any] = {"td": {"class": "row-acts"}, "th": {"class": "row-acts"}}
NUMBERED: dict[str, Any] = {"td": {"class": "numbered"}}  # on a telephone: "Run 3"


class LoadTable(tables.Table):
    """What is loaded from where to where, and how far it is, as ``who`` may read it."""

    name = tables.Column(verbose_name=_("Name"), attrs={"td": {"class": "name-cell"}})
    state = tables.Column(verbose_name=_("State"), empty_values=(), orderable=False)
    way = tables.Column(verbose_name=_("From and to"), empty_values=(), orderable=False)
    progress = tables.Column(verbose_name=_("Progress"), empty_values=(), orderable=False)
    owner = tables.Column(verbose_name=_("Owner"), order_by="owner__username")
    asked = tables.Column(verbose_name=_("Started"), accessor="asked_at")
    acts = tables.Column(verbose_name=_("Actions"), empty_values=(), orderable=False, attrs=MENU)

    class Meta:
        order_by = "-asked"
        attrs: ClassVar[dict[str, Any]] = {"aria_label": _("Loads")}

    def __init__(self, *args: Any, who: Principal, **options: Any) -> None:
        super().__init__(*args, **options)
        self._who = who

    def render_name(self, value: str, record: Load) -> SafeString:
        box = mark(record.uid, value) if bulk.can_delete(self._who, record) else ""
        return format_html('{}<a href="{}">{}</a>', box, record.get_absolute_url(), value)

    def render_acts(self, record: Load) -> SafeString | str:
        return menu(record.name, bulk.acts_on(self._who, record))

    def render_state(self, record: Load) -> SafeString:
        return load_badge(record)

    def render_way(self, record: Load) -> SafeString:
        named = record.folder and selectors.sees_inside(self._who, record)
        there = record.volume.name + (f"/{record.folder}" if named else "")
        ends = (record.url, there) if record.direction == "in" else (there, record.url)
        return format_html(
            '<span class="mono load-way">{} <i class="ti ti-arrow-right" aria-hidden="true"></i>'
            '<span class="visually-hidden">{}</span> {}</span>',
            ends[0],
            _t("to"),
            ends[1],
        )

    def render_progress(self, record: Load) -> SafeString:
        bar = bar_of(record)
        settled = state_of(record) in SETTLED
        waiting = "" if bar.moves or bar.words or settled else message_of(record)
        return render_to_string(
            "loaders/_bar.html", {"row": record, "bar": bar, "waiting": waiting}
        )

    def render_owner(self, record: Load) -> str:
        return record.owner.label

    def render_asked(self, value: Any) -> SafeString | str:
        return ago(value)


class RunTable(tables.Table):
    """What a load did so far."""

    launch = tables.Column(verbose_name=_("Run"), orderable=False, attrs=NUMBERED)
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
