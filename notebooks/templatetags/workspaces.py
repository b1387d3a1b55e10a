"""Words about a workspace that several pages share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import template
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from common.templatetags.berth import cpus, mib
from notebooks.hub import open_url

if TYPE_CHECKING:
    from notebooks.models import Workspace
    from work.models import Ask

register = template.Library()


@register.simple_tag
def workspace_size(row: Ask) -> str:
    """2 CPU · 4 GiB · 1 H100."""
    parts = [f"{cpus(row.cpu_milli)} CPU", mib(row.memory_mib)]
    if row.gpus:
        kind = row.gpu_flavor.replace(",", " / ") or ngettext(
            "GPU of any kind", "GPUs of any kind", row.gpus
        )
        parts.append(f"{row.gpus}\N{NO-BREAK SPACE}{kind}")  # a number never ends a line alone
    return " · ".join(parts)


@register.simple_tag
def workspace_reason(row: Workspace) -> str:
    """Why it is as it is, in plain words; empty when there is nothing to say."""
    return row.why.text if row.is_seen else _("A moment, please.")


@register.simple_tag
def workspace_url(row: Workspace) -> str:
    return open_url(row)


@register.simple_tag
def workspace_step(row: Workspace, word: str) -> str:
    from notebooks.ui.present import is_far, step_word

    return step_word(word, on_cluster=is_far(row))
