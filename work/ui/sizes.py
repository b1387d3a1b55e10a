"""The size of work in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import ngettext

from common.templatetags.berth import cpus, mib

if TYPE_CHECKING:
    from work.models import Ask


def size_words(row: Ask) -> str:
    """2 CPU · 4 GiB · 1 H100."""
    parts = [f"{cpus(row.cpu_milli)} CPU", mib(row.memory_mib)]
    if row.gpus:
        kind = row.gpu_flavor.replace(",", " / ") or ngettext(
            "GPU of any kind", "GPUs of any kind", row.gpus
        )
        parts.append(f"{row.gpus}\N{NO-BREAK SPACE}{kind}")  # a number never ends a line alone
    return " · ".join(parts)
