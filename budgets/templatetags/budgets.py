"""``{% load budgets %}{% project_budgets project %}``: what is spent, and until when it lasts."""

from typing import Any

from django import template

from budgets import selectors
from projects.models import Project

register = template.Library()


@register.inclusion_tag("budgets/_own.html", takes_context=True)
def project_budgets(context: dict[str, Any], project: Project) -> dict[str, Any]:
    """Show the budgets that hold for the reader's work there; one query where there are none."""
    return {"meters": selectors.of_project(project, context["request"].user)}
