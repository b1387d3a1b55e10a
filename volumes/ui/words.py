"""A volume's state and room, in the words and shapes that every page uses."""

from __future__ import annotations

from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from common.templatetags.berth import badge, filesize, meter, mib
from runtime.protocol import Phase
from volumes.models import Volume


def state_badge(row: Volume) -> SafeString:
    """Return the first thing that is to be said of it, as word and shape."""
    found = (
        (row.is_being_deleted, _("Being deleted"), "warning", "trash"),
        (row.is_moving, _("Being handed over"), "info", "arrows-exchange"),
        (row.is_restoring, _("Being restored"), "info", "history"),
        (row.phase == Phase.FAILED, _("Failed"), "danger", ""),
        (row.phase != Phase.RUNNING, _("Being made"), "info", ""),
        (row.is_growing, _("Being made larger"), "info", ""),
        (row.is_full, _("Full"), "danger", ""),
        (row.is_nearly_full, _("Nearly full"), "warning", ""),
        (True, _("Ready"), "good", ""),
    )
    return next(badge(word, tone, shape) for holds, word, tone, shape in found if holds)


def usage_words(row: Volume) -> str:
    """Return "3 GiB of 10 GiB"; what was never measured is said so, never shown as nought."""
    if row.used_bytes is None:
        used = _("not measured yet")
        return used if row.size_limit_mib is None else f"{used} · {mib(row.size_limit_mib)}"
    size = filesize(row.used_bytes)
    if row.used_at_least:
        size = _("at least %(size)s") % {"size": size}
    if row.size_limit_mib is None:
        return size
    return _("%(size)s of %(limit)s") % {"size": size, "limit": mib(row.size_limit_mib)}


def usage_bar(row: Volume, label: str = "") -> SafeString:
    return render_to_string(
        "components/meter.html", meter(row.used_bytes, row.size_bytes, label, usage_words(row))
    )
