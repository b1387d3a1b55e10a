"""A volume in the words and shapes that every page uses: its state, room, table and tabs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

import django_tables2 as tables
from django import template
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from accounts.principal import Principal
from common.templatetags.berth import NOTHING, ago, badge, filesize, meter, mib
from common.ui.components import Tab, Tabs
from runtime.protocol import Phase
from volumes.models import Volume


def state_badge(row: Volume) -> SafeString:
    """Return the first thing that is to be said of it, as word and shape."""
    found = (
        (row.is_being_deleted, _t("Being deleted"), "warning", "trash"),
        (row.is_moving, _t("Being handed over"), "info", "arrows-exchange"),
        (row.is_restoring, _t("Being restored"), "info", "history"),
        (row.phase == Phase.FAILED, _t("Failed"), "danger", ""),
        (row.phase != Phase.RUNNING, _t("Being made"), "info", ""),
        (row.is_growing, _t("Being made larger"), "info", ""),
        (row.is_full, _t("Full"), "danger", ""),
        (row.is_nearly_full, _t("Nearly full"), "warning", ""),
        (True, _t("Ready"), "good", ""),
    )
    return next(badge(word, tone, shape) for holds, word, tone, shape in found if holds)


def usage_words(row: Volume) -> str:
    """Return "3 GiB of 10 GiB"; what was never measured is said so, never shown as nought."""
    if row.used_bytes is None:
        used = _t("not measured yet")
        return used if row.size_limit_mib is None else f"{used} · {mib(row.size_limit_mib)}"
    size = filesize(row.used_bytes)
    if row.used_at_least:
        size = _t("at least %(size)s") % {"size": size}
    if row.size_limit_mib is None:
        return size
    return _t("%(size)s of %(limit)s") % {"size": size, "limit": mib(row.size_limit_mib)}


def usage_bar(row: Volume, label: str = "") -> SafeString:
    return render_to_string(
        "components/meter.html", meter(row.used_bytes, row.size_bytes, label, usage_words(row))
    )


__all__ = ["Tab", "more_of", "register"]

_tabs: Tabs[Principal, Volume] = Tabs()
register_tab, more_of = _tabs.register, _tabs.of


class VolumeTable(tables.Table):
    """What it is, how full, who uses it."""

    name = tables.Column(verbose_name=_("Name"))
    used = tables.Column(verbose_name=_("Used"), accessor="used_bytes", empty_values=())
    volume_class = tables.Column(
        verbose_name=_("Storage"), empty_values=(), order_by="volume_class__name"
    )
    who = tables.Column(verbose_name=_("Whose"), empty_values=(), orderable=False)
    last_used = tables.Column(verbose_name=_("Last used"), accessor="last_used_at")
    state = tables.Column(verbose_name=_("State"), empty_values=(), orderable=False)

    class Meta:
        default = NOTHING
        attrs: ClassVar[dict[str, Any]] = {"aria_label": _("Volumes")}

    def __init__(
        self, rows: Any, *, mounted: Mapping[UUID, int] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(rows, **kwargs)
        self.mounted: Mapping[UUID, int] = mounted or {}

    def render_name(self, record: Volume) -> SafeString:
        said = record.description or str(record.get_kind_display())
        return format_html(
            '<a href="{}"><strong>{}</strong></a><br><span class="text-secondary">{}</span>',
            record.get_absolute_url(),
            record.name,
            said,
        )

    def render_used(self, record: Volume) -> SafeString:
        return usage_bar(record)

    def render_volume_class(self, record: Volume) -> str:
        return record.volume_class.name if record.volume_class else NOTHING

    def render_who(self, record: Volume) -> str:
        if record.owner:
            return record.owner.label
        return record.created_by.label if record.created_by else _t("The project")

    def render_last_used(self, record: Volume) -> SafeString | str:
        if record.last_used_by is None:
            return ago(record.last_used_at)
        return format_html("{} · {}", ago(record.last_used_at), record.last_used_by.label)

    def render_state(self, record: Volume) -> SafeString:
        number = self.mounted.get(record.uid, 0)
        if not number:
            return state_badge(record)
        words = ngettext("mounted by %(n)d", "mounted by %(n)d", number) % {"n": number}
        return format_html(
            '{}<br><span class="text-secondary">{}</span>', state_badge(record), words
        )


register = template.Library()
register.simple_tag(state_badge, name="volume_state")
register.simple_tag(usage_bar, name="volume_usage")
