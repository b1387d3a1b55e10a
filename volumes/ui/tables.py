from __future__ import annotations

from typing import Any, ClassVar

import django_tables2 as tables
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.templatetags.berth import ago, badge, filesize, mib
from runtime.protocol import Desired, Phase
from volumes.models import Volume


class VolumeTable(tables.Table):
    """Whose it is, how large it is, when that was measured."""

    name = tables.Column(verbose_name=_("Name"))
    owner = tables.Column(verbose_name=_("Owner"), order_by="owner__username")
    kind = tables.Column(verbose_name=_("Kind"))
    used = tables.Column(verbose_name=_("Size"), accessor="used_bytes", empty_values=())
    measured = tables.Column(verbose_name=_("Measured"), accessor="used_at")
    state = tables.Column(verbose_name=_("State"), empty_values=(), orderable=False)

    class Meta:
        attrs: ClassVar[dict[str, Any]] = {"aria_label": _("Volumes")}

    def render_owner(self, record: Volume) -> str:
        return record.owner.label if record.owner else _t("The project")

    def render_used(self, record: Volume) -> str:
        if record.used_bytes is None:
            return _t("not measured yet")
        size = filesize(record.used_bytes)
        if record.size_limit_mib is None:
            return size
        return _t("%(size)s of %(limit)s") % {"size": size, "limit": mib(record.size_limit_mib)}

    def render_measured(self, value: Any) -> SafeString | str:
        return ago(value)

    def render_state(self, record: Volume) -> SafeString:
        if record.desired == Desired.ABSENT:
            return badge(_t("Being deleted"), "warning")
        over = (
            record.size_limit_mib is not None
            and record.used_bytes is not None
            and record.used_bytes > record.size_limit_mib * 1024 * 1024
        )
        if over:
            return badge(_t("Over its limit"), "warning")
        if record.phase == Phase.RUNNING:
            return badge(_t("Ready"), "good")
        if record.phase == Phase.FAILED:
            return format_html("{} {}", badge(_t("Failed"), "danger"), record.message)
        return badge(_t("Being made"), "info")
