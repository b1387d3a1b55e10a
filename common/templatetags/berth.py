"""Template tags used everywhere (a builtin library: no {% load %} needed)."""

from django import template

register = template.Library()
