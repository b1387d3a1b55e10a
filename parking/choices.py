"""What an idle policy does, and whether it does it."""

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy


class Act(models.TextChoices):
    """What follows when somebody was told and nothing changed."""

    PARK = "park", _("Park: stop it, give its GPUs back, keep everything else")
    STOP = "stop", _("Stop it")
    TELL = "tell", _("Only tell its owner")


class State(models.TextChoices):
    """Whether a policy is in force."""

    OFF = "off", pgettext_lazy("policy", "Off")
    DRY_RUN = "dry-run", _("Dry run: count what it would give back, touch nothing")
    ON = "on", pgettext_lazy("policy", "On")


MAX_MINUTES = 60 * 24 * 30
MAX_EXTENSIONS = 100
WEEK = "1234567"  # Monday first

_NUMBERS = {
    "kind": _("kind of work"),
    "minutes": _("idle for (minutes)"),
    "grace": _("notice (minutes)"),
    "gpu_below": _("GPU below (percent)"),
    "cpu_below": _("processor below (thousandths of a CPU)"),
    "memory_below": _("GPU memory below (MiB)"),
    "network_below": _("network below (KiB a second)"),
    "act": _("what follows"),
    "state": _("state"),
    "extension": _("one extension (minutes)"),
    "extensions": _("extensions without a reason"),
    "weekdays": _("days of the week"),
    "from_hour": _("from (hour)"),
    "until_hour": _("until (hour)"),
    "gpu_hours": _("GPU-hours that it would have given back in 7 days"),
}
_ANSWERS = {"None": "-", **dict(Act.choices), **dict(State.choices)}


def changes_in_words(message: str) -> str:
    """Return “minutes: 60 → 30” as people read it."""
    told = []
    for piece in message.split(", "):
        name, _colon, change = piece.partition(": ")
        if name not in _NUMBERS:
            return message
        shown = (str(_ANSWERS.get(one, one)) for one in change.split(" → "))
        told.append(f"{_NUMBERS[name]}: {' → '.join(shown)}")
    return ", ".join(told)
