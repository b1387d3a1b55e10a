"""The tenant: a project, who belongs to it, and who was invited."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from common.ids import new_uid
from projects.choices import Role
from runtime.models import Reconcilable


class Project(Reconcilable):
    """One tenant; one namespace per cluster. Deleted only after all it holds is gone."""

    KIND = "project"

    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(_("name"), max_length=120)
    description = models.TextField(_("description"), blank=True, default="", max_length=2000)
    archived_at = models.DateTimeField(null=True)
    members = models.ManyToManyField(
        settings.AUTH_USER_MODEL, through="Membership", related_name="projects"
    )

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """The only place that says who may do what in a project."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships"
    )
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.MEMBER)
    # True: kept in line with a group of the identity provider (projects.services)
    from_group = models.CharField(max_length=120, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "user"], name="projects_member_once")
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.project}: {self.role}"


class Invitation(models.Model):
    """A place kept for somebody by mail address; the link's secret is kept as a hash only."""

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    project = models.ForeignKey(
        Project, on_delete=models.CASCADE, related_name="invitations", null=True
    )
    email = models.EmailField()
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.MEMBER)
    digest = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.email


class GroupRole(models.Model):
    """A group of the identity provider that means a role (in a project, or on the platform)."""

    group = models.CharField(max_length=120)
    project = models.ForeignKey(Project, null=True, on_delete=models.CASCADE)
    role = models.CharField(max_length=16, choices=Role.choices, blank=True, default="")
    platform_role = models.CharField(max_length=16, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["group", "project"], name="projects_group_once")
        ]


class IdempotencyKey(models.Model):
    """A POST that was answered: the same key gets the same answer (projects.idempotency)."""

    user_uid = models.UUIDField()
    key = models.CharField(max_length=128)
    route = models.CharField(max_length=400)
    body_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(default=0)
    response = models.TextField(blank=True, default="")
    headers = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user_uid", "key"], name="projects_idempotency_once")
        ]
