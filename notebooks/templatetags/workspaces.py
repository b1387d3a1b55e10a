"""Words about a workspace that several pages share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import template
from django.utils.translation import gettext as _

from notebooks.hub import open_url
from work.ui.sizes import size_words

if TYPE_CHECKING:
    from notebooks.models import Workspace

register = template.Library()


register.simple_tag(size_words, name="workspace_size")


@register.simple_tag
def workspace_reason(row: Workspace) -> str:
    """Why it is as it is, in plain words; empty when there is nothing to say."""
    return row.why.text if row.is_seen else _("A moment, please.")


@register.simple_tag
def workspace_url(row: Workspace) -> str:
    return open_url(row)
