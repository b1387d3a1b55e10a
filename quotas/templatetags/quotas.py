"""``{% load quotas %}{% project_share project %}``: used and left, wherever something starts."""

from typing import Any

from django import template

from projects.models import Project
from quotas.selectors import Account

register = template.Library()


@register.inclusion_tag("quotas/_share.html", takes_context=True)
def project_share(
    context: dict[str, Any], project: Project, *, only_limited: bool = False
) -> dict[str, Any]:
    """Show the project's share and the reader's own limits there (two queries)."""
    shares = Account(project, context["request"].user).shares()
    return {"shares": [s for s in shares if s.limit is not None or not only_limited]}
