"""Ceilings on what may be asked for, and what is taken of them now."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from projects.models import Project


class Limit(models.Model):
    """A ceiling. No row means no limit. Three scopes, told apart by what is null:

    project only: all members together; project and user: one member there; user only: one
    person in all projects together. ``each``: every member of the project alike, but for those
    who have one of their own; said in the tree of queues.
    """

    project = models.ForeignKey(Project, null=True, on_delete=models.CASCADE, related_name="limits")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="limits"
    )
    each = models.BooleanField(default=False, db_default=False)
    resource = models.CharField(max_length=80)
    amount = models.PositiveBigIntegerField()
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(project__isnull=False) | Q(user__isnull=False),
                name="quotas_limit_of_somebody",
            ),
            models.UniqueConstraint(
                fields=["project", "resource"],
                condition=Q(user__isnull=True, each=False),
                name="quotas_project_limit_once",
            ),
            models.UniqueConstraint(
                fields=["project", "resource"],
                condition=Q(each=True),
                name="quotas_each_limit_once",
            ),
            models.CheckConstraint(
                condition=Q(each=False) | Q(project__isnull=False, user__isnull=True),
                name="quotas_each_of_a_project",
            ),
            models.UniqueConstraint(
                fields=["project", "user", "resource"],
                condition=Q(project__isnull=False, user__isnull=False),
                name="quotas_member_limit_once",
            ),
            models.UniqueConstraint(
                fields=["user", "resource"],
                condition=Q(project__isnull=True),
                name="quotas_user_limit_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.resource} ≤ {self.amount}"


class Reservation(models.Model):
    """What one workload holds of one resource, from the intent until it is seen to be gone.

    ``launch`` keeps a late release of an earlier launch from freeing a newer one's.
    """

    workload_uid = models.UUIDField()
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    resource = models.CharField(max_length=80)
    amount = models.PositiveBigIntegerField()
    launch = models.PositiveIntegerField(default=0)
    reserved_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workload_uid", "resource"], name="quotas_reservation_once"
            )
        ]
        indexes = [
            models.Index(fields=["project", "resource"], name="quotas_by_project"),
            models.Index(fields=["owner", "resource"], name="quotas_by_owner"),
        ]

    def __str__(self) -> str:
        return f"{self.workload_uid} {self.resource} {self.amount}"
