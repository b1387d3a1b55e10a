from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

import django_tables2 as tables
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from common.templatetags.berth import NOTHING, ago
from volumes.models import Volume
from volumes.ui.words import state_badge, usage_bar


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
