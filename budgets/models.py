"""How many GPU-hours may be spent in the last days, and what follows when they are."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from budgets.choices import MAX_DAYS, MAX_HOURS, Mode
from common.ids import new_uid
from projects.models import Project
from queues.models import Queue


class Budget(models.Model):
    """Weighted GPU-hours of a project, of a person in one, or of an organisation.

    The window rolls: at each moment what was held in the last ``days`` counts.
    """

    KIND = "budget"

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    project = models.ForeignKey(
        Project, null=True, on_delete=models.CASCADE, related_name="budgets"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="budgets"
    )
    organisation = models.ForeignKey(
        Queue, null=True, on_delete=models.CASCADE, related_name="budgets"
    )
    hours = models.DecimalField(
        _("GPU-hours"),
        max_digits=12,
        decimal_places=2,
        validators=[MinValueValidator(0), MaxValueValidator(MAX_HOURS)],
    )
    days = models.PositiveSmallIntegerField(
        _("days"), default=30, validators=[MinValueValidator(1), MaxValueValidator(MAX_DAYS)]
    )
    mode = models.CharField(_("when it is spent"), max_length=8, choices=Mode.choices)
    stops = models.BooleanField(_("stop what runs then"), default=False)  # hard ones only
    nearly_at = models.DateTimeField(null=True)  # it was told that 80 % are spent
    spent_at = models.DateTimeField(null=True)  # and that all of it is
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(project__isnull=False, organisation__isnull=True)
                | Q(project__isnull=True, user__isnull=True, organisation__isnull=False),
                name="budgets_of_somebody",
            ),
            models.UniqueConstraint(
                fields=["project"],
                condition=Q(project__isnull=False, user__isnull=True),
                name="budgets_project_once",
            ),
            models.UniqueConstraint(
                fields=["project", "user"],
                condition=Q(user__isnull=False),
                name="budgets_member_once",
            ),
            models.UniqueConstraint(
                fields=["organisation"],
                condition=Q(organisation__isnull=False),
                name="budgets_organisation_once",
            ),
        ]

    def __str__(self) -> str:
        if self.organisation is not None:
            return self.organisation.name
        name = self.project.name if self.project else ""
        return f"{self.user.label} · {name}" if self.user else name


class UsedDay(models.Model):
    """What launches that are over held of a kind of GPU on one day (UTC); see ``budgets.days``."""

    project_uid = models.UUIDField()
    owner_uid = models.UUIDField()
    flavor = models.CharField(max_length=63, blank=True, default="")
    day = models.DateTimeField()  # its midnight
    amount = models.BigIntegerField()  # microseconds of one GPU, unweighted
    begun = models.DateTimeField()  # when the first of these launches began, on whatever day
    until = models.DateTimeField()  # until when the last of them held any on this day

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project_uid", "day", "owner_uid", "flavor"], name="budgets_day_once"
            )
        ]
        indexes = [models.Index(fields=["day"], name="budgets_by_day")]

    def __str__(self) -> str:
        return f"{self.project_uid} {self.flavor} {self.day:%Y-%m-%d}"


class Uncounted(models.Model):
    """A launch up to ``Roll.counted`` that is in no day yet. A key, as intervals outlive all."""

    interval = models.BigIntegerField(unique=True)
    project_uid = models.UUIDField(db_index=True)

    def __str__(self) -> str:
        return str(self.interval)


class Roll(models.Model):
    """How far launches are counted, by the keys of their intervals; one row."""

    counted = models.BigIntegerField(default=0)  # all up to it are in days, or ``Uncounted``
    safe = models.BigIntegerField(default=0)  # up to it none is still being written
    latest = models.BigIntegerField(default=0)  # the last one that was there at ``latest_at``
    latest_at = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.counted)
