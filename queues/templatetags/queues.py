"""``{% load queues %}{% project_queue project %}``: what a project has of each kind of GPU."""

from typing import Any

from django import template

from projects.models import Project
from queues.selectors import of_project

register = template.Library()


@register.inclusion_tag("queues/_own.html")
def project_queue(project: Project) -> dict[str, Any]:
    """Show what is guaranteed, borrowed and waited for; nothing where nothing is."""
    return {"own": of_project(project)}
