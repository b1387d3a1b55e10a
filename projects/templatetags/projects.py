"""``{% load projects %}``: words for roles."""

from django import template

from projects.choices import Role

register = template.Library()


@register.simple_tag
def role_label(value: str | None) -> str:
    """The role in the reader's language; a dash for somebody outside."""
    return str(Role(value).label) if value else "-"
