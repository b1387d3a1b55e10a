"""Words that kinds of work share."""

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from runtime.reasons import Reason


class StopReason(TextChoices):
    """Why it was told to stop. A kind uses those it needs, or has a set of its own."""

    USER = "user", _("Stopped by its owner")
    MANAGER = "manager", _("Stopped by a manager of the project")
    OPERATOR = "operator", _("Stopped by an operator")
    CANCELLED = "cancelled", _("Cancelled")
    TIME_LIMIT = "time-limit", _("The time limit was reached")
    PARKED = "parked", _("Parked; resume any time")
    IDLE = "idle", _("It was idle")
    PROJECT_ARCHIVED = "project-archived", _("The project was archived")
    OWNER_DISABLED = "owner-disabled", _("The account of its owner was disabled")
    OWNER_LEFT = "owner-left", _("Its owner left the project")
    BUDGET = "budget", _("The GPU-hours of its budget were spent")
    SEARCH = "search", _("The search that it is a trial of ended it")
    ASLEEP = "asleep", _("Put to sleep: the next request wakes it")

    @property
    def seen(self) -> Reason:
        """The engine's reason for it; those are fewer, and pages tell the finer one."""
        return {
            StopReason.MANAGER: Reason.OPERATOR,
            StopReason.OPERATOR: Reason.OPERATOR,
            StopReason.TIME_LIMIT: Reason.TIME_LIMIT,
            StopReason.IDLE: Reason.IDLE,
            StopReason.PARKED: Reason.PARKED,
            StopReason.PROJECT_ARCHIVED: Reason.PROJECT_ARCHIVED,
            StopReason.OWNER_DISABLED: Reason.OWNER_DISABLED,
            StopReason.OWNER_LEFT: Reason.OWNER_DISABLED,
            StopReason.BUDGET: Reason.BUDGET,
        }.get(self, Reason.USER)


class Void(TextChoices):
    """Why a ticket is no more; work that has one then asks for GPUs like all others."""

    EXPIRED = "expired", _("Its time was over.")
    LOWERED = "lowered", _("Less is guaranteed to its project than it held.")
    LARGER = "larger", _("It asks for more GPUs than it held, or for others.")
    ELSEWHERE = "elsewhere", _("On this cluster its own queue decides who is next.")
    PROJECT_ARCHIVED = "project-archived", _("The project was archived.")
    OWNER_DISABLED = "owner-disabled", _("The account of its owner was disabled.")
    OWNER_LEFT = "owner-left", _("Its owner left the project.")
