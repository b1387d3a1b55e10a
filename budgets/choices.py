"""What a budget does when it is spent, and what work beyond it is."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Mode(models.TextChoices):
    """What goes for work beyond the budget."""

    SOFT = "soft", _("Soft: it only borrows, and gives back first")
    HARD = "hard", _("Hard: nothing new starts")


# The most that a budget may be; exact in every reader of JSON.
MAX_HOURS = 1_000_000_000
MAX_DAYS = 366

_NUMBERS = {
    "hours": _("GPU-hours"),
    "days": _("days"),
    "mode": _("when it is spent"),
    "stops": _("what runs is stopped"),
}
_ANSWERS = {"True": _("yes"), "False": _("no"), **dict(Mode.choices)}


def changes_in_words(message: str) -> str:
    """Return “hours: 100 → 200” as people read it."""
    told = []
    for piece in message.split(", "):
        name, _colon, change = piece.partition(": ")
        if name not in _NUMBERS:
            return message
        shown = (str(_ANSWERS.get(one, one)) for one in change.split(" → "))
        told.append(f"{_NUMBERS[name]}: {' → '.join(shown)}")
    return ", ".join(told)
