from __future__ import annotations

from typing import Any, ClassVar

import django_tables2 as tables
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from common.templatetags.berth import ago, badge
from credentials.models import Credential
from credentials.selectors import expiry_of


def state(row: Credential) -> SafeString:
    """What is to be known at a glance: run out, refused, accepted or never tried."""
    expiry = expiry_of(row)
    if expiry == "over":
        return badge(_t("Run out"), "danger")
    if row.test_ok is False:
        return badge(_t("Refused when tested"), "danger")
    if expiry == "soon":
        return badge(_t("Runs out soon"), "warning")
    if row.test_ok:
        return badge(_t("Accepted when tested"), "good")
    if row.tested_at is not None:
        return badge(_t("Could not be judged"), "quiet")
    return badge(_t("Not tested"), "quiet")


class CredentialTable(tables.Table):
    name = tables.Column(verbose_name=_("Name"))
    kind = tables.Column(verbose_name=_("Kind"), accessor="get_kind_display", order_by="kind")
    target = tables.Column(verbose_name=_("For"))
    usable_by = tables.Column(verbose_name=_("Used by"), accessor="get_usable_by_display")
    used = tables.Column(
        verbose_name=_("Last used"), accessor="last_used_at", empty_values=(), orderable=False
    )
    state = tables.Column(verbose_name=_("State"), empty_values=(), orderable=False)

    class Meta:
        attrs: ClassVar[dict[str, Any]] = {"aria_label": _("Credentials")}

    def render_name(self, record: Credential) -> SafeString:
        return format_html('<a href="{}">{}</a>', record.get_absolute_url(), record.name)

    def render_used(self, record: Credential) -> SafeString | str:
        return ago(record.last_used_at) if record.last_used_at else _t("never")

    def render_state(self, record: Credential) -> SafeString:
        return state(record)
