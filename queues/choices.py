"""What queues tell apart: what work is for, and where it stands."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from runtime import ports


class Purpose(models.TextChoices):
    """What work is for: it sets how it is let in, where nobody says otherwise (A1)."""

    BUILD = "build", _("Building")
    TRAIN = "train", _("Training")
    INFERENCE = "inference", _("Prediction")


class Who(models.TextChoices):
    """Who may ask for a priority."""

    EVERYBODY = "everybody", _("everybody")
    MANAGERS = "managers", _("managers of the project")
    OPERATORS = "operators", _("operators")


class Beyond(models.TextChoices):
    """What work is whose GPU-hours are spent; ``budgets`` say so."""

    NONE = "", _("within its budget")
    BORROWS = "borrows", _("only borrows")
    WAITS = ports.WAITS, _("waits")


# The class of priority of what only borrows, where a cluster's own queue decides.
OVER_BUDGET = "over-budget"

_NUMBERS = {
    "name": _("name"),
    "parent": _("stands below"),
    "weight": _("weight"),
    "build_exceeds": _("building may exceed the guarantee"),
    "guaranteed": _("guaranteed"),
    "most": _("most"),
    "lends": _("lends"),
    "each_gpus": _("GPUs of each person at most"),
    "minutes": _("minutes at most"),
}
_ANSWERS = {"True": _("yes"), "False": _("no")}


def changes_in_words(message: str) -> str:
    """Return what was changed about a part as people read it: “local/h100 guaranteed: 2 → 4”."""
    told = []
    for piece in message.split(", "):
        what, colon, change = piece.partition(": ")
        where, _space, number = what.rpartition(" ")
        if not colon or number not in _NUMBERS:
            told.append(piece)
            continue
        where = str(Purpose(where).label) if where in Purpose.values else where
        shown = (str(_ANSWERS.get(one, one)) for one in change.split(" → "))
        told.append(f"{where} {_NUMBERS[number]}: {' → '.join(shown)}".strip())
    return ", ".join(told)
