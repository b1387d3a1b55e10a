"""The tenant: a project, who belongs to it, who was invited, and its places on clusters."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from common.clock import now
from common.ids import new_uid
from projects.choices import GrantKind, Role
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
    clusters = models.ManyToManyField("clusters.Cluster", blank=True, related_name="+")  # none: all

    def __str__(self) -> str:
        return self.name


class ProjectNamespace(Reconcilable):
    """A project's namespace on one cluster, with everything that keeps it to itself."""

    KIND = "place"

    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="places")
    namespace = models.CharField(max_length=63)

    class Meta(Reconcilable.Meta):
        abstract = False
        # Named as the table was made: a process of the version before writes there too.
        db_table = "projects_projectplace"
        constraints = [
            models.CheckConstraint(
                condition=Q(observed_generation__lte=F("generation")),
                name="projects_projectplace_observed_lte_generation",
            ),
            models.UniqueConstraint(
                fields=["project", "cluster_key"],
                condition=Q(deleted_at__isnull=True),
                name="projects_one_place",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_reconcile_at"],
                condition=Q(deleted_at__isnull=True),
                name="projects_projectpla_due",
            )
        ]

    def __str__(self) -> str:
        return f"{self.project} / {self.cluster_key}"


class KubeGrant(models.Model):
    """A kubeconfig that somebody made: tokens are bound to it and end with it.

    No token is kept. ``exec`` asks for a new one each quarter of an hour, ``token`` holds one
    that lives as long as the grant.
    """

    KIND = "kubeconfig"

    uid = models.UUIDField(default=new_uid, unique=True, editable=False)
    place = models.ForeignKey(ProjectNamespace, on_delete=models.CASCADE, related_name="grants")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="kube_grants"
    )
    kind = models.CharField(max_length=8, choices=GrantKind.choices, default=GrantKind.EXEC)
    name = models.CharField(max_length=80)
    token_uid = models.UUIDField(null=True, editable=False)  # the API token that made it
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)  # a token was asked for
    last_used_ip = models.CharField(max_length=64, blank=True, default="")
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["user", "place"],
                condition=Q(revoked_at__isnull=True),
                name="projects_live_grants",
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_live(self) -> bool:
        return self.revoked_at is None and self.expires_at > now()


class Membership(models.Model):
    """The only place that says who may do what in a project."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships"
    )
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.MEMBER)
    # True: kept in line with a group of the identity provider (projects.services.members)
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
    """A POST that was answered: the same key gets the same answer (projects.middleware)."""

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
