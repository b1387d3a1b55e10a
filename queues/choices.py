"""What queues tell apart: what work is for, and where it stands."""

from django.db import models
from django.utils.translation import gettext_lazy as _


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
