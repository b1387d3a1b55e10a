"""Words that every kind of work has."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _


class StopReason(TextChoices):
    """Why it was told to stop. A kind may have more, and other words for what a person asks."""

    USER = "user", _("Stopped by its owner")
    TIME_LIMIT = "time-limit", _("The time limit was reached")
    PROJECT_ARCHIVED = "project-archived", _("The project was archived")
    OWNER_DISABLED = "owner-disabled", _("The account of its owner was disabled")
    OWNER_LEFT = "owner-left", _("Its owner left the project")
