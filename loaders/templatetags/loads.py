"""Words about a load that several pages share."""

from __future__ import annotations

from django import template
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from common.templatetags.berth import badge, filesize
from loaders.choices import Result, State
from loaders.codes import object_text

register = template.Library()

# state → (tone, shape): the word and the shape say it, the colour only repeats it
SHAPES: dict[str, tuple[str, str]] = {
    State.WAITING: ("info", "hourglass"),
    State.QUEUED: ("info", "hourglass"),
    State.STARTING: ("info", "loader-2"),
    State.LISTING: ("info", "list-search"),
    State.COPYING: ("info", "transfer"),
    State.VERIFYING: ("info", "list-check"),
    State.PAUSING: ("quiet", "loader-3"),
    State.CANCELLING: ("quiet", "loader-3"),
    State.STOPPING: ("quiet", "loader-3"),
    State.PAUSED: ("quiet", "player-pause"),
    State.DONE: ("good", "circle-check"),
    State.PARTIAL: ("warning", "alert-circle"),
    State.FAILED: ("danger", "alert-triangle"),
    State.CANCELLED: ("quiet", "circle-x"),
    State.STOPPED: ("quiet", "square"),
    State.DELETING: ("quiet", "trash"),
}


@register.simple_tag
def result_badge(result: str) -> SafeString:
    if not result:
        return badge(_("Under way"), "info", "loader-2")
    tone, shape = SHAPES[State(result)]
    return badge(Result(result).label, tone, shape)


@register.filter
def object_code(code: str) -> str:
    """Why one object was not copied."""
    return object_text(code)


@register.filter
def rate(value: float | None) -> str:
    """Bytes a second for people."""
    return _("%(size)s/s") % {"size": filesize(value or 0)}
