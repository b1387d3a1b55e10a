"""A volume's state and room in templates."""

from django import template

from volumes.ui.words import state_badge, usage_bar

register = template.Library()
register.simple_tag(state_badge, name="volume_state")
register.simple_tag(usage_bar, name="volume_usage")
