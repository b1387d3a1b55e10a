from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import django_tables2 as tables
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from common.templatetags.berth import NOTHING, ago, phase
from common.ui.components import mark, menu
from notebooks.models import Workspace
from notebooks.ui import bulk
from work.ui.sizes import size_words

if TYPE_CHECKING:
    from accounts.principal import Principal

MENU: dict[str, Any] = {"td": {"class": "row-acts"}, "th": {"class": "row-acts"}}


class WorkspaceTable(tables.Table):
    """Name, state, size: what one looks for first."""

    name = tables.Column(verbose_name=_("Name"))
    shown_phase = tables.Column(verbose_name=_("State"), order_by="phase")
    owner = tables.Column(verbose_name=_("Owner"), order_by="owner__username")
    size = tables.Column(verbose_name=_("Size"), empty_values=(), orderable=False)
    started = tables.Column(verbose_name=_("Started"), accessor="asked_at")
    ends = tables.Column(verbose_name=_("Ends"), accessor="ends_at")
    acts = tables.Column(verbose_name=_("Actions"), empty_values=(), orderable=False, attrs=MENU)

    class Meta:
        default = NOTHING
        order_by = "-started"
        attrs: ClassVar[dict[str, Any]] = {"aria_label": _("Workspaces")}

    def __init__(self, *args: Any, who: Principal, **options: Any) -> None:
        super().__init__(*args, **options)
        self._who = who

    def render_name(self, value: str, record: Workspace) -> SafeString:
        box = mark(record.short_id, value) if bulk.can_choose(self._who, record) else ""
        return format_html('{}<a href="{}">{}</a>', box, record.get_absolute_url(), value)

    def render_acts(self, record: Workspace) -> SafeString | str:
        return menu(record.name, bulk.acts_on(self._who, record))

    def render_shown_phase(self, record: Workspace) -> SafeString:
        shown = phase(record.shown_phase)
        if not (wrong := record.warning):
            return shown
        return format_html('{}<div class="text-secondary small">{}</div>', shown, wrong)

    def render_owner(self, record: Workspace) -> str:
        return record.owner.label

    def render_size(self, record: Workspace) -> SafeString:
        parts = ((part,) for part in size_words(record).split(" · "))
        # a kind breaks at its hyphen otherwise
        return format_html_join(" · ", '<span class="text-nowrap">{}</span>', parts)

    def render_started(self, value: Any) -> SafeString | str:
        return ago(value)

    def render_ends(self, value: Any) -> SafeString | str:
        return ago(value)
