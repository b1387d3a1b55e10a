"""The tabs of the settings pages, also on allauth's own pages."""

from typing import Any

from django import template
from django.utils.translation import gettext as _

from accounts.ui.base import tabs

register = template.Library()


@register.inclusion_tag("components/tabs.html", takes_context=True)
def settings_tabs(context: dict[str, Any]) -> dict[str, Any]:
    return {"tabs": tabs(context["request"].path), "label": _("Settings")}
